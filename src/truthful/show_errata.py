"""The errata of the paper as people read them in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from truthful.errata import Erratum
from truthful.show import table


def errata_view(errata: Sequence[Erratum]) -> list[RenderableType]:
    """One row each: what it is about, and the two numbers of its example, computed now."""
    grid = table(
        "The paper's claims, and what holds",
        "",
        "about",
        "measured",
        "the paper",
        "in fact",
        right=("the paper", "true"),
    )
    for erratum in errata:
        grid.add_row(Text(erratum.number, "bold"), erratum.title, erratum.meaning, *erratum.numbers())
    return [
        grid,
        "Every number was computed just now. One of them in full: truthful errata E3. All of them, and the tests that\n"
        "show them: docs/errata.md.",
    ]


def erratum_view(erratum: Erratum) -> list[RenderableType]:
    """One erratum in full."""
    claimed, true = erratum.numbers()
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="dim", no_wrap=True)
    for name, words in (
        ("where", erratum.where),
        ("the paper says", erratum.claim),
        ("in fact", erratum.fact),
        ("because", erratum.because),
        ("example", erratum.example),
        ("measured", erratum.meaning),
        ("the paper", claimed),
        ("in fact", true),
        ("shown by", erratum.test),
    ):
        rows.add_row(name, words)
    return [Panel(rows, title=Text(f"{erratum.number}: {erratum.title}", "bold"), title_align="left")]
