"""The page docs/errata.md, made from the errata themselves."""

from __future__ import annotations

import re

from truthful.errata import Erratum, errata

HEAD = """# Errata

Rachel Cummings, Stratis Ioannidis and Katrina Ligett, "Truthful Linear Regression" (COLT 2015), is the source of
this package. Its idea stands, and so do its five results once corrected. But some constants, proofs and statements
do not hold as printed, and some bounds that do hold are far from tight. This page lists what we found. Every row has
an example that puts the claim and the fact in numbers, computed by `truthful.errata` when this page was made, and a
test that shows the same by other means. Sections, theorems and lemmas are numbered as in the paper's LaTeX; its ε is
that of one estimate, half of the total that this package calls ε.

[Theory](theory.md) derives what this package does instead.

<!-- Made by `python tools/pages.py`. -->
"""
TABLE = ("| number | about | measured | the paper | in fact |", "|---|---|---|---|---|")
#: Indices and exponents, as plain text has them: λ_min, n^(−δ), e^ε.
LOWERED, RAISED = (
    re.compile(r"(\w)_([a-z]+)"),
    re.compile(r"\^(?:\(([^()]*(?:\([^()]*\)[^()]*)*)\)|(−?[\w.]+))"),
)


def page() -> str:
    """The page: an introduction, a short table of all errata, then a section for each."""
    found = errata()
    table = "\n".join((*TABLE, *map(_row, found)))
    return "\n".join((HEAD, table, *map(_section, found), ""))


def _row(erratum: Erratum) -> str:
    anchor = re.sub(r"[^\w -]", "", f"{erratum.number}. {erratum.title}".lower()).replace(" ", "-")
    cells = (erratum.number, f"[{erratum.title}](#{anchor})", _set(erratum.meaning), *erratum.numbers())
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _section(erratum: Erratum) -> str:
    published, correct = erratum.numbers()
    first = erratum.meaning[0]
    meaning = (first.upper() if first.isascii() else first) + erratum.meaning[1:]
    return f"""
## {erratum.number}. {erratum.title}

{erratum.where}.

- **The paper says:** {_set(erratum.claim)}
- **In fact:** {_set(erratum.fact)}
- **Because:** {_set(erratum.because)}
- **Example:** {_set(erratum.example)} {_set(meaning)}: published {published}, correct {correct}.
- **Shown by** `{erratum.test}`."""


def _set(words: str) -> str:
    """Plain text with its indices and exponents where they belong."""
    raised = RAISED.sub(lambda found: f"<sup>{found[1] or found[2]}</sup>", words)
    return LOWERED.sub(r"\1<sub>\2</sub>", raised)
