"""A `process` task: writes a sales report for the newest week in data/sales.csv, as Markdown, HTML or CSV.

Like every process task it reads one JSON document from standard input, writes a JSON object to the file named by
TRIGGERCTL_OUTPUT, and exits with 0. Its standard output is the log (`triggerctl runs logs RUN`).
"""
# ruff: noqa: T201

import csv
import html
import json
import os
import sys
from collections import defaultdict
from datetime import date, timedelta
from pathlib import Path

WEEK = timedelta(days=7)

Row = tuple[str, int, float, float | None]
"""Product, pieces sold, revenue, change from the previous week in percent."""


def weekly(sales: list[dict[str, str]]) -> tuple[date, list[Row]]:
    """Return the Monday of the newest week and a row per product, highest revenue first."""
    newest = max(date.fromisoformat(sale["date"]) for sale in sales)
    monday = newest - timedelta(days=newest.weekday())
    sold: dict[str, int] = defaultdict(int)
    revenue: dict[tuple[str, date], float] = defaultdict(float)
    for sale in sales:
        day = date.fromisoformat(sale["date"])
        week = day - timedelta(days=day.weekday())
        revenue[sale["product"], week] += int(sale["sold"]) * float(sale["price"])
        if week == monday:
            sold[sale["product"]] += int(sale["sold"])
    rows: list[Row] = []
    for product, pieces in sold.items():
        now, before = revenue[product, monday], revenue[product, monday - WEEK]
        rows.append((product, pieces, now, 100 * (now - before) / before if before else None))
    return monday, sorted(rows, key=lambda row: -row[2])


def cells(row: Row) -> tuple[str, str, str, str]:
    product, pieces, revenue, change = row
    return product, f"{pieces:,}", f"{revenue:,.2f}", "-" if change is None else f"{change:+.1f} %"


def as_markdown(title: str, rows: list[Row]) -> str:
    table = [("Product", "Sold", "Revenue", "Change"), *map(cells, rows)]
    name, *widths = [max(len(line[column]) for line in table) for column in range(4)]
    lines = [
        f"| {product:<{name}} | "
        + " | ".join(f"{cell:>{width}}" for cell, width in zip(rest, widths, strict=True))
        + " |"
        for product, *rest in table
    ]
    rule = "|".join(["", "-" * (name + 2), *("-" * (width + 1) + ":" for width in widths), ""])
    return "\n".join([f"# {title}", "", lines[0], rule, *lines[1:], ""])


def as_html(title: str, rows: list[Row]) -> str:
    head = "<tr><th>Product<th>Sold<th>Revenue<th>Change</tr>"
    body = "\n".join("<tr><td>" + "<td>".join(map(html.escape, cells(row))) + "</tr>" for row in rows)
    heading = html.escape(title)
    return f"<!doctype html>\n<title>{heading}</title>\n<h1>{heading}</h1>\n<table>\n{head}\n{body}\n</table>\n"


def as_csv(title: str, rows: list[Row]) -> str:
    return "\n".join(["product,sold,revenue", *(f"{row[0]},{row[1]},{row[2]:.2f}" for row in rows), ""])


FORMATS = {"markdown": ("md", as_markdown), "html": ("html", as_html), "csv": ("csv", as_csv)}


def main() -> None:
    document = json.load(sys.stdin)
    ending, write = FORMATS[document["input"].get("format", "markdown")]
    with open("data/sales.csv", encoding="utf-8", newline="") as file:
        monday, rows = weekly(list(csv.DictReader(file)))

    year, week, _ = monday.isocalendar()
    path = Path("reports") / f"sales-{year}-W{week:02}.{ending}"
    path.parent.mkdir(exist_ok=True)
    part = path.with_name(f"{path.name}.{document['run']['id']}")
    part.write_text(write(f"Bakery sales, week {week} of {year}", rows), encoding="utf-8")
    part.replace(path)  # a reader sees the old or the new report, never a part of one

    revenue = round(sum(row[2] for row in rows), 2)
    print(f"wrote {path}: {len(rows)} products, revenue {revenue:,.2f}, best seller {rows[0][0]}")
    output = {"report": str(path), "revenue": revenue, "best_seller": rows[0][0]}
    Path(os.environ["TRIGGERCTL_OUTPUT"]).write_text(json.dumps(output), encoding="utf-8")


if __name__ == "__main__":
    main()
