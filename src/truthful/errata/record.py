"""An erratum: what the paper says, what holds, and one example in which both are numbers."""

from __future__ import annotations

from dataclasses import dataclass

from truthful.words import number

MOST_DIGITS = 8


def signed(value: float, digits: int = 3) -> str:
    """A number in plain digits, with a true minus sign."""
    return number(value, digits).replace("-", "−")


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
