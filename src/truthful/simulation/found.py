"""Numbers that simulations find, with their standard errors: means, the best lie there is, whom taking part pays.

The best lie: one that moves the own prediction from q to q + Δ gains b(2(p̄ − q)Δ − Δ²), so where peers predict δ more
than q on average, the best lie is Δ = δ. It is sought among cells of players, by features and answers. A cell chosen
because δ looks large there looks larger than it is; so δ is measured on the studies that had no part in the choice. The
parts are not exchanged for a second look: the two would share their luck, and their mean look surer than it is.

Whom taking part pays is judged by what truthful people like her, of one cell, were really paid, on average over all
studies: a person of cost c, if that is at least c·h(ε). The law of costs says of how many in a cell that is true.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from truthful.check import Floats
from truthful.costs import Costs

#: A cell says nothing of fewer people, nor if they are as unequally spread over studies as if those were so few.
PEOPLE, STUDIES = 100, 10
#: Of fewer studies a standard error of the best lie is not to be had.
FEWEST = 30


@dataclass(frozen=True)
class Found:
    """A mean, and its standard error; NaN where too little was seen."""

    value: float
    error: float

    def times(self, factor: float) -> Found:
        """The same in other units."""
        return Found(self.value * factor, self.error * abs(factor))


UNKNOWN = Found(math.nan, math.nan)


def mean(values: Floats) -> Found:
    """Of one value a study."""
    return ratio(values, np.ones(len(values)))


def ratio(sums: Floats, counts: Floats) -> Found:
    """The mean of all that was summed over studies, with the error from how it varies between them."""
    runs, total = len(counts), float(counts.sum())
    if not total > 0:
        return UNKNOWN
    value = float(sums.sum()) / total
    spread = math.sqrt(float(np.sum((sums - value * counts) ** 2)) * runs / max(runs - 1, 1)) / total
    return Found(value, spread if runs > 1 else math.nan)


def enough_people(players: Floats) -> npt.NDArray[np.bool_]:
    """Which cells hold enough people, by study and cell, of enough studies: (Σn)²/Σn² of them.

    Answers are large in the few studies whose θ is: a mean over those is that of few θ, however many people there are.
    """
    total, squares = players.sum(axis=0), np.square(players).sum(axis=0)
    return np.asarray((total >= PEOPLE) & (total**2 >= STUDIES * squares))


@dataclass(frozen=True)
class BestLie:
    """δ, how far peers' predictions lie from q where that is furthest, and what a lie of that size gains per b."""

    gap: Found
    gain: Found


def best_lie(players: Floats, surplus: Floats) -> BestLie:
    """The best move of q by every second study, and δ in the same cell by the others.

    Players and Σ(p − q) over them, by study (a row) and cell.
    """
    sought, tried = slice(0, None, 2), slice(1, None, 2)
    enough = enough_people(players[sought]) & enough_people(players[tried])
    if len(players) < FEWEST or not enough.any():
        return BestLie(UNKNOWN, UNKNOWN)
    means = np.where(enough, surplus[sought].sum(0) / np.maximum(players[sought].sum(0), 1), 0.0)
    cell = int(np.abs(means).argmax())
    move, found = float(means[cell]), ratio(surplus[tried, cell], players[tried, cell])
    return BestLie(
        gap=Found(math.copysign(1.0, move) * found.value, found.error),
        gain=Found(2 * move * found.value - move**2, 2 * abs(move) * found.error),
    )


@dataclass(frozen=True, eq=False)
class Paid:
    """By study (a row) and cell: all people, those who took part and told the truth, and what those were paid."""

    people: Floats
    truthful: Floats
    paid: Floats

    def worthwhile(self, costs: Costs, privacy_cost: float, threshold: float) -> tuple[Found, Found]:
        """The share of people whom taking part pays: of all, and of those with costs up to the threshold."""
        seen = enough_people(self.truthful)
        if not seen.any():
            return UNKNOWN, UNKNOWN
        shares = self.people.sum(0)[seen] / self.people.sum(0)[seen].sum()
        # Jackknife: once with all studies, then without each of them.
        sums, counts = (_with_and_without(part[:, seen]) for part in (self.paid, self.truthful))
        worth = sums / counts / privacy_cost
        return _share(costs, worth, shares, math.inf), _share(costs, worth, shares, threshold)


def _share(costs: Costs, worth: Floats, shares: Floats, most: float) -> Found:
    """Of people with costs up to `most`, those whose cost is not above what a payment is worth."""
    everybody = 1.0 if math.isinf(most) else float(costs.cdf(most))
    if not everybody > 0:
        return UNKNOWN
    # From above, so that all are exactly 1.
    value, *rest = (1 - (1 - costs.cdf(np.minimum(worth, most)) / everybody) @ shares).tolist()
    return Found(value, math.sqrt((len(rest) - 1) * np.var(rest)))


def _with_and_without(studies: Floats) -> Floats:
    """The sum over all studies, and without each of them."""
    return np.vstack([studies.sum(0), studies.sum(0) - studies])
