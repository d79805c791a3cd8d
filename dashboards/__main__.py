"""Writes the chart's dashboards and rules anew: `make dashboards`."""

from pathlib import Path

from dashboards import database, fleet, runs, trigger
from dashboards.alerts import ALERTS, rules
from dashboards.panels import as_json

CHART = Path(__file__).parents[1] / "charts" / "triggerctl"
BOARDS = {"fleet": fleet, "trigger": trigger, "runs": runs, "database": database}


def files() -> dict[Path, str]:
    """Each file, and what is to stand in it."""
    made = {CHART / "dashboards" / f"{name}.json": as_json(module.board()) for name, module in BOARDS.items()}
    return made | {CHART / "rules" / "triggerctl.yaml": rules(ALERTS)}


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")
