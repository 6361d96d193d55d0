"""Beliefs about shares and levels, and credibility: how much an answer moves what is expected of the others.

Shares: how many people like her would say yes, before and after somebody knows her own answer.

A share m(x) lies in [0, 1]: the share of people with features x who say yes; for a rating, the place of its mean
between the lowest level and the highest. The study declares two shares for the average person, L and U, and for each
feature e, the most by which it changes the share from one end to the other. The share of the average person is taken to
be uniform between L and U, and effects to be independent of it and of each other, of half-width e/2. Only two moments
and the range matter:

    μ(x) = (L + U)/2 + expected effects        v(x) = (U − L)²/12 + Σ_numbers c²e²/12 + Σ_factors e²/12
    m(x) in [lo(x), hi(x)] = μ(x) ∓/± ((U − L)/2 + Σ_numbers |c|e/2 + Σ_factors e/2)

c being a number's place in its range, from −1 to 1. For K answers, y = (k − 1)/(K − 1) with k = 1..K, the expectation
given her own answer is

    q(x, y) = μ + Z(y − μ),   Z = K'/(K' + ν),   ν = μ(1 − μ)/v − 1,   K' = (K − 1)/(1 + (K − 2)ρ)

For yes and no (K = 2) that is E[m | x, y] for every prior of these moments: by Bayes' rule E[m | yes] = E[m·m]/E[m] = μ
+ v/μ and E[m | no] = μ − v/(1 − μ). For ratings it is exact for K − 1 exchangeable yes/no parts with correlation ρ and
Beta beliefs; for other beliefs it is the best line, and `expected_shares` is the exact expectation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from truthful.check import Floats
from truthful.errors import InputError
from truthful.study.features import Encoding, Levels

#: The largest credibility is below 1 by this; beliefs that are nearly certain would reach 1.
_ROUNDING = 1e-12


#: Per column of x: its expected effect; and the largest effects of numbers and of features with levels.
Effects = tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]]


class Expected(NamedTuple):
    """Beliefs about people with given features: the mean share, the credibility Z of an answer, and the range of
    shares.
    """

    mean: Floats
    credibility: Floats
    low: Floats
    high: Floats

    @property
    def switch(self) -> Floats:
        """The share at which the lowest and the highest answer pay the same: halfway between what they expect."""
        return np.asarray(self.mean + self.credibility * (0.5 - self.mean))

    @property
    def advantage(self) -> Floats:
        """δ, the distance of what they expect from the switch point."""
        return np.asarray(self.credibility / 2)

    def width(self, margin: float) -> Floats:
        """w: the distance from the switch point up to which shares count: all possible shares, and a margin."""
        switch = self.switch
        return np.asarray(np.maximum(self.high - switch, switch - self.low) + margin)


class _OnTheScale:
    """Beliefs about answers that fill the whole scale: from −1 to 1 when normalised."""

    expected: tuple[float, ...]
    response_bound = 1.0
    """Y: yes is 1 and no is −1."""

    @property
    def dimension(self) -> int:
        """d, the columns of x."""
        return len(self.expected)


@dataclass(frozen=True)
class ShareBeliefs(_OnTheScale):
    """Two shares, and for each column of x the possible effects of its feature.

    expected: the expected effect of a unit of each column's code. numbers: e of columns that are numbers, 0 elsewhere.
    factors: e of every feature with levels. scale: codes are x times this.
    """

    low: float
    high: float
    levels: int
    agreement: float
    expected: tuple[float, ...]
    numbers: tuple[float, ...]
    factors: tuple[float, ...]
    scale: float

    @classmethod
    def of(
        cls,
        encoding: Encoding,
        share: tuple[float, float],
        effects: Mapping[str, float],
        expected: Mapping[str, float],
        levels: int,
        agreement: float,
    ) -> ShareBeliefs:
        """The beliefs of a study with these features. Expected effects of numbers go from one end to the other."""
        beliefs = cls(*share, levels, agreement, *column_effects(encoding, effects, expected), encoding.scale)
        spread = (share[1] - share[0] + sum(beliefs.numbers) + sum(beliefs.factors)) / 2
        reach = encoding.reach(np.array(beliefs.expected)) * encoding.scale
        least, most = sum(share) / 2 - spread - reach, sum(share) / 2 + spread + reach
        if least >= -_ROUNDING and most <= 1 + _ROUNDING:
            return beliefs
        end, value = ("below 0", least) if least < 0 else ("above 1", most)
        features = len(encoding.features)
        raise InputError(
            f"with {features} feature{'s' if features != 1 else ''} and these effects a share could lie {end} "
            f"({100 * value:.3g}%). Declare smaller effects, or shares further from there."
        )

    def expects(self, x: Floats) -> Expected:
        """Beliefs about people with these normalised features, one row each; summed column by column."""
        mean = np.full(len(x), (self.low + self.high) / 2)
        variance = np.full(len(x), (self.high - self.low) ** 2 / 12 + sum(e * e for e in self.factors) / 12)
        reach = np.full(len(x), (self.high - self.low + sum(self.factors)) / 2)
        for column, expected, effect in zip(x.T, self.expected, self.numbers, strict=True):
            if expected:
                mean += column * (self.scale * expected)
            if effect:
                code = column * self.scale
                variance += code * code * (effect * effect / 12)
                reach += np.abs(code) * (effect / 2)
        credibility = self.credibility(mean, variance)
        return Expected(mean, credibility, np.maximum(mean - reach, 0.0), np.minimum(mean + reach, 1.0))

    def credibility(self, mean: Floats, variance: Floats) -> Floats:
        """Z, how much an answer moves the expected share, where shares have this mean and variance."""
        parts = (self.levels - 1) / (1 + (self.levels - 2) * self.agreement)
        return np.asarray(parts / (parts + mean * (1 - mean) / variance - 1))

    @property
    def ends(self) -> tuple[float, float]:
        """The least and the largest possible share over all features."""
        reach = (self.high - self.low + sum(self.numbers) + sum(self.factors)) / 2
        reach += sum(map(abs, self.expected))
        middle = (self.low + self.high) / 2
        return max(0.0, middle - reach), min(1.0, middle + reach)

    @property
    def variance(self) -> float:
        """The largest variance of an answer, in shares: P(1 − P) at the possible share nearest to a half."""
        low, high = self.ends
        nearest = min(max(0.5, low), high)
        return nearest * (1 - nearest)

    @property
    def prior_error(self) -> float:
        """The mean squared error, normalised, of answering with the middle of the beliefs and asking nobody.

        It is that of the largest effect, from one end of a feature to the other: twice a coefficient of variance e²/12;
        without features, that of the share. Normalised answers are ±1, so shares count twice.
        """
        largest = max((*self.numbers, *self.factors))
        return 4 * (4 * largest**2 / 12 if largest > 0 else (self.high - self.low) ** 2 / 12)


def column_effects(
    encoding: Encoding, effects: Mapping[str, float], expected: Mapping[str, float]
) -> Effects:
    """(expected, numbers, factors): expected and largest effects of features."""
    numbers, factors = [0.0] * encoding.dimension, []
    means = np.zeros(encoding.dimension)
    known = {name for feature in encoding.features for name in feature.names}
    if unknown := sorted(set(expected) - known):
        raise InputError(
            f"expected names {unknown[0]!r}, which is no effect; the effects are {', '.join(sorted(known))}."
        )
    for feature, place in zip(encoding.features, encoding.slices, strict=True):
        effect = _effect(effects, feature.name)
        given = np.array([expected.get(name, 0.0) for name in feature.names])
        if isinstance(feature, Levels):
            factors.append(effect)
            means[place] = feature.codes(given)[0]
        else:
            numbers[place.start] = effect
            means[place.start] = given[0] / 2
    for product in encoding.products:
        # Each product of codes is a number of its own from -1 to 1, with expected effect 0.
        place = encoding.places[product.name]
        numbers[place] = [_effect(effects, product.name)] * product.columns
    return tuple(means.tolist()), tuple(numbers), tuple(factors)


def _effect(effects: Mapping[str, float], name: str) -> float:
    if not 0 <= effects[name] <= 1:
        raise InputError(
            f"effect of {name!r} is {effects[name]:g}; give the most that it changes the share, between 0 and 1."
        )
    return effects[name]


def _double(effects: Effects) -> Effects:
    expected, numbers, factors = (tuple(2 * part for part in parts) for parts in effects)
    return expected, numbers, factors


def expected_shares(beliefs: ShareBeliefs, x: Floats) -> Floats:
    """E[m | x, answer], a column for each answer: the mean share over studies in which these people give it.

    For yes and no it is q(x, answer), as declared; for ratings q is the best line through it. In an invented population
    the chance of an answer is a polynomial in m, of degree K − 1, and m is a sum of independent uniform numbers, whose
    moments are known.
    """
    K, rho = beliefs.levels, likeness(beliefs)
    moments = _moments(beliefs, x, K)
    steps = np.arange(K - 1) * rho
    found = []
    for k in range(K):
        # Π (m(1−ρ) + iρ) Π ((1−m)(1−ρ) + jρ), up to a factor independent of m.
        chance = np.ones(1)
        for i in steps[:k]:
            chance = np.polynomial.polynomial.polymul(chance, [i, 1 - rho])
        for j in steps[: K - 1 - k]:
            chance = np.polynomial.polynomial.polymul(chance, [1 - rho + j, rho - 1])
        found.append(moments[:, 1:] @ chance / (moments[:, :-1] @ chance))
    return np.stack(found, axis=1)


def likeness(beliefs: ShareBeliefs) -> float:
    """ρ, kept below 1: parts that always agree would leave some ratings impossible."""
    return min(beliefs.agreement, 1 - 1e-6)


def _moments(beliefs: ShareBeliefs, x: Floats, order: int) -> Floats:
    """E[m^j] for j up to the order, a row for each person."""
    codes = x * beliefs.scale
    widths = np.broadcast_to(
        [beliefs.high - beliefs.low, *beliefs.factors], (len(x), 1 + len(beliefs.factors))
    )
    widths = np.hstack([widths, np.abs(codes) * beliefs.numbers]) / 2
    moments = beliefs.expects(x).mean[:, None] ** np.arange(order + 1)
    for width in widths.T:
        uniform = np.where(
            np.arange(order + 1) % 2, 0.0, width[:, None] ** np.arange(order + 1) / np.arange(1, order + 2)
        )
        moments = np.stack(
            [
                sum(math.comb(j, i) * moments[:, j - i] * uniform[:, i] for i in range(j + 1))
                for j in range(order + 1)
            ],
            axis=1,
        )
    return moments


#: The reach of a belief, in standard deviations: that of a uniform one.
REACH = 3**0.5


@dataclass(frozen=True)
class LevelBeliefs(_OnTheScale):
    """Beliefs where people are asked what the others will say: the level comes from them; only differences are
    declared.

    Answers y and predictions lie in [−1, 1], the ends of the scale; for yes and no −1 is no and 1 is yes. With c the
    mean of x over those who answer, the average answer of people like x is c·θ + δ·(x − c). The belief about the level
    c·θ has an undeclared centre and the variance v₀; differences have declared means and variances:

        o(x) = E[δ·(x − c)]            v(x) = v₀ + Var δ·(x − c)
        s(x) = how much her own answer moves what she expects of people like her, k(x) = s(x)·v₀/v(x) of everybody

    For numbers s = v/(v + σ²), linear credibility: exact for normal answers and beliefs, and for every conjugate pair.
    For ratings it is Z of shares, at the middle of those thought possible; also for yes and no, where payments do not
    need it.

    sure: √v₀. spread: σ of numbers, None otherwise. expected, numbers, factors: as in `ShareBeliefs`. places: the first
    column of each feature with levels, and the one after its last. low, high: the range of possible averages. shares:
    declared beliefs about shares, where answers are yes or no, or ratings.
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
    def of_shares(cls, encoding: Encoding, shares: ShareBeliefs, sure: float) -> LevelBeliefs:
        """Beliefs from shares, which run from 0 to 1: differences count twice here."""
        widest = (shares.high - shares.low) / (2 * REACH)
        if not sure <= widest * (1 + 1e-9):
            raise InputError(
                f"sure is {sure:g}, but within [{shares.low:g}, {shares.high:g}] nobody can be less sure than "
                f"{widest:.3g}. Give less, or a wider share."
            )
        ends = 2 * shares.low - 1, 2 * shares.high - 1
        effects = _double((shares.expected, shares.numbers, shares.factors))
        return cls(2 * sure, None, *effects, _places(encoding), shares.scale, *ends, shares)

    @classmethod
    def of_numbers(
        cls,
        encoding: Encoding,
        scale: tuple[float, float],
        plausible: tuple[float, float],
        effects: Mapping[str, float],
        expected: Mapping[str, float],
        sure: float,
        spread: float,
    ) -> LevelBeliefs:
        """Beliefs in units of the answer on this scale, converted as shares are: parts of the whole scale."""
        half = (scale[1] - scale[0]) / 2
        parts = ({name: value / (2 * half) for name, value in given.items()} for given in (effects, expected))
        low, high = ((end - scale[0]) / (2 * half) for end in plausible)
        columns = _double(column_effects(encoding, *parts))
        ends = 2 * low - 1, 2 * high - 1
        return cls(sure / half, spread / half, *columns, _places(encoding), encoding.scale, *ends)

    @property
    def strict(self) -> bool:
        """Whether there are only two answers, so that the truth is strictly better."""
        return self.shares is not None and self.shares.levels == 2

    def offsets(self, x: Floats, c: Floats) -> Floats:
        """o(x), one for each row."""
        total = np.zeros(len(x))
        for column, mean, expected in zip(x.T, c, self.expected, strict=True):
            if expected:
                total += (column - mean) * (self.scale * expected)
        return total

    def variances(self, x: Floats, c: Floats) -> Floats:
        """v(x): an effect is uniform between its ends, so its variance is e²/12 for a number's whole range.

        Effects of K levels sum to zero and are exchangeable, so the covariance of two is −e²/12/(K − 1). With u the
        codes less their mean, the variance is e²/12·(K·Σu² − (Σu)²)/(K − 1): more for rare levels.
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
        """The largest possible distance of the average answer of people like x from its expectation.

        Effects of levels are ±e/2 and sum to zero: Σu h is at most e/2 times Σ|u − t|, for any t.
        """
        total = np.full(len(x), REACH * self.sure)
        for column, mean, effect in zip(x.T, c, self.numbers, strict=True):
            total += np.abs((column - mean) * self.scale) * (effect / 2)
        for effect, (start, stop) in zip(self.factors, self.places, strict=True):
            u = np.pad((x[:, start:stop] - c[start:stop]) * self.scale, ((0, 0), (0, 1)))
            total += np.abs(u - np.median(u, axis=1, keepdims=True)).sum(axis=1) * (effect / 2)
        return total

    def sensitivities(self, away: Floats) -> tuple[float, float, float]:
        """Bounds on how far √(v − v₀), offsets and reaches move if columns of c move by up to `away`."""
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
        """s of people with this variance and offset."""
        if self.shares is None:
            return np.asarray(v / (v + (self.spread or 0.0) ** 2))
        return self.shares.credibility((self.shares.low + self.shares.high) / 2 + o / 2, v / 4)

    def level_slopes(self, x: Floats, c: Floats) -> Floats:
        """k(x) = s(x)·v₀/v(x)."""
        return np.asarray(self.slopes(x, c) * (self.sure**2 / self.variances(x, c)))

    @property
    def slope(self) -> float:
        """k of the average person, as stated in a plan."""
        c = np.eye(1, self.dimension) / self.scale
        return float(self.level_slopes(c, c[0])[0])

    @property
    def slope_range(self) -> tuple[float, float]:
        """Bounds on anybody's s, whoever answers: a code is within 2 of its mean.

        For K levels with shares p, j being hers, KΣu² − (Σu)² is K((1 − p_j)² + Σp²), the sum over all other levels: at
        most 2K.
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
        """The mean squared error, normalised, of answering with the centre of people's beliefs and asking nobody."""
        numbers, factors = (sum(e * e for e in part) / 12 for part in (self.numbers, self.factors))
        if of == "predictions":
            return self.sure**2 + numbers / 3 + factors
        return self.scale**2 * (self.sure**2 + numbers + factors)

    @property
    def variance(self) -> float:
        """The largest variance of an answer about what its features predict."""
        return (self.spread or 0.0) ** 2 if self.shares is None else 4 * self.shares.variance


def _places(encoding: Encoding) -> tuple[tuple[int, int], ...]:
    """The first column of each feature with levels, and the one after its last."""
    return tuple(
        (place.start, place.stop)
        for feature, place in zip(encoding.features, encoding.slices, strict=True)
        if isinstance(feature, Levels)
    )
