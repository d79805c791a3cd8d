"""A measurement beside its bare baseline, and the table they are printed in."""

from dataclasses import dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Ratio:
    """`ours` and `bare` are rates (per second); their ratio is what counts, for the machine's speed drops out."""

    name: str
    ours: float
    bare: float
    goal: float

    @property
    def value(self) -> float:
        return self.ours / self.bare


def show(ratios: list[Ratio]) -> None:
    table = Table("benchmark", "ours /s", "bare /s", "ratio", "goal", title="ratios against a bare baseline, same run")
    for ratio in ratios:
        reached = "green" if ratio.value >= ratio.goal else "red"
        table.add_row(
            ratio.name, f"{ratio.ours:,.0f}", f"{ratio.bare:,.0f}", f"[{reached}]{ratio.value:.2f}", f"{ratio.goal:.2f}"
        )
    Console().print(table)
