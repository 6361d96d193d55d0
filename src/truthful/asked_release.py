"""The mechanism that asks twice: for her answer, and for what she thinks the others will say.

One draw of d + 1 dimensions releases b̃ = Σ ζ_i y_i + N as always, and with it ρ·Σ m_i + N', m_i being predictions of
the average answer. Two data sets are neighbours if they differ in one person's answer and prediction: that moves b by
2Y at most and the other coordinate by 2Yρ, so by 2Y√(1 + ρ²) in all. Anybody's own part of the release can be removed
again, exactly. With p the others' prediction for people like her, p⁰ that for the average person, m̄ the others' mean
prediction, and o, s and k from the declared differences (truthful.study.credibility),

    numbers and ratings     μ̂ = (m̄ − mean of k_j(x_j·θ̂ − o_j) over the others)/(1 − mean of k_j)
                            payment = a + b·(2s(1−s)(y − p)·Δ − s²(y − p)²),   Δ = p − μ̂ − o, within ±C
    yes and no              payment = a + b·y·Δ/C,                             Δ = p − m̄ − o, within ±C
    everybody               + w·(4 − (m − p⁰)²)                                for the prediction

E[μ̂ | θ] is the centre of people's beliefs, whatever it is, and nobody declares it. Then the truth maximises the
expected payment (docs/theory.md): if answers come out higher than people predicted, answers above the average earn
more. Where p⁰ is not plausible, everybody gets a whatever she answered.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from truthful import check
from truthful.check import Floats
from truthful.errors import InputError
from truthful.estimators.sensitivity import Query, cross_sensitivity, sqrt_above
from truthful.moments import GRID, PRODUCT, PythonIntegers, Sums, along, instruments_on_grid
from truthful.one_release import SUM_UNIT, Bounded, LeaveOneOut, SumRelease, peer_predictions
from truthful.scoring import round_down
from truthful.study.credibility import LevelBeliefs

#: The payment rules: for numbers and ratings, and for yes and no.
OWN_CENTRE, SERUM = "own-centre", "serum"
#: Units of ρ are 1/RATIO_UNIT, so that ρ·2²⁰ is whole.
RATIO_UNIT = 1024
#: The width of the scale of answers, from −1 to 1.
SCALE = 2.0


@dataclass(frozen=True, eq=False, kw_only=True)
class AskedRelease(SumRelease):
    """The release of answers and predictions, and the payments for them.

    ratio is ρ, the weight of predictions relative to answers in the one draw. base_payment is a, score_weight b,
    prediction_weight w, and clip is C. plausible is the range in which the others' average answer must lie.
    """

    rule: str
    ratio: float
    base_payment: float
    score_weight: float
    prediction_weight: float
    clip: float
    plausible: tuple[float, float] = (-math.inf, math.inf)

    payments = "never-negative"

    def __post_init__(self) -> None:
        super().__post_init__()
        check.choice("rule", self.rule, (OWN_CENTRE, SERUM))
        if self.estimator != "instruments":
            raise InputError(f"Estimator {self.estimator!r} cannot release predictions; use 'instruments'.")
        if self.norm != "l2":
            raise InputError(f"norm is {self.norm!r}; predictions are released with noise of the norm 'l2'.")
        for name in ("base_payment", "score_weight", "prediction_weight"):
            check.nonnegative(name, getattr(self, name))
        check.positive("clip", self.clip)
        if not (check.positive("ratio", self.ratio) * RATIO_UNIT).is_integer():
            raise InputError(f"ratio is {self.ratio!r}; it must be a multiple of 1/{RATIO_UNIT}.")

    def sensitivity(self, beliefs: Bounded) -> int:
        """L2 sensitivity of the release to one person's answer and prediction: 2Y√(1 + ρ²), rounded up."""
        both = sqrt_above(1 + Fraction(self.ratio) ** 2)
        return math.ceil(cross_sensitivity(beliefs.response_bound) * both)

    def scale(self, beliefs: Bounded) -> float:
        return float(self.sensitivity(beliefs) * SUM_UNIT / self.vector_epsilon)

    def queries(self, sums: Sums, beliefs: Bounded) -> tuple[Query, ...]:
        """The vector to release: b, and ρ·2²⁰ times the sum of predictions on the grid, a whole number."""
        if sums.predictions is None:
            raise InputError("The sums have no predictions in them.")
        return (
            Query(
                value=(*(int(k) for k in sums.vector), self._weight * sums.predictions),
                unit=SUM_UNIT,
                sensitivity=Fraction(self.sensitivity(beliefs)),
                weights=(1,) * (sums.dimension + 1),
                share=Fraction(1),
            ),
        )

    def estimate(
        self, answers: Sequence[Sequence[int]], count: int, beliefs: Bounded, matrix: PythonIntegers | None
    ) -> LeaveOneOut:
        *vector, predictions = answers[-1]
        return replace(super().estimate([vector], count, beliefs, matrix), predictions=int(predictions))

    def predicted_sum(self, estimate: LeaveOneOut) -> float:
        """The released sum of predictions, noise included."""
        if estimate.predictions is None:
            raise InputError("Nothing was released of predictions.")
        return estimate.predictions / (self._weight * GRID)

    @property
    def _weight(self) -> int:
        return round(self.ratio * GRID)

    @property
    def prediction_payment(self) -> float:
        """The maximum payment for a prediction."""
        return self.prediction_weight * SCALE**2

    def payment_range(self, beliefs: LevelBeliefs) -> tuple[float, float]:
        """The least and the largest payment, whatever anybody does."""
        (low, high), C = beliefs.slope_range, self.clip
        # The places of the largest gain and the largest loss, where these are not at an end.
        peaks = (C / (2 * (1 + C)), C / (2 * (C - 1)) if C > 1 else high)
        slopes = np.clip(np.array([low, high, *peaks]), low, high)
        gain, loss = (float(of(self.rule, slopes, C).max()) for of in (largest_gain, largest_loss))
        most = self.base_payment + self.score_weight * gain + self.prediction_payment
        least = max(0.0, self.base_payment - self.score_weight * loss)
        least, most = round_down(np.array([least, most])).tolist()
        return least, most


def score(rule: str, s: Floats, y: Floats, p: Floats, surprise: Floats, clip: float) -> Floats:
    """The score of an answer beside a, as a part of b: yΔ/C for yes and no, else 2s(1−s)(y − p)Δ − s²(y − p)²."""
    if rule == SERUM:
        return np.asarray(y * surprise / clip)
    apart = s * (y - np.clip(p, -1.0, 1.0))
    return np.asarray(2 * (1 - s) * apart * surprise - apart * apart)


def largest_loss(rule: str, s: Floats, C: Floats | float) -> Floats:
    """The most that a score subtracts at slopes s, as a part of b: 4s(1−s)C + 4s², and 1 for yes and no."""
    if rule == SERUM:
        return np.ones(np.broadcast_shapes(np.shape(s), np.shape(C)))
    return np.asarray(2 * SCALE * s * (1 - s) * C + (SCALE * s) ** 2)


def largest_gain(rule: str, s: Floats, C: Floats | float) -> Floats:
    """The most that a score adds, as a part of b: ((1−s)C)² at y − p = (1−s)C/s, or that at an end of the scale."""
    if rule == SERUM:
        return np.ones(np.broadcast_shapes(np.shape(s), np.shape(C)))
    reach = np.minimum((1 - s) * C / s, SCALE)
    return np.asarray(2 * s * (1 - s) * reach * C - (s * reach) ** 2)


@dataclass(frozen=True, eq=False)
class Level:
    """Features' part in the average answer: c, and sums of k_j, k_j x_j and k_j o_j on the grid, exact integers.

    Weights count steps of 2⁻²⁰, products their squares. Yes and no do not need them: they are 0.
    """

    count: int
    mean: Floats
    weight: int
    weighted: tuple[int, ...]
    offset: int


def mean_features(sums: Sums) -> Floats:
    """c, the mean of x: the first column is the intercept's, the same for all, so Σ x₀x is x₀ times the sum of x."""
    intercept = math.isqrt(int(sums.features[0, 0]) // sums.count)
    return np.asarray((sums.features[0] / (sums.count * intercept * GRID)).astype(np.float64))


def level_of(beliefs: LevelBeliefs, sums: Sums, people: Iterable[Floats]) -> Level:
    """Sum what features say of the average answer, over everybody who answered; `people` brings their features on the
    grid, part by part.
    """
    c, nothing = mean_features(sums), (0,) * beliefs.dimension
    if beliefs.strict:
        return Level(sums.count, c, 0, nothing, 0)
    if beliefs.dimension == 1:
        (k,), _ = _weights(beliefs, np.full((1, 1), float(GRID)), c)
        return Level(sums.count, c, sums.count * int(k), (sums.count * int(k) * GRID,), 0)
    weight, weighted, offset = 0, np.array(nothing, dtype=object), 0
    for kx in people:
        k, o = _weights(beliefs, kx, c)
        weight += int(k.sum())
        weighted = weighted + np.array(
            [int((k * column.astype(np.int64)).sum()) for column in kx.T], dtype=object
        )
        offset += int((k * o).sum())
    return Level(sums.count, c, weight, tuple(int(w) for w in weighted), offset)


def _weights(beliefs: LevelBeliefs, kx: Floats, c: Floats) -> tuple[Any, Any]:
    """k_j and o_j in whole steps of the grid."""
    x = kx / GRID
    slopes, offsets = beliefs.level_slopes(x, c), beliefs.offsets(x, c)
    return np.trunc(slopes * GRID).astype(np.int64), np.trunc(offsets * GRID).astype(np.int64)


@dataclass(frozen=True, eq=False)
class AskedScored:
    """The steps to each player's payment; values on the scale of answers run from −1 to 1.

    Her leverage, the scale of the noise in the others' prediction for people like her, that prediction, the others'
    average answer and average prediction, both without hers, the clipped surprise, and the payment.
    """

    leverage: Floats
    noise_scale: Floats
    peer_prediction: Floats
    others_answer: Floats
    others_prediction: Floats
    surprise: Floats
    payment: Floats


@dataclass(frozen=True, eq=False)
class AskedPaymaster:
    """Pays players for answers and predictions, given the release."""

    mechanism: AskedRelease
    beliefs: LevelBeliefs
    estimate: LeaveOneOut
    level: Level

    def score_players(self, kx: Floats, ky: Floats, *km: Floats) -> AskedScored:
        """The scores and payments of players on the grid; the others' answers are not clipped."""
        found, (predictions,) = peer_predictions(self.estimate, kx, ky), km
        h, p, noise = found.leverage, found.prediction, found.noise_scale
        return self.score(kx, found.report, predictions / GRID, h, p, noise)

    def score(self, kx: Floats, y: Floats, m: Floats, h: Floats, p: Floats, noise: Floats) -> AskedScored:
        """The scores and payments from leverages, the others' predictions, and the scale of their noise."""
        mechanism, beliefs, others = self.mechanism, self.beliefs, self.level.count - 1
        kz = instruments_on_grid(kx, self.estimate.transform)
        k, o = _weights(beliefs, kx, self.level.mean)
        offset, own = o / GRID, y - p
        average = self._without(self.level.mean, kz, own)
        predicted = (mechanism.predicted_sum(self.estimate) - m) / others
        if mechanism.rule == SERUM:
            surprise = p - predicted - offset
        else:
            weighted = np.array([float(Fraction(w, PRODUCT)) for w in self.level.weighted])
            answers = self._without(weighted, kz, own) - (k / GRID) * p
            offsets = (self.level.offset - k * o) / PRODUCT
            kept = 1.0 - (self.level.weight - k) / GRID / others
            centre = (predicted - (answers - offsets) / others) / kept
            surprise = p - centre - offset
        counted = np.clip(surprise, -mechanism.clip, mechanism.clip)
        counted = np.where(self._plausible(average), counted, 0.0)
        payment = self.pay_amounts(kx, y, m, p, average, counted)
        return AskedScored(h, noise, p, average, predicted, counted, payment)

    def pay_amounts(
        self, kx: Floats, y: Floats, m: Floats, p: Floats, average: Floats, surprise: Floats
    ) -> Floats:
        """The payments for answers and predictions, given the others': whole millionths, rounded down."""
        mechanism = self.mechanism
        s = self.beliefs.slopes(kx / GRID, self.level.mean)
        scores = score(mechanism.rule, s, y, p, surprise, mechanism.clip)
        scores = np.where(self._plausible(average), scores, 0.0)
        most = mechanism.base_payment + mechanism.score_weight * largest_gain(
            mechanism.rule, s, mechanism.clip
        )
        answer = np.minimum(np.maximum(mechanism.base_payment + mechanism.score_weight * scores, 0.0), most)
        off = m - np.clip(average, -1.0, 1.0)
        amount = answer + mechanism.prediction_weight * (SCALE**2 - off * off)
        return round_down(amount)

    def _plausible(self, average: Floats) -> Any:
        low, high = self.mechanism.plausible
        return (average >= low) & (average <= high)

    def _without(self, row: Floats, kz: Floats, own: Floats) -> Floats:
        """row·θ̂ without each player: θ̂₋ᵢ = θ̂ − M⁻¹ζ_i(y_i − p_i). Column by column, so that it does not depend on
        the batch.
        """
        taken = along(kz, self.estimate.inverse.T @ row / GRID)
        return np.asarray(float(row @ self.estimate.theta) - taken * own)
