"""Write the dashboards and alert rules of the Helm chart: `make dashboards`."""

from pathlib import Path

from dashboards import database, fleet, runs, trigger
from dashboards.alerts import ALERTS, rules
from dashboards.panels import as_json

CHART = Path(__file__).parents[1] / "charts" / "triggerctl"
BOARDS = {"fleet": fleet, "trigger": trigger, "runs": runs, "database": database}


def files() -> dict[Path, str]:
    """Return the text of each generated file."""
    boards = {CHART / "dashboards" / f"{name}.json": as_json(module.board()) for name, module in BOARDS.items()}
    return boards | {CHART / "rules" / "triggerctl.yaml": rules(ALERTS)}


if __name__ == "__main__":
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")
