"""Deterrence: how steeply q follows an answer, which answers a payment leaves free, and the effect of wrong beliefs.

Where q hardly moves with the report, lies are nearly free: with uniform noise q is flat for |y| ≤ M − rR, and peer
noise as large as R flattens the clipped curve. So a plan states the slope, not only the size of lies in units of q.

A payment deters lies that move the own prediction q by more than D. The answers y' with |q(y') − q(y)| ≤ D stay free:
the undeterred share of a person whose truthful answer is y is the part of [−Y, Y] they fill. Clipping peers at c < R
makes the payment cheaper, but q flatter beyond ±c, so that the same D would leave more free; D must shrink with c.

Wrong beliefs: somebody with features of length r takes the average answer of people like her to be δ higher than
declared, and agrees on the rest: y = δ + r·u + z with u and z as declared. She expects the others to predict for her

    P(δ, y) = r·E[ψ(u + δ/r) | r, y − δ],     and the belief gap     γ(δ, y) = P(δ, y) − q(y),    q(y) = P(0, y).

Prior and noise are log-concave, so that γ rises with δ, by at most |δ| (docs/theory.md). All of it is odd in (δ, y).

This serves plans, never a payment: q and gaps are accurate to some 1e-6 R, shares to some 1e-4, or 1e-3 next to
plateaus of q.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np

from truthful import check
from truthful.beliefs import Beliefs, posterior
from truthful.beliefs.laws import IDENTITY, Clipped, Curve
from truthful.check import Floats
from truthful.errors import InputError
from truthful.geometry import Geometry
from truthful.one_release import OneRelease
from truthful.study import Study

# Answers y ≥ 0 of each person at which q is computed: most spaced by probability, some from its kink to its edge.
_LIKELY, _LATE = 64, 24
# The number of points of [0, R) between which ψ is linear, densest at R: a corner of ψ elsewhere is then missed by 1e-6
# R.
_POINTS = 600
# Panels of each posterior and nodes on each.
_PANELS, _NODES = 16, 32
# Anything below the peak times exp(-40) = 4e-18 is negligible; passes and probes of the search for where that is.
_DROP, _PASSES, _PROBES = 40.0, 4, 32
# Predictions closer than this, in units of R, count as equal: a plateau is flat up to rounding.
_LEVEL = 1e-12
# Cells on which q rises by less count as points: the rounding loss elsewhere stays below 1e-8.
_THIN = 1e-7
# Shares closer than the first count as equal, and so do lies closer than the second, relatively; the most steps.
_EQUAL, _CLOSE, _STEPS = 1e-7, 1e-9, 200
# The first replaces 0 in logarithms; noise below the second, in units of R, is only rounding.
_LEAST, _VANISHING = 1e-300, 1e-18
# The most that a length may exceed 1 by rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Deterrence:
    """People of these lengths ‖x‖ = r_i, with peer noise in these proportions along x: t_i = scale · proportions_i.

    In normalised units: 0 < r ≤ 1 and |y| ≤ Y = R + M. A person's own prediction is q(y) = r E[ψ(u) | r, y], with
    ψ(u) = E[clip(u + e, ±c)] and e the peer noise at scale t/r. Her truthful answer is y = r·u + z under the beliefs.

    The posterior of u depends on neither clip nor noise, so it is computed once.
    """

    beliefs: Beliefs
    lengths: Floats
    proportions: Floats

    def __post_init__(self) -> None:
        lengths = check.vector("lengths", self.lengths)
        proportions = check.vector("proportions", self.proportions, len(lengths))
        if not len(lengths):
            raise InputError("lengths is empty; give the length of at least one person's features.")
        _refuse("lengths", lengths, (lengths <= 0) | (lengths > 1 + _ROUNDING), "above 0 and at most 1")
        _refuse("proportions", proportions, proportions < 0, "0 or above")
        object.__setattr__(self, "lengths", lengths)
        object.__setattr__(self, "proportions", proportions)

    def undeterred_share(self, lie: float, clip: float | None, scale: float) -> float:
        """The mean, over people and their truthful answers y, of |{y' in [−Y, Y] : |q(y') − q(y)| ≤ lie}| / 2Y.

        `scale` is the scale of the peer noise; no `clip` means ψ(u) = u, where payments may be negative. The share
        rises with the lie, from the share of plateaus of q to 1.
        """
        return self._shares((clip,), scale)[0](check.nonnegative("lie", lie))

    def furthest(self, lie: float, clip: float | None, scale: float, share: float) -> float:
        """The quantile, at this share of people and truthful answers y, of the largest |y' − y| with |q(y') − q(y)| ≤
        lie.

        Infinite where all of [−Y, Y] is free for more than a part 1 − share of them.
        """
        return self._shares((clip,), scale)[0].furthest(check.nonnegative("lie", lie), share)

    def matched_lies(self, lie: float, clips: Any, scales: Any) -> Floats:
        """The D with the undeterred share that `lie` has at c = R and the same noise; at most `lie`.

        For every clip level (a row) and scale of the peer noise (a column). Where `lie` leaves everything undeterred at
        c = R, so does D here, in proportion to the span of q. The share may jump where D reaches from one plateau of q
        to another; D is then the largest below the jump. 0.0 means that even D = 0 leaves more undeterred, because of
        plateaus: such a clip level must be refused.
        """
        size = check.nonnegative("lie", lie)
        levels, noises = check.vector("clips", clips), check.vector("scales", scales)
        table = np.empty((len(levels), len(noises)))
        for column, scale in enumerate(noises):
            whole, *clipped = self._shares((self.beliefs.radius, *levels.tolist()), float(scale))
            target = whole(size)
            table[:, column] = [
                size if share is whole else _match(share, whole, size, target) for share in clipped
            ]
        return table

    def _shares(self, clips: Sequence[float | None], scale: float) -> list[_Shares]:
        """The undeterred share as a function of the lie, for each clip level at one scale of the peer noise. Cached."""
        clips = tuple(clips)
        if (clips, scale) not in self._kept:
            self._kept[clips, scale] = self._shares_at(clips, scale)
        return self._kept[clips, scale]

    @cached_property
    def _kept(self) -> dict[tuple[tuple[float | None, ...], float], list[_Shares]]:
        return {}

    def _shares_at(self, clips: tuple[float | None, ...], scale: float) -> list[_Shares]:
        d, answers = self.beliefs.dimension, _answers(self.beliefs, tuple(self.lengths.tolist()))
        points = np.tile(self.beliefs.radius * _points(), (len(self.lengths), 1))
        ratios = check.nonnegative("scale", scale) * self.proportions / self.lengths
        # Noise that is negligible beside R counts as none: divided by it, R would overflow.
        ratios[ratios < _VANISHING * self.beliefs.radius] = 0.0
        scales = np.repeat(ratios[:, None], points.shape[1], axis=1)
        curves = {
            clip: points if clip is None else Clipped(check.positive("clip", clip), d)(points, scales)
            for clip in clips
        }
        means = answers.weights @ np.stack(list(curves.values()), axis=2)
        found = {
            clip: _Shares.of(answers, self.lengths[:, None] * means[:, :, k], self.beliefs)
            for k, clip in enumerate(curves)
        }
        return [found[clip] for clip in clips]


def representative(lengths: Any, proportions: Any, count: int = 16) -> tuple[Floats, Floats]:
    """Lengths and proportions of `count` representative people: root mean squares of equal groups, by length.

    Groups have equal size, in fractions where it does not divide. People whose features are all 0 are left out: their
    answers count for nothing.
    """
    length = check.vector("lengths", lengths)
    proportion = check.vector("proportions", proportions, len(length))
    groups = check.integer("count", count)
    _refuse("lengths", length, length < 0, "0 or above")
    _refuse("proportions", proportion, proportion < 0, "0 or above")
    order = np.argsort(length, kind="stable")
    order = order[length[order] > 0]
    if not len(order):
        raise InputError("lengths are all 0; nobody's answer moves a prediction.")
    edges = np.linspace(0, len(order), groups + 1)

    def means(values: Floats) -> Floats:
        sums = np.concatenate([[0.0], np.cumsum(np.square(values[order]))])
        parts = np.diff(np.interp(edges, np.arange(len(sums)), sums))
        return np.asarray(np.sqrt(np.maximum(parts, 0.0) * (groups / len(order))))

    return means(length), means(proportion)


class _Answers(NamedTuple):
    """Answers 0 = y_0 ≤ … ≤ y_m = Rr + M of each person (a row), and their posteriors.

    `chances` are the probabilities of the cells between them, given y ≥ 0. `weights` turn ψ at `_points` into
    E[ψ(u) | r, y] for every odd ψ that is linear between them; for others they interpolate.
    """

    answers: Floats
    chances: Floats
    weights: Floats


@lru_cache(maxsize=2)
def _answers(beliefs: Beliefs, lengths: tuple[float, ...]) -> _Answers:
    """Cached: a plan's guarantees ask for the same people again, at other noise."""
    answers = np.stack([_grid(beliefs, r) for r in lengths])
    weights, densities = [], []
    # One person at a time: her posteriors' nodes and all intermediates are half a million numbers.
    for r, y in zip(lengths, answers, strict=True):
        v, chance, logs = posteriors(beliefs, np.full(len(y), r), y)
        weights.append(_spread(v, chance))
        densities.append(np.exp(logs - logs.max()))
    density = np.stack(densities)
    chances = np.diff(answers, axis=1) * (density[:, 1:] + density[:, :-1])
    return _Answers(answers, chances / chances.sum(axis=1, keepdims=True), np.stack(weights))


def _grid(beliefs: Beliefs, r: float) -> Floats:
    """Answers from 0 to Rr + M, denser where truthful ones are, and from |M − Rr| on, where q may have a kink."""
    R, M = beliefs.radius, beliefs.noise_bound
    edge = R * r + M
    spread = 2 * np.sqrt(r**2 * beliefs.prior.variance(beliefs.dimension) + beliefs.noise_variance)
    likely = spread * np.sinh(np.linspace(0, np.arcsinh(edge / spread), _LIKELY + 1))
    kink = abs(M - R * r)
    late = kink + (edge - kink) * np.square(np.sin(np.linspace(0, np.pi / 2, _LATE + 1)))
    return np.asarray(np.minimum(np.sort(np.concatenate([likely[:-1], late])), edge))


def posteriors(beliefs: Beliefs, r: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
    """Nodes u/R of the posterior for every r and y (a row), their probabilities, and the log of the density of y.

    On the angle t with u = R cos t, where the prior has no singularity, by Gauss's rule on panels of the part of the
    support that matters. The density of y is given up to a factor that depends on r.
    """
    R, M = beliefs.radius, beliefs.noise_bound
    where = posterior.support(beliefs, r, y)

    def log_weight(t: Floats) -> Floats:
        z = np.clip(where.y[:, None] - where.r[:, None] * (R * np.cos(t)), -M, M)
        logs = beliefs.prior.log_weight(t, beliefs.dimension) + beliefs.noise.log_density(z)
        # Give NaN no weight, unless there is nothing else.
        return np.where(np.isfinite(logs), logs, -1e300)

    low, high = where.low, where.high
    probes = (np.arange(_PROBES) + 0.5) / _PROBES
    for _ in range(_PASSES):
        width = (high - low)[:, None]
        logs = log_weight(low[:, None] + width * probes)
        counts = logs >= logs.max(axis=1, keepdims=True) - _DROP
        # A log-concave weight stays below the threshold beyond the first probes that are.
        first, last = counts.argmax(axis=1), _PROBES - 1 - counts[:, ::-1].argmax(axis=1)
        ends = np.concatenate([[0.0], probes, [1.0]])
        low, high = low + width[:, 0] * ends[first], low + width[:, 0] * ends[last + 2]
    nodes, rule = _gauss()
    width = (high - low)[:, None]
    t = low[:, None] + width * nodes
    logs = log_weight(t)
    peak = logs.max(axis=1)
    mass = np.exp(logs - peak[:, None]) * rule
    total = mass.sum(axis=1)
    return np.cos(t), mass / total[:, None], peak + np.log(np.maximum(total * width[:, 0], _LEAST))


@cache
def _gauss() -> tuple[Floats, Floats]:
    """Nodes between 0 and 1 of Gauss's rule on panels, and their weights."""
    x, rule = np.polynomial.legendre.leggauss(_NODES)
    nodes = ((np.arange(_PANELS)[:, None] + (1 + x) / 2) / _PANELS).ravel()
    return nodes, np.tile(rule / (2 * _PANELS), _PANELS)


def _points() -> Floats:
    """0 = v_0 < … < v_600 = 1 at equal angles: the points at which ψ(Rv) is evaluated."""
    return np.sin(np.linspace(0, np.pi / 2, _POINTS + 1))


def _spread(v: Floats, chance: Floats) -> Floats:
    """Move probabilities at v in [−1, 1] to the two nearest points, in proportion, with the sign of v."""
    points, size = _points(), np.abs(v)
    cell = np.minimum((np.arcsin(size) * (_POINTS / (np.pi / 2))).astype(np.intp), _POINTS - 1)
    signed = np.copysign(chance, v)
    upper = signed * ((size - points[cell]) / np.diff(points)[cell])
    lower = signed - upper
    at = (cell + (np.arange(len(v)) * (_POINTS + 1))[:, None]).ravel()
    sums = np.zeros(len(v) * (_POINTS + 1))
    sums += np.bincount(at, lower.ravel(), len(sums))
    sums += np.bincount(at + 1, upper.ravel(), len(sums))
    return sums.reshape(len(v), _POINTS + 1)


@dataclass(frozen=True, eq=False)
class _Shares:
    """The undeterred share as a function of the lie D, for q linear between answers y_0 < … < y_m of each person.

    Let A(v) = sup{y' in [−Y, Y] : q(y') ≤ v}. q is odd and the distribution of y even, so the share is E[A(q(y) + D)] /
    Y. On a cell between two answers q(y) is uniform, and the mean of A is a difference quotient of ∫A, which is
    piecewise quadratic: jumps of A, where q is flat, cost no accuracy.
    """

    answers: Floats
    chances: Floats
    q: Floats
    bound: float
    radius: float

    @classmethod
    def of(cls, known: _Answers, q: Floats, beliefs: Beliefs) -> _Shares:
        """Build from answers y ≥ 0 and q there."""
        rising = np.maximum.accumulate(np.maximum(q, 0.0), axis=1)
        rising[:, 0] = 0.0
        answers, q = (np.hstack([-half[:, :0:-1], half]) for half in (known.answers, rising))
        chances = np.hstack([known.chances[:, ::-1], known.chances]) / (2 * len(q))
        return cls(answers, chances, q, beliefs.response_bound, beliefs.radius)

    @property
    def span(self) -> float:
        """The largest distance in q between two answers of one person."""
        return float(2 * self.q.max())

    def __call__(self, lie: float) -> float:
        at, answer, integral = self._integral_at(lie)
        means = (answer[:, 1:] + answer[:, :-1]) / 2
        gains, thick = self._gains
        # Where A is linear, the mean is the value in the middle.
        bent = (at[:, 1:] > at[:, :-1]) & thick
        np.divide(integral[:, 1:] - integral[:, :-1], gains, out=means, where=bent)
        return min(max(float(np.sum(self.chances * means)) / self.bound, 0.0), 1.0)

    def furthest(self, lie: float, share: float) -> float:
        """By symmetry the lowest answer that a lie can be is −A(lie − q(y)) = −A(q(−y) + lie)."""
        _, answer, _ = self._integral_at(lie)
        below = answer[:, ::-1]
        reach = np.maximum(answer - self.answers, self.answers + below)
        free = np.minimum(answer, below) >= self.bound * (1 - _LEVEL)
        reach = np.where(free, np.inf, reach)
        # A cell's probability counts at the larger of its ends.
        cells = np.maximum(reach[:, 1:], reach[:, :-1]).ravel()
        order = np.argsort(cells)
        chances = np.cumsum(self.chances.ravel()[order])
        place = int(np.searchsorted(chances, share * (1 - _LEVEL)))
        return float(cells[order][min(place, len(cells) - 1)])

    @cached_property
    def _gains(self) -> tuple[Floats, Any]:
        """The rise of q on each cell, and whether it is large enough to divide by."""
        gains = np.diff(self.q, axis=1)
        return gains, gains > _THIN * self.radius

    def _integral_at(self, lie: float) -> tuple[Any, Floats, Floats]:
        """A(q + lie) at every answer of every person, the cell of q that it lies in, and ∫A up to there."""
        keys, offset, start, low, width, rise, area = self._inverse
        reached = self.q + (lie + _LEVEL * self.radius)
        at = np.searchsorted(keys, (np.minimum(reached, self.q[:, -1:]) + offset).ravel(), side="right") - 1
        step = np.clip(reached.ravel() - start[at], 0.0, width[at])
        answer = low[at] + step * rise[at]
        integral = area[at] + step * (low[at] + answer) / 2
        return at.reshape(self.q.shape), answer.reshape(self.q.shape), integral.reshape(self.q.shape)

    @cached_property
    def _inverse(self) -> tuple[Floats, ...]:
        """A and ∫A of all people in one row: sorted keys, and the shifts of q that make them; q, A, width, slope and
        ∫A.
        """
        gains, last = np.diff(self.q, axis=1), np.full((len(self.q), 1), self.bound)
        steps = np.diff(self.answers, axis=1)
        rise = np.divide(steps, gains, out=np.zeros_like(gains), where=gains > 0)
        low = np.hstack([self.answers[:, :-1], last])
        area = np.cumsum(gains * (self.answers[:, 1:] + self.answers[:, :-1]) / 2, axis=1)
        offset = (3 * self.q.max() + 1) * np.arange(len(self.q))[:, None]
        columns = (
            self.q,
            low,
            np.hstack([gains, np.full_like(last, np.inf)]),
            np.hstack([rise, np.zeros_like(last)]),
            np.hstack([np.zeros_like(last), area]),
        )
        return (self.q + offset).ravel(), offset, *(column.ravel() for column in columns)


def _match(share: _Shares, whole: _Shares, lie: float, target: float) -> float:
    """The D ≤ lie with share(D) = target, which is whole(lie), by false position: `lie` if share(lie) is not above it,
    0.0 if no share is below.

    Where all is undeterred, any D beyond the span of q would work; D stays in proportion to the span.
    """
    if target >= 1 - _EQUAL:
        ratio = share.span / whole.span if whole.span > 0 else 1.0
        return lie * ratio if ratio < 1 - _CLOSE else lie
    low, high = 0.0, lie
    below, above = share(low) - target, share(high) - target
    if above <= _EQUAL:
        return lie
    if below > _EQUAL:
        return 0.0
    moved = 0.0
    for _ in range(_STEPS):
        if high - low <= _CLOSE * lie:
            break
        middle = low - below * (high - low) / (above - below)
        if not low < middle < high:
            middle = (low + high) / 2
        gap = share(middle) - target
        if abs(gap) <= _EQUAL:
            return middle
        # An end that stays a second time counts half, so that both move.
        if gap > 0:
            high, above, below = middle, gap, below / 2 if moved > 0 else below
        else:
            low, below, above = middle, gap, above / 2 if moved < 0 else above
        moved = gap
    return low


def _refuse(name: str, values: Floats, bad: Any, wanted: str) -> None:
    if np.any(bad):
        raise InputError(f"{name} holds {values[bad][0]}; every entry must be {wanted}.")


# Wrong beliefs

#: How many answers to search for the largest gap, lengths of features, and cells of u on which ψ counts as linear.
_ANSWERS, _LENGTHS, _CELLS = 25, 9, 4_000
#: The number of halvings: a shift is then known to 2e-8 of its bound.
_HALVINGS = 26
#: A shift, as a part of R, so small that gaps are linear in it; and a slope of q that counts as 0.
_SMALL, _FLAT = 1e-3, 1e-3


@dataclass(frozen=True, eq=False)
class ShiftedPeople:
    """People of these lengths r > 0 with these answers y, who take the average to be `shift` higher than declared.

    Their posterior of u depends on neither clipping nor noise, so it is computed once; and so is what turns ψ into all
    gaps where noise is the same for all.
    """

    beliefs: Beliefs
    r: Floats
    y: Floats
    shift: Floats

    def gaps(self, curve: Curve, scale: Floats | float) -> Floats:
        """γ(shift, y) of each; `scale` is the scale of the peer noise along the unit vector of x."""
        noise = np.broadcast_to(scale, self.r.shape)
        (own, own_chance), (declared, chance) = self._posteriors
        return _mean(curve, own, own_chance, self.r, noise) - _mean(curve, declared, chance, self.r, noise)

    def largest_gap(self, curve: Curve, scale: float) -> float:
        """The largest γ of these people, or 0, with the same noise for all."""
        points, weights = self._weights
        return max(0.0, float((weights @ curve(points, scale)).max()))

    @cached_property
    def _weights(self) -> tuple[Floats, Floats]:
        """Points u, and what turns ψ there into everybody's gap."""
        (own, chance), (declared, known) = self._posteriors
        edge = max(np.abs(own).max(), np.abs(declared).max())
        difference = _hats(own, chance, edge) - _hats(declared, known, edge)
        return np.linspace(-edge, edge, _CELLS + 1), self.r[:, None] * difference

    @cached_property
    def _posteriors(self) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
        """Values of u and their probabilities, by her own beliefs and by the declared ones."""
        return _posterior(self.beliefs, self.r, self.y, self.shift), _posterior(
            self.beliefs, self.r, self.y, np.zeros_like(self.y)
        )


def _hats(u: Floats, chance: Floats, edge: float) -> Floats:
    """Move probabilities at u in [−edge, edge] to the two nearest of the points, in proportion."""
    place = (u + edge) * (_CELLS / (2 * edge))
    cell = np.minimum(place.astype(np.intp), _CELLS - 1)
    upper = chance * (place - cell)
    at = (cell + (np.arange(len(u)) * (_CELLS + 1))[:, None]).ravel()
    sums = np.zeros(len(u) * (_CELLS + 1))
    sums += np.bincount(at, (chance - upper).ravel(), len(sums))
    sums += np.bincount(at + 1, upper.ravel(), len(sums))
    return sums.reshape(len(u), _CELLS + 1)


def largest_belief_gap(
    beliefs: Beliefs, lengths: Floats, proportions: Floats, shift: float, clip: float | None, scale: float
) -> float:
    """Γ: the largest γ over features of these lengths and truthful answers.

    Noise has the scale scale · proportion. It flattens the others' predictions and so shrinks gaps: the least noise of
    anybody is used for all. No `clip` means no clipping.
    """
    if shift == 0:
        return 0.0
    longer = lengths > 0
    least = scale * float(np.min(proportions[longer] / lengths[longer]))
    curve = IDENTITY if clip is None else Clipped(clip, beliefs.dimension)
    return people_of_lengths(beliefs, spread_lengths(lengths[longer]), shift).largest_gap(curve, least)


@lru_cache(maxsize=4)
def people_of_lengths(beliefs: Beliefs, lengths: tuple[float, ...], shift: float) -> ShiftedPeople:
    """A person of each of these lengths with each of the answers that she can truthfully give."""
    delta = check.nonnegative("shift", shift)
    r = np.repeat(np.array(lengths), _ANSWERS)
    reach = beliefs.radius * r + beliefs.noise_bound
    low, high = delta - reach, np.minimum(delta + reach, beliefs.response_bound)
    part = np.tile(np.linspace(0, 1, _ANSWERS), len(lengths))
    y = low + np.maximum(high - low, 0.0) * part
    return ShiftedPeople(beliefs, r, y, np.full(len(r), delta))


def spread_lengths(lengths: Floats) -> tuple[float, ...]:
    """A few lengths between the least and the largest, to represent all."""
    return tuple(np.unique(np.quantile(lengths, np.linspace(0, 1, _LENGTHS))).tolist())


def tolerated_shift(
    beliefs: Beliefs, r: float, scale: float, curve: Curve, answers: Floats, gap: float, most: float
) -> float:
    """The largest shift, at most `most`, up to which |γ| ≤ gap at all these answers, in either direction."""
    y = np.concatenate([answers, -answers])
    lengths, noise = np.full(len(y), r), np.full(len(y), scale)

    def expected(shift: float) -> Floats:
        u, chance = _posterior(beliefs, lengths, y, np.full(len(y), shift))
        return _mean(curve, u, chance, lengths, noise)

    declared = expected(0.0)

    def largest(shift: float) -> float:
        return float((expected(shift) - declared).max())

    low, high = 0.0, most
    if largest(high) <= gap:
        return high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if largest(middle) <= gap else (low, middle)
    return low


def tolerated_gap(lie: float, allowed: float, gap: float = 0.0) -> float:
    """Γ(D') = (D'² − D² + 2Dg)/2D' − g: with payments that deter lies beyond D, `allowed` is D' if |γ| ≤ Γ."""
    return (allowed**2 - lie**2 + 2 * lie * gap) / (2 * allowed) - gap


def amplification(beliefs: Beliefs, r: float, scale: float, curve: Curve) -> float | None:
    """How far a small error of the centre moves the best answer of a person who answers as declared, y = 0.

    γ/∂q/∂y: σ²/v where an answer counts linearly. None where q is flat there.
    """
    typical, small = np.array([r]), np.array([_SMALL * beliefs.radius])
    gap = ShiftedPeople(beliefs, typical, np.zeros(1), small).gaps(curve, scale)
    u, chance = _posterior(beliefs, typical, small, np.zeros(1))
    moved = _mean(curve, u, chance, typical, np.array([scale]))
    return None if moved[0] < _FLAT * small[0] else float(gap[0] / moved[0])


def _posterior(beliefs: Beliefs, r: Floats, y: Floats, shift: Floats) -> tuple[Floats, Floats]:
    """u + shift/r given y, for u given y − shift: values (a row for each) and their probabilities."""
    off = y - shift
    v, chance, _ = posteriors(beliefs, r, np.abs(off))
    return np.copysign(beliefs.radius, off)[:, None] * v + (shift / r)[:, None], chance


def _mean(curve: Curve, u: Floats, chance: Floats, r: Floats, scale: Floats) -> Floats:
    """r·E[ψ(u)] of each row."""
    return np.asarray(r * np.einsum("ij,ij->i", chance, curve(u, np.repeat(scale[:, None], u.shape[1], 1))))


# The slope of q, and the typical person

CENTRAL = 0.9
DRAWS, POINTS, BETWEEN = 20_000, 41, 129
#: The quantile of truthful answers up to which they are likely, and how many of them to evaluate.
LIKELY, ANSWERS = 0.99, 5
#: For features without an intercept: the shortest length, and the number of lengths.
SHORTEST, LENGTHS = 0.05, 9


class Typical(NamedTuple):
    """A person of typical features: ‖x‖, the scale of the peers' noise along the unit vector of x, and their curve."""

    length: float
    scale: float
    curve: Curve


def central_slope(study: Study, person: Typical) -> float:
    """The least ∂q/∂y over the central 90 % of truthful reports, at features of typical length.

    Typical: ‖x‖² and the peer noise along x at their means over the design (for observed features, ‖x‖ = 1 and the
    noise of features with equal spread in all directions).
    """
    r, scale, curve = person
    edge = np.quantile(np.abs(_reports(study, r)), CENTRAL)
    y = np.linspace(-edge, edge, POINTS)
    return float(study.beliefs.slope(np.full(POINTS, r), y, curve, np.full(POINTS, scale)).min())


def share_beyond(study: Study, person: Typical, lie: float) -> float:
    """The share of people, at features of typical length, who have any report that moves q by more than `lie`.

    q rises with the report and is odd, so the two extreme reports, ±(Rr + M), are the furthest apart.
    """
    own, q = _absolute_predictions(study, person)
    return float(np.mean(own + q > lie))


def mean_square_prediction(study: Study, person: Typical) -> float:
    """E[q²] over truthful reports, at features of typical length."""
    return float(np.mean(_absolute_predictions(study, person)[0] ** 2))


@lru_cache(maxsize=8)  # a plan asks twice
def _absolute_predictions(study: Study, person: Typical) -> tuple[Floats, float]:
    """|q| of truthful reports, and the largest |q|."""
    beliefs, r = study.beliefs, person.length
    y = np.linspace(0, beliefs.radius * r + beliefs.noise_bound, BETWEEN)
    q = own_predictions(study, person, y)
    return np.interp(np.abs(_reports(study, r)), y, q), float(q[-1])


def own_predictions(study: Study, person: Typical, y: Floats) -> Floats:
    """q at these answers; answers beyond those she can truthfully give count like the furthest of these."""
    beliefs, (r, scale, curve) = study.beliefs, person
    told = np.minimum(y, beliefs.radius * r + beliefs.noise_bound)
    # `beliefs.prediction` would load compiled code for these few if the curve has corners.
    return np.asarray(r * posterior.mean(beliefs, np.full(len(y), r), told, curve, np.full(len(y), scale)))


def typical(study: Study, mechanism: OneRelease, players: int, geometry: Geometry | None = None) -> Typical:
    """A person whose ‖x‖² and peer noise are at their means, over the design or over respondents."""
    beliefs = study.beliefs
    if geometry is not None:
        r = math.sqrt(geometry.lengths.mean_square)
        proportion = geometry.typical_noise * geometry.players / players
    else:
        r, proportion = math.sqrt(study.mean_square_norm), noise_proportion(study, players)
    return Typical(r, mechanism.scale(beliefs) * proportion, mechanism.curve(beliefs))


def noise_proportion(study: Study, players: int) -> float:
    """The noise along a typical unit vector of x as a part of that in the released sum, everybody else being peers."""
    return stretch(study) / max(1, players - 1)


def least_noise(study: Study) -> tuple[Floats, Floats]:
    """Possible lengths of the design's features, and the least noise along them for unit noise in the released mean.

    ‖Σ⁻¹x‖ ≥ ‖x‖/λ_max(Σ), and λ_max ≤ 1 as ‖x‖ ≤ 1.
    """
    encoding, Sigma = study.declared.encoding, study.second_moments
    shortest = 1 / encoding.scale if encoding.intercept else SHORTEST
    lengths = np.linspace(shortest, 1.0, LENGTHS)
    largest = 1.0 if Sigma is None else float(np.linalg.eigvalsh(Sigma)[-1])
    return lengths, lengths / largest


def likely_answers(study: Study, r: float) -> Floats:
    """Truthful answers, normalised, from the middle to the 99 % quantile, at features of this length."""
    edge = np.quantile(np.abs(_reports(study, r)), 2 * LIKELY - 1)
    return np.linspace(0.0, edge, ANSWERS)


@lru_cache(maxsize=8)  # a plan asks for them again and again
def _reports(study: Study, r: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Truthful reports y = r·u + z from fixed draws, so that a plan is reproducible."""
    rng, beliefs = np.random.default_rng(0), study.beliefs
    u = beliefs.prior.sample(rng, study.dimension, DRAWS)[:, 0]
    return np.asarray(r * u + beliefs.noise.sample(rng, DRAWS))


def stretch(study: Study) -> float:
    """‖A x‖/‖x‖ for the noise A v in an estimate: the root mean square over the design."""
    Sigma = study.second_moments
    if Sigma is None:
        return study.dimension / study.mean_square_norm
    inverse = np.linalg.inv(Sigma)
    # E‖Σ⁻¹x‖² = tr Σ⁻¹.
    return math.sqrt(float(np.trace(inverse)) / study.mean_square_norm)
