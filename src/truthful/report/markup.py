"""HTML out of plain text. All text goes through `text`: a name from a study is never markup."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from importlib import resources
from string import Template

from truthful.charts.drawing import Chart, inline

#: Letters that HTML does not allow, escaped or not: control characters and surrogates.
_FORBIDDEN = re.compile("[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\\ud800-\\udfff\\ufffe\\uffff]")
#: Signs that turn the direction of what follows; a name may not reach beyond itself.
_TURNING = re.compile("[\\u202a-\\u202e\\u2066-\\u2069]")


def text(words: str) -> str:
    """Words as they are, whatever they look like."""
    return html.escape(_TURNING.sub("", _FORBIDDEN.sub("\ufffd", words)))


def paragraph(words: str, kind: str = "") -> str:
    return f'<p class="{kind}">{text(words)}</p>' if kind else f"<p>{text(words)}</p>"


def table(caption: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column names its rows."""
    return _table(caption, head, f"<tbody>\n{_rows(rows)}\n</tbody>")


def grouped_table(
    caption: str, head: Sequence[str], groups: Sequence[tuple[str, Sequence[Sequence[str]]]]
) -> str:
    """A table in parts, each under a name of its own."""
    parts = (
        f'<tbody>\n<tr><th scope="rowgroup" colspan="{len(head)}">{text(name)}</th></tr>\n{_rows(rows)}\n</tbody>'
        for name, rows in groups
    )
    return _table(caption, head, "\n".join(parts))


def _table(caption: str, head: Sequence[str], body: str) -> str:
    top = "".join(f'<th scope="col">{text(cell)}</th>' for cell in head)
    return f"<table>\n<caption>{text(caption)}</caption>\n<thead><tr>{top}</tr></thead>\n{body}\n</table>"


def _rows(rows: Sequence[Sequence[str]]) -> str:
    return "\n".join(
        f'<tr><th scope="row">{text(first)}</th>{"".join(f"<td>{text(cell)}</td>" for cell in rest)}</tr>'
        for first, *rest in rows
    )


def figure(chart: Chart, name: str, caption: str) -> str:
    """A chart and what to see in it. Its numbers stand in a table beside it."""
    return f"<figure>\n{inline(chart, name)}\n<figcaption>{text(caption)}</figcaption>\n</figure>"


def facts(rows: Sequence[tuple[str, str]]) -> str:
    """Names and their values."""
    inside = "\n".join(f"<dt>{text(name)}</dt><dd>{text(value)}</dd>" for name, value in rows)
    return f"<dl>\n{inside}\n</dl>"


def command(line: str) -> str:
    return f"<pre><code>{text(line)}</code></pre>"


def section(heading: str, *parts: str) -> str:
    return "\n".join([f"<section>\n<h2>{text(heading)}</h2>", *parts, "</section>"])


def page(title: str, *parts: str) -> str:
    """A whole page of these parts, its style inside."""
    files = resources.files("truthful.report")
    template, style = (files.joinpath(f"page.{kind}").read_text(encoding="utf-8") for kind in ("html", "css"))
    return Template(template).substitute(title=text(title), style=style.strip(), body="\n".join(parts))
