"""A `python` task: a function that takes the document and returns a dict, the run's output."""
# ruff: noqa: T201

import csv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def check(document: dict[str, Any]) -> dict[str, Any]:
    """Return the products that will be used up within `days` days."""
    days = document["input"].get("days", 2)
    with open(ROOT / "data" / "stock.csv", encoding="utf-8", newline="") as file:
        lasts = {row["product"]: int(row["in_stock"]) / int(row["needed_per_day"]) for row in csv.DictReader(file)}
    low = {product: round(remaining, 1) for product, remaining in lasts.items() if remaining < days}
    for product, remaining in sorted(low.items(), key=lambda item: item[1]):
        print(f"order {product}: lasts {remaining} days")
    return {"checked": len(lasts), "low": low}
