"""A simulation as people read it in a terminal: observed next to guaranteed, who earned what, the best response."""

from __future__ import annotations

from textwrap import fill

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from truthful.show import table
from truthful.simulation import Simulation
from truthful.simulation.observations import (
    EARNINGS,
    best_reports,
    beyond,
    compared_with,
    earnings_rows,
    observations,
)

#: Letters of a line.
WIDTH = 114


def simulation_view(simulation: Simulation) -> list[RenderableType]:
    """The five guarantees, the earnings of every kind of people, and what the greediest would report."""
    said = _lines(beyond(simulation), compared_with(simulation))
    views: list[RenderableType] = [observed_table(simulation), said]
    views += [earnings_table(simulation), _lines(*best_reports(simulation))]
    return [view for view in views if view]


def observed_table(simulation: Simulation) -> Table:
    """Observed next to guaranteed, in the guarantees' order."""
    grid = table(
        f"Observed in {simulation.runs:,} studies of {simulation.plan.answering:,} players, and guaranteed",
        "",
        "number",
        "observed",
        "guaranteed",
        right=("observed", "guaranteed"),
    )
    before = ""
    for row in observations(simulation):
        name = "" if row.guarantee == before else row.guarantee
        grid.add_row(Text(name, "bold"), row.words, row.observed, row.guaranteed)
        before = row.guarantee
    return grid


def earnings_table(simulation: Simulation) -> Table:
    """What people of each kind were paid, what privacy left of it, and what lying earned them over the truth."""
    grid = table(f"Earnings ({simulation.plan.study.currency})", *EARNINGS, right=EARNINGS[1:])
    for row in earnings_rows(simulation):
        grid.add_row(*row)
    return grid


def _lines(*sentences: str) -> str:
    return "".join(f"{fill(sentence, WIDTH)}\n" for sentence in sentences if sentence)
