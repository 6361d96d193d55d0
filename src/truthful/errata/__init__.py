"""The errata of the paper: what it says, what holds, and one example of each in which both are numbers."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from truthful.errata import numbers
from truthful.errors import InputError
from truthful.formatting import signed

MOST_DIGITS = 8


@dataclass(frozen=True)
class Erratum:
    """One mistake of the paper, or one place where much more holds than it says.

    published and correct are the two numbers of the example, and meaning is what they measure; test is the name of the
    test that shows the erratum without the code that computes it here.
    """

    number: str
    title: str
    where: str
    claim: str
    fact: str
    because: str
    example: str
    meaning: str
    published: float
    correct: float
    test: str

    def numbers(self) -> tuple[str, str]:
        """published and correct as people read them, with as many digits as it takes to tell them apart."""
        for digits in range(3, MOST_DIGITS):
            shown = signed(self.published, digits), signed(self.correct, digits)
            if shown[0] != shown[1]:
                break
        return shown


def errata() -> tuple[Erratum, ...]:
    """The errata of the paper, E1 first, with numbers computed now: about a second of work, the same every time."""
    return tuple(_computed(number, words) for number, words in _texts().items())


def find(number: str) -> Erratum:
    """One erratum by its number, as E3."""
    texts, wanted = _texts(), number.strip().upper()
    if wanted not in texts:
        raise InputError(f"There is no erratum {number!r}; they are numbered E1 to {[*texts][-1]}.")
    return _computed(wanted, texts[wanted])


def _texts() -> dict[str, dict[str, str]]:
    """What errata.toml says of each, in order."""
    return tomllib.loads((files(__package__) / "errata.toml").read_text(encoding="utf-8"))


def _computed(number: str, texts: dict[str, str]) -> Erratum:
    pair: numbers.Pair = getattr(numbers, number.lower())()
    words: dict[str, Any] = {name: " ".join(text.split()) for name, text in texts.items()}
    words["fact"] = words["fact"].format(**pair.mentioned)
    return Erratum(number, published=pair.published, correct=pair.correct, **words)
