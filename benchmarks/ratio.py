"""Rates beside those of a baseline, and the table in which they are printed."""

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Ratio:
    """Our rate and the baseline's, both per second and measured in the same run.

    Their ratio depends little on the speed of the machine. `goal` is the least ratio that is good enough.
    """

    name: str
    ours: float
    bare: float
    goal: float

    @property
    def value(self) -> float:
        return self.ours / self.bare


def show(ratios: list[Ratio]) -> None:
    """Print the table; ratios that miss their goal are red."""
    table = Table(
        "benchmark", "ours per s", "baseline per s", "ratio", "goal", title="Rates against a baseline of the same run"
    )
    for ratio in ratios:
        color = "green" if ratio.value >= ratio.goal else "red"
        table.add_row(
            ratio.name, f"{ratio.ours:,.0f}", f"{ratio.bare:,.0f}", f"[{color}]{ratio.value:.2f}", f"{ratio.goal:.2f}"
        )
    Console().print(table)
