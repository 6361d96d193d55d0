"""All errata, in order."""

from __future__ import annotations

from truthful.errata import estimation, incentives, privacy, proofs, schedule
from truthful.errata.record import Erratum
from truthful.errors import InputError


def errata() -> tuple[Erratum, ...]:
    """The errata of the paper, E1 first, with numbers computed now: about a second of work, the same every time."""
    found = (
        *privacy.errata(),
        *estimation.errata(),
        *schedule.errata(),
        *incentives.errata(),
        *proofs.errata(),
    )
    return tuple(sorted(found, key=lambda erratum: int(erratum.number.removeprefix("E"))))


def find(number: str) -> Erratum:
    """One erratum by its number, as E3."""
    found = errata()
    for erratum in found:
        if erratum.number == number.strip().upper():
            return erratum
    raise InputError(f"There is no erratum {number!r}; they are numbered E1 to {found[-1].number}.")
