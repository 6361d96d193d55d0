"""One release: a noisy sum of everybody's answers, from which each player's own can be taken out again.

The release is b̃ = Σ ζ_i y_i + N at the whole ε, ζ being public instruments (truthful.instruments). With a public
matrix M, θ̂ = M⁻¹b̃, and player i is scored against everybody else, her own report being removed:

    h_i = x_iᵀM⁻¹ζ_i,    p_i = (x_i·θ̂ − h_i y_i)/(1 − h_i) = x_iᵀ(M − ζ_i x_iᵀ)⁻¹(b̃ − ζ_i y_i)

(Sherman and Morrison). b̃ − ζ_i y_i = Σ_{j≠i} ζ_j y_j + N does not depend on her report, to the bit; so neither does
p_i, draw by draw. And p_i is a function of the release and of her own record: by the billboard lemma all payments but
her own, together with the release, are ε-private in her report. There is no other draw.

The estimator's M decides what is protected:

    instruments        answers   M = Σ ζ_i x_iᵀ, exact: two data sets are neighbours if they differ in one answer.
    known-design       records   M = n·E[x xᵀ], declared; without i it is (n−1)·E[x xᵀ], so n/(n−1) for 1/(1 − h_i).
    noisy-statistics   records   M = n·Ĝ, Ĝ noisy XᵀX/n; the two releases share ε. Eigenvalues of Ĝ are raised to at
                                 least 2/n, so that h_i ≤ ½ whoever she is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from truthful import check
from truthful.beliefs import WIDEST_RANGE, Beliefs, Predictor
from truthful.beliefs.laws import IDENTITY, Clipped, Curve
from truthful.check import Floats
from truthful.errors import InputError
from truthful.estimators.sensitivity import (
    GRAM_SENSITIVITY,
    AddNoise,
    Query,
    cross_query,
    cross_sensitivity,
    gram_query,
)
from truthful.instruments import require_transform
from truthful.moments import (
    GRID,
    PRODUCT,
    PythonIntegers,
    Sums,
    Transform,
    along,
    as_floats,
    instruments_on_grid,
    lengths,
)
from truthful.noise import NORMS
from truthful.scoring import PAYMENT_STEPS, RULES, Rule, pay, round_down

ESTIMATORS = ("instruments", "known-design", "noisy-statistics")
PAYMENTS = ("never-negative", "expected")
#: Below this range noise drowns everything; above it nobody is protected.
EPSILON_RANGE = (1e-6, 100.0)
#: What each estimator protects.
PROTECTS = {"instruments": "answers", "known-design": "records", "noisy-statistics": "records"}
#: A unit of the released sums.
SUM_UNIT = Fraction(1, PRODUCT)
#: The largest condition number of a matrix that is inverted.
WORST_CONDITION = 1e8
#: Players whose predictions are computed at a time: they fit the nearest cache.
BLOCK = 2048


class Bounded(Protocol):
    """Beliefs about answers, as far as a release needs them: d, and Y, the bound on |y|."""

    @property
    def dimension(self) -> int: ...

    @property
    def response_bound(self) -> float: ...


@dataclass(frozen=True, eq=False, kw_only=True)
class SumRelease:
    """The release, in normalised units, whatever the payments.

    epsilon is the whole privacy level, for answers or records as the estimator protects them. transform is T of the
    instruments, gram_share the share of ε that noisy second moments get, design is E[x xᵀ]. norm is that in which
    instruments have length at most 1 and by which the noise density decays: L2, or "sup", for instruments alone.
    """

    epsilon: float
    estimator: str = "instruments"
    gram_share: float = 0.5
    transform: Transform | None = None
    design: Floats | None = field(default=None, repr=False)
    norm: str = "l2"

    def __post_init__(self) -> None:
        check.positive("epsilon", self.epsilon)
        check.choice("estimator", self.estimator, ESTIMATORS)
        check.share("gram_share", self.gram_share)
        if check.choice("norm", self.norm, NORMS) == "sup" and self.estimator != "instruments":
            raise InputError(
                f"norm is 'sup', which goes with instruments. Leave it out with {self.estimator!r}."
            )
        if self.estimator == "instruments":
            if self.transform is None:
                raise InputError("Estimator 'instruments' needs the transform of its instruments.")
            object.__setattr__(self, "transform", require_transform(self.transform, len(self.transform)))
        elif self.transform is not None:
            raise InputError(f"Estimator {self.estimator!r} has no instruments; leave the transform out.")
        if self.estimator == "known-design" and self.design is None:
            raise InputError(
                "Estimator 'known-design' needs the features' second moments E[x xᵀ]. Declare a design of "
                "kind uniform, assigned, covariance or unit-ball, or choose 'noisy-statistics' for observed features."
            )

    @property
    def protects(self) -> str:
        """What is protected: answers, or whole records."""
        return PROTECTS[self.estimator]

    @cached_property
    def vector_epsilon(self) -> Fraction:
        """The ε spent on the vector: the level at which an answer alone is protected."""
        spent = Fraction(self.gram_share) if self.estimator == "noisy-statistics" else Fraction(0)
        return Fraction(self.epsilon) * (1 - spent)

    def scale(self, beliefs: Bounded) -> float:
        """s, the scale of the noise in b̃, in normalised units: 2Y/ε."""
        return float(cross_sensitivity(beliefs.response_bound) * SUM_UNIT / self.vector_epsilon)

    def queries(self, sums: Sums, beliefs: Bounded) -> tuple[Query, ...]:
        """The vectors to release. One answer, or record, moves b by at most ‖k_ζ‖·|k_y − k_y'| ≤ 2²⁰·2⌊2²⁰Y⌋.

        The same holds in the sup norm, as max|k_ζ| ≤ 2²⁰ there.
        """
        share = self.vector_epsilon / Fraction(self.epsilon)
        vector = cross_query(sums.vector, beliefs.response_bound, SUM_UNIT, share, self.norm)
        if self.estimator != "noisy-statistics":
            return (vector,)
        return gram_query(sums.matrix, SUM_UNIT, Fraction(self.gram_share)), vector

    def estimate(
        self, answers: Sequence[Sequence[int]], count: int, beliefs: Bounded, matrix: PythonIntegers | None
    ) -> LeaveOneOut:
        """The estimate from the released vectors of `count` players; `matrix` is the exact one of the instruments."""
        d, released = beliefs.dimension, None
        match self.estimator:
            case "known-design":
                inverse = np.asarray(np.linalg.inv(np.asarray(self.design)) / count, dtype=np.float64)
            case "noisy-statistics":
                released = _symmetric(answers[0], d)
                values, vectors = np.linalg.eigh(as_floats(released))
                inverse = vectors / np.maximum(values, self.floor(d)) @ vectors.T
            case _:
                if matrix is None:
                    raise InputError("Estimator 'instruments' needs the matrix of its instruments.")
                released = matrix
                inverse = np.asarray(np.linalg.inv(as_floats(matrix)), dtype=np.float64)
        vector = np.array([float(k * SUM_UNIT) for k in answers[-1]])
        return LeaveOneOut(
            theta=inverse @ vector,
            inverse=inverse,
            scale=self.scale(beliefs),
            transform=self.transform,
            kept=(count - 1) / count if self.estimator == "known-design" else None,
            matrix=released,
            vector=tuple(int(k) for k in answers[-1]),
            matrix_scale=self.matrix_scale,
            norm=self.norm,
        )

    def release(self, sums: Sums, beliefs: Bounded, add_noise: AddNoise) -> LeaveOneOut:
        """The estimate from these sums, with noise added to the released ones."""
        epsilon = Fraction(self.epsilon)
        answers = [add_noise(query, epsilon * query.share) for query in self.queries(sums, beliefs)]
        return self.estimate(answers, sums.count, beliefs, sums.matrix)

    @property
    def matrix_scale(self) -> float | None:
        """The scale of the noise in the released matrix, in normalised units of sums: √2/ε; None where it is exact."""
        if self.estimator != "noisy-statistics":
            return None
        return float(GRAM_SENSITIVITY * SUM_UNIT / (Fraction(self.epsilon) * Fraction(self.gram_share)))

    def floor(self, dimension: int) -> float:
        """The least eigenvalue that a noisy Σ x xᵀ may have: ℓ·n, with ℓ = max(s_N·d^1.5, 2/n)."""
        return max((self.matrix_scale or 0.0) * math.sqrt(dimension) * dimension, 2.0)


@dataclass(frozen=True, eq=False, kw_only=True)
class OneRelease(SumRelease):
    """The mechanism for answers that are numbers, in normalised units.

    clip is c: peer predictions are kept in ±c‖x‖, c ≤ R. Base payments follow the length of x, max(a, b·loss(c‖x‖)), so
    that no payment is negative.
    """

    base_payment: float
    score_weight: float
    clip: float
    rule: str = "quadratic"
    payments: str = "never-negative"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.norm != "l2":
            raise InputError(
                f"norm is {self.norm!r}, which goes with yes and no and with ratings. Leave it out."
            )
        check.nonnegative("base_payment", self.base_payment)
        check.nonnegative("score_weight", self.score_weight)
        check.positive("clip", self.clip)
        check.choice("rule", self.rule, tuple(RULES))
        check.choice("payments", self.payments, PAYMENTS)

    @property
    def scoring(self) -> Rule:
        """The payment rule."""
        return RULES[self.rule]

    @property
    def clipped(self) -> bool:
        """Whether peer predictions are clipped, so that no payment is negative."""
        return self.payments == "never-negative"

    @property
    def reach(self) -> float:
        """The bound on peer predictions: they are kept in ±reach·‖x‖."""
        return float(self.clip) if self.clipped else math.inf

    def curve(self, beliefs: Beliefs) -> Curve:
        """ψ: the others' average prediction for her when the truth along x is u."""
        return Clipped(self.clip, beliefs.dimension) if self.clipped else IDENTITY

    def base(self, lengths: Floats) -> Floats:
        """Base payments for features of these lengths."""
        if not self.clipped:
            return np.full(np.shape(lengths), float(self.base_payment))
        reach = self.clip * np.asarray(lengths, dtype=np.float64)
        losses = self.scoring.linear * reach + 3.0 * reach * reach
        return np.maximum(float(self.base_payment), self.score_weight * losses)


@dataclass(frozen=True, eq=False)
class LeaveOneOut:
    """An estimate from which anybody's own report can be removed: θ̂ = inverse @ b̃, noise of scale s in b̃.

    norm is that of the noise and of the instruments. kept is the part of the matrix that remains without one player,
    (n−1)/n where it is declared; None: 1 − h_i. matrix and vector are the released ones, in units of 2⁻⁴⁰; None where
    the matrix is declared.
    """

    theta: Floats
    inverse: Floats
    scale: float
    transform: Transform | None
    kept: float | None
    matrix: PythonIntegers | None
    vector: tuple[int, ...]
    matrix_scale: float | None = None
    norm: str = "l2"
    predictions: int | None = None
    """The released sum of predictions, where people are asked for them: one more coordinate."""

    @property
    def noise_dimension(self) -> int:
        """The dimension of the noise drawn with the vector."""
        return len(self.vector) + (self.predictions is not None)


def require_invertible(matrix: PythonIntegers, names: Sequence[str] = ()) -> None:
    """Refuse a matrix that does not determine the coefficients. It is a function of features alone.

    `names` are the features of its columns: the message names those at fault.
    """
    floats = as_floats(matrix)
    condition = float(np.linalg.cond(floats))
    if condition <= WORST_CONDITION:
        return
    at_fault = "a feature is constant among them, or follows from others"
    if len(names):
        # No x has a component along the last singular vector.
        parts = np.abs(np.linalg.svd(floats)[2][-1])
        own = [name for name, part in zip(names, parts, strict=True) if part > parts.max() / 10]
        quoted = [repr(name) for name in dict.fromkeys(own) if name != "intercept"]
        be, follow = ("is", "follows from others") if len(quoted) == 1 else ("are", "follow from each other")
        at_fault = f"{' and '.join(quoted)} {be} constant among them, or {follow}"
    raise InputError(
        f"The features of those who answered do not tell all coefficients apart (condition number {condition:.1e}, "
        f"at most {WORST_CONDITION:.0e} is possible): {at_fault}. Leave one out, or merge "
        "levels that nobody has."
    )


def _symmetric(triangle: Sequence[int], d: int) -> PythonIntegers:
    """The symmetric matrix with this upper triangle."""
    matrix = np.zeros((d, d), dtype=object)
    rows, columns = np.triu_indices(d)
    matrix[rows, columns] = [int(k) for k in triangle]
    matrix[columns, rows] = matrix[rows, columns]
    return matrix


#: The largest leverage of a player who is scored: above it, she herself is most of the evidence about people like her.
LARGEST_LEVERAGE = 0.5
#: Instruments are rounded to the grid, which can leave a leverage this little below 0.
_ROUNDING = 1e-6


@dataclass(frozen=True, eq=False)
class Scored:
    """The steps to each player's payment, one entry for each: her leverage, the scale of the noise in her peers'
    prediction, that prediction, her own, and the payment.
    """

    leverage: Floats
    noise_scale: Floats
    peer_prediction: Floats
    own_prediction: Floats
    payment: Floats


class PeerPredictions(NamedTuple):
    """Everybody else's prediction for each player: one entry for each."""

    length: Floats
    """‖x‖."""
    report: Floats
    """y, on the grid."""
    leverage: Floats
    prediction: Floats
    """p, which contains nothing of y."""
    noise_scale: Floats
    """t, the scale of the noise in p."""
    noise_along: Floats
    """t/‖x‖."""


def peer_predictions(
    estimate: LeaveOneOut, kx: Floats, ky: Floats, reach: float = math.inf
) -> PeerPredictions:
    """Everybody else's predictions for players on the grid, within ±reach·‖x‖."""
    blocks = (slice(start, start + BLOCK) for start in range(0, max(len(ky), 1), BLOCK))
    parts = (_predict_block(estimate, kx[rows], ky[rows], reach) for rows in blocks)
    return PeerPredictions(*map(np.concatenate, zip(*parts, strict=True)))


def _predict_block(estimate: LeaveOneOut, kx: Floats, ky: Floats, reach: float) -> PeerPredictions:
    """Column by column, so that nobody's numbers depend, in any bit, on the rest of the batch."""
    x, y = kx / GRID, ky / GRID
    z = x if estimate.transform is None else instruments_on_grid(kx, estimate.transform, estimate.norm) / GRID
    r, h, squares = lengths(x), np.zeros(len(y)), np.zeros(len(y))
    for column, instrument in zip(estimate.inverse.T, z.T, strict=True):
        w = along(x, column)  # M⁻ᵀx, one entry of it
        h += w * instrument
        squares += w * w
    kept = 1.0 - h if estimate.kept is None else estimate.kept
    p = (along(x, estimate.theta) - h * y) / kept
    if math.isfinite(reach):
        p = np.minimum(np.maximum(p, -reach * r), reach * r)
    noise = estimate.scale * np.sqrt(squares) / kept
    return PeerPredictions(
        r, y, h, p, noise, np.where(r > 0, noise / np.where(r > 0, r, 1.0), estimate.scale)
    )


class Paymaster(Protocol):
    """Pays players on the grid, given the estimate from which anybody's own report can be removed.

    The result is a record of arrays, one entry for each player: the steps to her payment, and the payment last. Where
    people are asked what the others will say, their predictions come as a third argument.
    """

    def score_players(self, kx: Floats, ky: Floats, *km: Floats) -> Any: ...


@dataclass(frozen=True, eq=False)
class NumberPaymaster:
    """Pays for answers that are numbers."""

    mechanism: OneRelease
    estimate: LeaveOneOut
    predictor: Predictor

    def score_players(self, kx: Floats, ky: Floats, *km: Floats) -> Scored:
        """The scores and payments of players on the grid."""
        r, y, h, p, noise, along = peer_predictions(self.estimate, kx, ky, self.mechanism.reach)
        q = self.predictor(r, y, along)
        return Scored(h, noise, p, q, payable(self.mechanism, r, p, q))


def paymaster(mechanism: OneRelease, beliefs: Beliefs, estimate: LeaveOneOut, count: int) -> NumberPaymaster:
    """Everything needed to pay `count` players."""
    low, high = noise_range(estimate)
    # A table for so wide a range serves all but the few below it; those are computed directly.
    low = max(low, high / WIDEST_RANGE)
    return NumberPaymaster(
        mechanism, estimate, beliefs.predictor(mechanism.curve(beliefs), (low, high), count)
    )


def noise_range(estimate: LeaveOneOut) -> tuple[float, float]:
    """The range, over all x, of the scale of noise along x, t/‖x‖ = s‖M⁻ᵀx‖/(kept·‖x‖).

    Where kept = 1 − h: h ≤ ‖M⁻¹‖, as ‖x‖ and ‖ζ‖ are at most 1, and nobody has a leverage above ½.
    """
    stretches = np.linalg.svd(estimate.inverse, compute_uv=False)
    least, most = float(stretches[-1]), float(stretches[0])
    if estimate.kept is not None:
        return estimate.scale * least / estimate.kept, estimate.scale * most / estimate.kept
    kept = 1.0 - min(LARGEST_LEVERAGE, most)
    return estimate.scale * least / (1.0 + _ROUNDING), estimate.scale * most / kept


def payable(mechanism: OneRelease, r: Floats, p: Floats, q: Floats) -> Floats:
    """The payments for these predictions, in whole millionths of the currency unit, rounded down."""
    reach = float(mechanism.clip) * r if mechanism.clipped else None
    return pay(mechanism.scoring, p, q, mechanism.base(r), float(mechanism.score_weight), reach)


def largest_payments(mechanism: OneRelease, kx: Floats) -> Floats:
    """The maximum payment of players with these features on the grid, in millionths; 0 where there is no limit."""
    r = lengths(kx / GRID)
    if not mechanism.clipped:
        return np.zeros(len(r))
    reach, linear = float(mechanism.clip) * r, mechanism.scoring.linear
    most = mechanism.base(r) + float(mechanism.score_weight) * (linear * reach + reach * reach)
    return np.rint(round_down(most) * PAYMENT_STEPS)


def payment_range(mechanism: OneRelease) -> tuple[float, float]:
    """The least and the largest payment where payments are never negative, whatever anybody does."""
    a, b, rule, c = mechanism.base_payment, mechanism.score_weight, mechanism.scoring, mechanism.clip
    ends = (max(0.0, a - b * rule.loss(c)), max(a, b * rule.loss(c)) + b * rule.gain(c))
    low, high = round_down(np.array(ends)).tolist()
    return low, high
