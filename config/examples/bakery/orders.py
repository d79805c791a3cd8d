"""A `process` task for one time slot: exports the orders of the two seconds before `input.slot`.

The file is named after the slot, so a second attempt replaces it instead of adding the orders twice. A run that is
caught up later exports the same orders as a run on time. data/orders.csv is one recorded minute of the till, repeated
every minute.
"""
# ruff: noqa: T201

import csv
import json
import os
import sys
from datetime import datetime, timedelta
from pathlib import Path

SPAN = timedelta(seconds=2)


def main() -> None:
    document = json.load(sys.stdin)
    slot = datetime.fromisoformat(document["input"]["slot"])  # set by `kickoff_time_input: slot`
    seconds = {(slot - SPAN + timedelta(seconds=n)).second for n in range(int(SPAN.total_seconds()))}
    with open("data/orders.csv", encoding="utf-8", newline="") as file:
        orders = [row for row in csv.DictReader(file) if int(row["second"]) in seconds]

    path = Path("exports") / f"orders-{slot:%Y-%m-%dT%H-%M-%SZ}.csv"
    path.parent.mkdir(exist_ok=True)
    with path.open("w", encoding="utf-8", newline="") as file:
        table = csv.writer(file)
        table.writerow(["slot", "order", "product", "amount"])
        table.writerows([f"{slot:%H:%M:%S}", row["order"], row["product"], row["amount"]] for row in orders)

    late = (datetime.fromisoformat(document["now"]) - slot).total_seconds()
    print(f"exported {len(orders)} orders of slot {slot:%H:%M:%S}, {late:.1f} s after it")
    output = {"file": str(path), "orders": len(orders)}
    Path(os.environ["TRIGGERCTL_OUTPUT"]).write_text(json.dumps(output), encoding="utf-8")


if __name__ == "__main__":
    main()
