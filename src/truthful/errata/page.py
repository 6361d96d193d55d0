"""The page docs/errata.md, made from the errata themselves."""

from __future__ import annotations

from truthful.errata.collection import errata
from truthful.errata.record import Erratum

HEAD = """# Errata

Rachel Cummings, Stratis Ioannidis and Katrina Ligett, "Truthful Linear Regression" (COLT 2015), is the source of
this package. Its idea stands, and so do its five results once they are mended; but constants, proofs and a few
statements do not hold as printed, and some bounds that do hold are far from what is true. This page lists what we
found. Every row has an example in which both the claim and what holds are numbers, computed by `truthful.errata`
when this page was made, and a test that shows it by other means. Sections, theorems and lemmas are counted as in the
paper's LaTeX; its ε is that of one estimate, half of the total that this package calls ε.

[Theory](theory.md) derives what this package does instead.

<!-- Made by `python tests/pages.py`. -->
"""
TABLE = ("| | the paper says | in fact | example | published | correct |", "|---|---|---|---|---|---|")


def page() -> str:
    """The page: an introduction, one table of all errata, then a section for each."""
    found = errata()
    table = "\n".join((*TABLE, *map(_row, found)))
    return "\n".join((HEAD, table, *map(_section, found), ""))


def _row(erratum: Erratum) -> str:
    published, correct = erratum.numbers()
    cells = (
        erratum.number,
        erratum.claim,
        erratum.fact,
        erratum.meaning,
        published,
        correct,
    )
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _section(erratum: Erratum) -> str:
    published, correct = erratum.numbers()
    first = erratum.meaning[0]
    meaning = (first.upper() if first.isascii() else first) + erratum.meaning[1:]
    return f"""
## {erratum.number}. {erratum.title}

{erratum.where}.

- **The paper says:** {erratum.claim}
- **In fact:** {erratum.fact}
- **Because:** {erratum.because}
- **Example:** {erratum.example} {meaning}: published {published}, correct {correct}.
- **Shown by** `{erratum.test}`."""
