"""Beliefs where people are asked what the others will say: the level is theirs, only differences are declared.

Answers y and predictions lie between −1 and 1 here, the ends of the scale; for yes and no −1 is no and 1 is yes. With c
the mean of x over those who answer, the average answer of people like x is c·θ + δ·(x − c). People's belief about the
level c·θ has a centre that nobody declares and the variance v₀; differences have declared means and variances:

    o(x) = E[δ·(x − c)]            v(x) = v₀ + Var δ·(x − c)
    s(x) = how much her own answer moves what she expects of people like her, k(x) = s(x)·v₀/v(x) of everybody

For numbers s = v/(v + σ²), linear credibility: exact for normal answers and beliefs, and for every conjugate pair. For
ratings it is Z of truthful.study.shares, at the middle of the shares that are thought possible; for yes and no too,
where payments do not need it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from truthful.check import Floats
from truthful.study.shares import ShareBeliefs

#: A belief of standard deviation 1 reaches no further than this from its centre: that of uniform beliefs.
REACH = 3**0.5


@dataclass(frozen=True)
class LevelBeliefs:
    """What is declared of people's beliefs, with half the scale of answers as the unit.

    sure: √v₀. spread: σ of numbers, None otherwise. expected, numbers, factors: as of shares, what a unit of each
    column's code is expected to change, the largest effects of numbers, and of features with levels. places: the first
    column of each of these, and the one after its last. low, high: between what averages can lie. shares: what is
    declared of them, where answers are yes or no, or ratings.
    """

    sure: float
    spread: float | None
    expected: tuple[float, ...]
    numbers: tuple[float, ...]
    factors: tuple[float, ...]
    places: tuple[tuple[int, int], ...]
    scale: float
    low: float
    high: float
    shares: ShareBeliefs | None = None

    @classmethod
    def of_shares(
        cls, shares: ShareBeliefs, sure: float, places: tuple[tuple[int, int], ...]
    ) -> LevelBeliefs:
        """Shares are from 0 to 1, so that differences count twice here."""
        expected, numbers, factors = (
            tuple(2 * part for part in parts) for parts in (shares.expected, shares.numbers, shares.factors)
        )
        ends = 2 * shares.low - 1, 2 * shares.high - 1
        return cls(2 * sure, None, expected, numbers, factors, places, shares.scale, *ends, shares)

    @property
    def dimension(self) -> int:
        """d, the columns of x."""
        return len(self.expected)

    @property
    def response_bound(self) -> float:
        """Y: answers lie on the whole scale."""
        return 1.0

    @property
    def strict(self) -> bool:
        """Whether there are two answers, so that the truth is strictly the better one."""
        return self.shares is not None and self.shares.levels == 2

    def offsets(self, x: Floats, c: Floats) -> Floats:
        """o(x), one for each row."""
        total = np.zeros(len(x))
        for column, mean, expected in zip(x.T, c, self.expected, strict=True):
            if expected:
                total += (column - mean) * (self.scale * expected)
        return total

    def variances(self, x: Floats, c: Floats) -> Floats:
        """v(x): an effect is uniform between its ends, so that its variance is e²/12 for a number's whole range.

        Effects of K levels sum to zero and are alike, so that the covariance of two is −e²/12/(K − 1). With u the codes
        less their mean, that makes e²/12·(K·Σu² − (Σu)²)/(K − 1): more for levels that few people have.
        """
        total = np.full(len(x), self.sure**2)
        for effect, (start, stop) in zip(self.factors, self.places, strict=True):
            added, squares = np.zeros(len(x)), np.zeros(len(x))
            for place in range(start, stop):
                code = (x[:, place] - c[place]) * self.scale
                added += code
                squares += code * code
            levels = stop - start + 1
            total += (levels * squares - added * added) * (effect * effect / 12 / (levels - 1))
        for column, mean, effect in zip(x.T, c, self.numbers, strict=True):
            if effect:
                code = (column - mean) * self.scale
                total += code * code * (effect * effect / 12)
        return total

    def reaches(self, x: Floats, c: Floats) -> Floats:
        """How far the average answer of people like x can be from where beliefs have it, at most.

        Effects of levels are ±e/2 and sum to zero: Σu h is at most e/2 times Σ|u − t|, for any t.
        """
        total = np.full(len(x), REACH * self.sure)
        for column, mean, effect in zip(x.T, c, self.numbers, strict=True):
            total += np.abs((column - mean) * self.scale) * (effect / 2)
        for effect, (start, stop) in zip(self.factors, self.places, strict=True):
            u = np.pad((x[:, start:stop] - c[start:stop]) * self.scale, ((0, 0), (0, 1)))
            total += np.abs(u - np.median(u, axis=1, keepdims=True)).sum(axis=1) * (effect / 2)
        return total

    def moved(self, away: Floats) -> tuple[float, float, float]:
        """How far √(v − v₀), offsets and reaches move at most if columns of c move by these."""
        codes = away * self.scale
        squares = float(np.sum((codes * self.numbers) ** 2)) / 12
        reach = float(codes @ self.numbers) / 2
        for effect, (start, stop) in zip(self.factors, self.places, strict=True):
            levels = stop - start + 1
            squares += effect * effect / 12 * levels / (levels - 1) * float(np.sum(codes[start:stop] ** 2))
            reach += effect / 2 * float(codes[start:stop].sum())
        return float(np.sqrt(squares)), float(codes @ np.abs(self.expected)), reach

    def slopes(self, x: Floats, c: Floats) -> Floats:
        """s(x)."""
        return self.slopes_at(self.variances(x, c), self.offsets(x, c))

    def slopes_at(self, v: Floats, o: Floats) -> Floats:
        """s of people of whom so much is believed."""
        if self.shares is None:
            return np.asarray(v / (v + (self.spread or 0.0) ** 2))
        return self.shares.credibility((self.shares.low + self.shares.high) / 2 + o / 2, v / 4)

    def level_slopes(self, x: Floats, c: Floats) -> Floats:
        """k(x) = s(x)·v₀/v(x)."""
        return np.asarray(self.slopes(x, c) * (self.sure**2 / self.variances(x, c)))

    @property
    def slope(self) -> float:
        """k of the average person, which a plan states."""
        c = np.eye(1, self.dimension) / self.scale
        return float(self.level_slopes(c, c[0])[0])

    @property
    def slope_range(self) -> tuple[float, float]:
        """The least and the largest s that anybody can have, whoever answers: a code is within 2 of its mean.

        Of K levels, with p those who have each and j hers, KΣu² − (Σu)² is K((1 − p_j)² + Σp²) over all others: 2K.
        """
        most = sum(e * e for e in self.numbers) / 3
        for effect, (start, stop) in zip(self.factors, self.places, strict=True):
            most += effect * effect / 6 * (stop - start + 1) / (stop - start)
        v = self.sure**2 + np.array([0.0, most])
        if self.shares is None:
            low, high = self.slopes_at(v, np.zeros(2)).tolist()
            return low, high
        middle, reach = (self.shares.low + self.shares.high) / 2, sum(map(abs, self.expected))
        ends = np.clip(np.array([middle - reach, middle + reach]), 0.0, 1.0)
        near, far = np.clip(0.5, *ends), ends[np.argmax(np.abs(ends - 0.5))]
        low, high = self.shares.credibility(np.array([near, far]), v / 4).tolist()
        return low, min(high, 1.0)

    def prior_error(self, of: str) -> float:
        """The mean squared error of answering with the centre of people's beliefs, asking nobody, normalised."""
        numbers, factors = (sum(e * e for e in part) / 12 for part in (self.numbers, self.factors))
        if of == "predictions":
            return self.sure**2 + numbers / 3 + factors
        return self.scale**2 * (self.sure**2 + numbers + factors)

    @property
    def variance(self) -> float:
        """The largest variance of an answer about what its features predict."""
        return (self.spread or 0.0) ** 2 if self.shares is None else 4 * self.shares.variance
