"""Records as a notebook shows them: what a terminal shows, as HTML tables or as plain text."""

from __future__ import annotations

from dataclasses import asdict
from html import escape
from io import StringIO
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from truthful.plan import Plan
from truthful.release import Release, Verdict
from truthful.settlement import Settlement
from truthful.show.plan_view import plan_view
from truthful.show.settlement_view import paid_line, release_view, verdict_title
from truthful.show.terminal import WIDTH, simulation_view, table
from truthful.simulation import Simulation


def views(record: object) -> list[RenderableType]:
    """The views of a record, as in a terminal."""
    match record:
        case Plan():
            return plan_view(record)
        case Release():
            return release_view(record, record.declared_study())
        case Settlement():
            release, currency = record.release, record.release.payment.currency
            return [*release_view(release, release.declared_study()), paid_line(record, currency)]
        case Simulation():
            return simulation_view(record)
        case Verdict():
            told = {name: value for name, value in asdict(record).items() if value is not None}
            rows = [(name, str(value)) for name, value in told.items()]
            return [verdict_title(record), table("", ("", ""), rows)]
    raise TypeError(f"There is no view of a {type(record).__name__}.")


def text(record: object) -> str:
    """The record as a terminal shows it, without colours."""
    console = Console(
        file=StringIO(), width=WIDTH, markup=False, emoji=False, highlight=False, color_system=None
    )
    with console.capture() as captured:
        for view in views(record):
            console.print(view, soft_wrap=isinstance(view, str))
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def html(record: object) -> str:
    """The record as HTML, with all text escaped."""
    return "\n".join(_html(view) for view in views(record))


def _html(view: RenderableType) -> str:
    match view:
        case Table():
            return _table(view)
        case Group():
            return "\n".join(_html(part) for part in view.renderables)
        case Panel():
            return _html(view.renderable)
    words = _words(view)
    return f"<p>{words}</p>" if words else ""


def _table(view: Table) -> str:
    title = f"<caption>{_words(view.title)}</caption>" if view.title else ""
    heads = "".join(f"<th>{_words(column.header)}</th>" for column in view.columns)
    head = f"<thead><tr>{heads}</tr></thead>" if view.show_header else ""
    rows = zip(*(column.cells for column in view.columns), strict=True)
    body = "".join(f"<tr>{''.join(f'<td>{_words(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table>{title}{head}<tbody>{body}</tbody></table>"


def _words(view: Any) -> str:
    words = view.plain if isinstance(view, Text) else str(view)
    return escape(words.strip()).replace("\n", "<br>")
