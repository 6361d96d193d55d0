"""Published numbers about answers, in raw units, each with an interval from its whole error distribution under truthful
reports: coefficients, the share of everybody, differences between people, odds ratios, average predictions.

All of it is post-processing, and costs no privacy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from truthful import check
from truthful.asked_release import SERUM, AskedRelease, Level
from truthful.check import Floats
from truthful.errors import InputError
from truthful.estimators.private import Estimate
from truthful.moments import GRID, PRODUCT, Sums, as_floats, instruments_on_grid
from truthful.noise import ErrorLaw, L2Laplace, Law, laplace, law_given_features
from truthful.one_release import WORST_CONDITION, LeaveOneOut, SumRelease
from truthful.release.release import Coefficient, Predictions
from truthful.study import Study
from truthful.study.features import Interaction

INTERVAL_LEVEL = 0.95
#: A published number as a function of θ: its name, a row of θ in raw units, and a constant.
Row = tuple[str, Floats, float]


def published_rows(study: Study) -> dict[str, tuple[Row, ...]]:
    """The functions of θ in every release, by name: anybody with θ̂ can compute the values again."""
    L, offset = study.coefficient_map
    return {
        "coefficients": tuple(zip(study.coefficient_names, L, offset.tolist(), strict=True)),
        "differences": tuple((name, row, 0.0) for name, row in study.differences),
    }


def released_numbers(
    study: Study,
    mechanism: SumRelease,
    estimate: LeaveOneOut,
    sums: Sums,
    features: Floats | None = None,
    level: float = INTERVAL_LEVEL,
) -> dict[str, Any]:
    """All published numbers about answers, in raw units, by their name in a release: for numbers, or shares and
    ratings.
    """
    if study.shares is not None:
        return released_shares(study, mechanism, estimate, sums, features, level)
    rows = published_rows(study)
    if not study.features:
        del rows["differences"]
    found = _Rows(study, mechanism, estimate, sums, level)
    return {name: tuple(found.number(*row) for row in some) for name, some in rows.items()}


class _Rows:
    """Numbers that follow from θ̂, each with its interval: a row of θ has the error of that combination.

    Where records are protected features are not given, and the error laws are those of means over the design.
    """

    def __init__(
        self, study: Study, mechanism: SumRelease, estimate: LeaveOneOut, sums: Sums, level: float
    ) -> None:
        self._study, self._mechanism, self._estimate, self._level = study, mechanism, estimate, level
        self._players, self._spread = sums.count, as_floats(sums.instruments)

    def number(self, name: str, row: Floats, constant: float) -> Coefficient:
        value = float(row @ self._estimate.theta) + constant
        return _number(name, value, self._law(row).half_width(self._level))

    def _law(self, row: Floats) -> Law:
        study, estimate, n = self._study, self._estimate, self._players
        mean = Estimate(estimate.theta, estimate.inverse * n, estimate.scale / n)
        if self._mechanism.estimator == "instruments":
            each = study.beliefs.noise_variance if study.levels is None else study.levels.variance
            return _law_given_features(estimate, self._spread, each, row)
        if self._mechanism.estimator == "known-design":
            return _known_design_law(study, mean, n, row)
        return _noisy_law(study, mean, (estimate.matrix_scale or 0.0) / n, n, row)


def _number(name: str, value: float, width: float) -> Coefficient:
    return Coefficient(name=name, value=value, low=value - width, high=value + width)


def _law_given_features(estimate: LeaveOneOut, spread: Floats, variance: float, row: Floats) -> Law:
    noise = laplace(estimate.norm, estimate.noise_dimension, estimate.scale)
    return law_given_features(estimate.inverse, spread, variance, noise, row)


def _known_design_law(study: Study, estimate: Estimate, players: int, row: Floats) -> ErrorLaw:
    """θ̂ − θ = Σ⁻¹(mean of xy − E[xy]) + Σ⁻¹v; Var(w·xy) = E[(w·x)²(θ·x)²] + σ²wᵀΣw − (w·Σθ)², at w = Σ⁻¹row."""
    Sigma = study.second_moments
    if Sigma is None:
        raise InputError("Estimator 'known-design' needs a declared design.")
    w, theta = estimate.spread @ row, _pull_into_ball(estimate.theta, study.beliefs.radius)
    signal = study.fourth_moment(w, theta) - float(row @ theta) ** 2
    variance = (max(0.0, signal) + study.beliefs.noise_variance * float(w @ Sigma @ w)) / players
    return ErrorLaw.of(variance, (study.dimension, estimate.scale * float(np.linalg.norm(w))))


def _noisy_law(study: Study, estimate: Estimate, gram_scale: float, players: int, row: Floats) -> ErrorLaw:
    """θ̂ − θ = Ĝ⁻¹(Xᵀz/n + v − Nθ), Ĝ being published: at w = Ĝ⁻¹row, w·Nθ = ⟨N, sym(wθᵀ)⟩ in the Frobenius product."""
    d, theta = study.dimension, _pull_into_ball(estimate.theta, study.beliefs.radius)
    w = estimate.spread @ row
    pairing = math.sqrt((float(w @ w) * float(theta @ theta) + float(w @ theta) ** 2) / 2)
    variance = study.beliefs.noise_variance * float(row @ w) / players
    drawn = estimate.scale * float(np.linalg.norm(w))
    return ErrorLaw.of(variance, (d, drawn), (d * (d + 1) // 2, gram_scale * pairing))


def _pull_into_ball(theta: Floats, radius: float) -> Floats:
    """θ̂ moved back into the ball that contains θ: a variance is evaluated there."""
    inside: Floats = theta * min(1.0, radius / max(float(np.linalg.norm(theta)), 1e-300))
    return inside


EVERYBODY = "everybody"
#: Beliefs are contradicted if results exceed them by more than would happen in this share of studies.
BEYOND = 0.99


def released_shares(
    study: Study,
    mechanism: SumRelease,
    estimate: LeaveOneOut,
    sums: Sums,
    features: Floats | None,
    level: float,
) -> dict[str, Any]:
    """All published numbers about shares, in raw units (shares of yes, or the scale of a rating), by name: the share of
    everybody, coefficients, differences, and odds ratios; None: not estimable, or not asked for.
    """
    found = _Estimates(study, estimate, sums, level)
    everybody = found.everybody
    if study.kind == "yes-no" and not study.features and study.levels is None:
        # One column, x = 1, and ζ = ±1 up to the grid: the release is the sum of answers, with noise.
        instrument = float(as_floats(sums.instruments)[0, 0]) / sums.count
        total = float(estimate.vector[0]) / PRODUCT / math.sqrt(instrument)
        low, high = share_interval(total, sums.count, mechanism.epsilon * math.sqrt(instrument), level)
        everybody = everybody.model_copy(update={"low": low, "high": high})
    return {
        "shares": (everybody,),
        **{name: tuple(found.number(*row) for row in rows) for name, rows in published_rows(study).items()},
        "odds_ratios": _odds(study, estimate, features, level),
    }


class _Estimates:
    """Numbers that follow from shares, each with its interval given everybody's features.

    Answers ±1 have the variance 1 − (x·θ)², here averaged over people, at the estimate, corrected for its own error.
    """

    def __init__(self, study: Study, estimate: LeaveOneOut, sums: Sums, level: float) -> None:
        self._study, self._estimate, self._sums, self._level = study, estimate, sums, level
        G = as_floats(sums.features) / sums.count
        noise = laplace(estimate.norm, estimate.noise_dimension, estimate.scale).marginal_variance
        self._spread = as_floats(sums.instruments)
        error = estimate.inverse @ (self._spread + noise * np.eye(study.dimension)) @ estimate.inverse.T
        seen = float(estimate.theta @ G @ estimate.theta - np.sum(G * error))
        largest = 1.0 if study.shares is None else 4 * study.shares.variance
        self._variance = min(max(1.0 - max(seen, 0.0), 0.0), largest)

    def number(self, name: str, row: Floats, constant: float = 0.0) -> Coefficient:
        value = float(row @ self._estimate.theta) + constant
        law = _law_given_features(self._estimate, self._spread, self._variance, row)
        return _number(name, value, law.half_width(self._level))

    @property
    def everybody(self) -> Coefficient:
        """The share among all who answered, at the mean of their features."""
        return self.number(EVERYBODY, *everybody_row(self._study, self._sums))


def everybody_row(study: Study, sums: Sums) -> tuple[Floats, float]:
    """The mean prediction of those who answered, as a row of θ and a constant, in raw units."""
    # The first column of x is the intercept's, the same for all: Σ x₀x is x₀ times the sum of x.
    products = as_floats(sums.features[0])
    mean = products / products[0] / study.declared.encoding.scale
    middle = (study.response.low + study.response.high) / 2
    return np.asarray(study.response_unit * mean), middle


def _odds(
    study: Study, estimate: LeaveOneOut, features: Floats | None, level: float
) -> tuple[Coefficient, ...] | None:
    if study.kind != "yes-no" or not study.features or features is None:
        return None
    X = features / GRID
    Z = instruments_on_grid(features, estimate.transform, estimate.norm) / GRID
    vector = np.array([float(k) / PRODUCT for k in estimate.vector])
    found = log_odds(X, Z, vector, estimate.scale, estimate.norm)
    if found is None:
        return None
    # A difference of shares is a row of θ times the answer's unit; one of log odds is the row alone.
    rows = np.array([row / study.response_unit for _, row in study.differences])
    return tuple(
        Coefficient(name=name, value=ratio, low=low, high=high)
        for (name, _), (ratio, low, high) in zip(
            study.differences, odds_ratios(rows, found, level), strict=True
        )
    )


def contradicted_shares(study: Study, estimate: LeaveOneOut, sums: Sums) -> list[str]:
    """Results beyond all that was thought possible, by more than chance would explain in 99 of 100 studies."""
    beliefs = study.shares
    if beliefs is None:
        return []
    found, unit = _Estimates(study, estimate, sums, 2 * BEYOND - 1), 2 * study.response_unit
    share = found.everybody
    least, most = (study.response.low + unit * end for end in beliefs.ends)
    said = []
    if share.high < least or share.low > most:
        told, *ends = (_share(study, value) for value in (share.value, least, most))
        said.append(f"the share of everybody is {told}, outside {ends[0]} to {ends[1]}")
    for term in study.declared.encoding.terms:
        for (name, codes), (_, row) in zip(term.contrasts, study.differences_of(term), strict=True):
            # Each column of an interaction is a separate number.
            times = float(np.abs(codes).sum()) / 2 if isinstance(term, Interaction) else 1.0
            largest, effect = times * unit * study.declared.effects[term.name], found.number(name, row)
            if effect.high < -largest or effect.low > largest:
                told, limit = _share(study, effect.value), _share(study, largest)
                said.append(f"the effect of {name} is {told}, beyond {limit}")
    return said


def _share(study: Study, value: float) -> str:
    return f"{100 * value:.3g}%" if study.kind == "yes-no" else f"{value:.3g}"


def averages(mechanism: AskedRelease, estimate: LeaveOneOut, level: Level) -> tuple[float, float]:
    """The average answer at the mean of features, and the average prediction, from −1 to 1, noise included."""
    return float(level.mean @ estimate.theta), mechanism.predicted_sum(estimate) / level.count


def centre_of(mechanism: AskedRelease, estimate: LeaveOneOut, level: Level) -> float | None:
    """μ̂ over everybody: what people expected before they knew their own answers. None for yes and no."""
    if mechanism.rule == SERUM:
        return None
    _, predicted = averages(mechanism, estimate, level)
    weighted = np.array([w / PRODUCT for w in level.weighted]) / level.count
    moved = float(weighted @ estimate.theta) - level.offset / PRODUCT / level.count
    return (predicted - moved) / (1 - level.weight / GRID / level.count)


def average_laws(
    study: Study, mechanism: AskedRelease, estimate: LeaveOneOut, sums: Sums, level: Level
) -> tuple[Law, ErrorLaw]:
    """Error laws of the average answer and of the average prediction: the former estimates what features predict, the
    latter averages known predictions.
    """
    variance = 0.0 if study.levels is None else study.levels.variance
    aside = L2Laplace(estimate.noise_dimension, estimate.scale / (mechanism.ratio * level.count))
    answers = _law_given_features(estimate, as_floats(sums.instruments), variance, level.mean)
    return answers, ErrorLaw(0.0, (aside,))


def released_predictions(
    study: Study, mechanism: AskedRelease, estimate: LeaveOneOut, sums: Sums, level: Level
) -> Predictions:
    """The numbers that everybody needs to recompute a payment, and their meaning in the units of predictions."""
    low, high = study.prediction_range
    unit = (high - low) / 2
    answer, prediction = (
        _number(name, low + unit * (value + 1), unit * law.half_width(INTERVAL_LEVEL))
        for name, value, law in zip(
            ("answers", "predictions"),
            averages(mechanism, estimate, level),
            average_laws(study, mechanism, estimate, sums, level),
            strict=True,
        )
    )
    centre = centre_of(mechanism, estimate, level)
    return Predictions(
        total=str(estimate.predictions),
        mean=tuple(level.mean.tolist()),
        weight=str(level.weight),
        weighted=tuple(str(w) for w in level.weighted),
        offset=str(level.offset),
        answer=answer,
        prediction=prediction,
        centre=None if centre is None or not math.isfinite(centre) else low + unit * (centre + 1),
    )


# The exact interval of a single share, and odds ratios

#: Chances below e^−36 = 2e-16 are ignored.
REMOTE = 36.0


def share_interval(
    noisy_sum: float, players: int, epsilon: float, level: float = 0.95
) -> tuple[float, float]:
    """The ends of the equal-tailed interval for a share P of yes, given the released sum of n players' answers ±1.

    Each says yes with probability P, and S + K is released, K Laplace of scale 2/ε. In units of a count of yes that is
    T = (S + K + n)/2 = Binomial(n, P) + Laplace(1/ε). Whatever n, P and ε, T is continuous and rises with P in
    distribution: an end of the interval is the P at which a T beyond the one released has the chance (1 − level)/2.

    A T outside 0…n is read as 0 or n. So no interval is a single point, as one that lies wholly outside would be if it
    were clipped to 0…1. It covers P with probability `level`, and (1 + level)/2 for a P so near to 0 or 1 that noise
    alone decides.
    """
    check.finite("noisy_sum", noisy_sum)
    n = check.integer("players", players)
    noise = L2Laplace(1, 1 / check.positive("epsilon", epsilon))
    tail = (1 - check.share("level", level)) / 2
    t = min(max((noisy_sum + n) / 2, 0.0), float(n))
    return _share_at(tail, t, n, noise), _share_at(1 - tail, t, n, noise)


def _share_at(chance: float, t: float, n: int, noise: L2Laplace) -> float:
    """The P with P(T ≥ t) = chance; 0 or 1 where every P has more, or less."""
    from scipy import optimize  # takes long to load, and few releases are of a single share

    def excess(P: float) -> float:
        return _upper_tail(P, t, n, noise) - chance

    if excess(0.0) >= 0:
        return 0.0
    if excess(1.0) <= 0:
        return 1.0
    return float(optimize.brentq(excess, 0.0, 1.0, xtol=1e-16, rtol=4 * np.finfo(float).eps))


def _upper_tail(P: float, t: float, n: int, noise: L2Laplace) -> float:
    """P(T ≥ t), to 1e-11: a sum over the counts k of yes that are within reach.

    A Binomial(n, P) is out of nP ± r with chance 2e^−L at most, r = L/3 + sqrt(L²/9 + 2LnP(1 − P)) (Bernstein). The
    count k is P(n − k + 1)/((1 − P)k) times as likely as k − 1. (At n = 10^7 special.gammaln would be off by 1e-8.)
    """
    if P in (0, 1):
        return float(noise.marginal_cdf(n * P - t))
    reach = REMOTE / 3 + math.sqrt(REMOTE**2 / 9 + 2 * REMOTE * n * P * (1 - P))
    k = np.arange(math.ceil(max(0.0, n * P - reach)), math.floor(min(float(n), n * P + reach)) + 1)
    logarithms = np.append(0.0, np.cumsum(np.log(P / (1 - P) * (n - k[1:] + 1) / k[1:])))
    likely = np.exp(logarithms - logarithms.max())
    return float(likely @ noise.marginal_cdf(k - t) / likely.sum())


#: Anybody's log odds beyond this (a share below 0.005 % or above 99.995 %) are not estimable.
LARGEST_LOG_ODDS = 10.0
#: The most Newton steps, the log odds at which they give up, and the change of log odds after which the last step is
#: taken: the remainder is of the order of its square.
STEPS, FARTHEST, LAST_STEP = 100, 100.0, 1e-8
#: The largest exponent whose power of e is a float.
LARGEST_EXPONENT = 700.0


@dataclass(frozen=True, eq=False)
class LogOdds:
    """Coefficients ϑ̂ of log odds, per unit of normalised features, and the covariance of their error."""

    theta: Floats
    covariance: Floats


def log_odds(
    X: npt.ArrayLike, Z: npt.ArrayLike, vector: npt.ArrayLike, scale: float, norm: str = "l2"
) -> LogOdds | None:
    """ϑ̂ from everybody's features and instruments, and the released vector with noise of this scale (0: none).

    If P(y = +1 | x) = σ(x·ϑ), σ logistic, the released b̃ = Σ ζ_i y_i + N has the mean Σ ζ_i (2σ(x_i·ϑ) − 1), features
    and instruments ζ being public. ϑ̂ is where that mean equals b̃: maximum likelihood if ζ = x and there is no noise.

    By the delta method the covariance is J⁻¹(Σ ζζᵀ4p(1 − p) + vI)J⁻ᵀ, J = Σ ζxᵀ2p(1 − p) at ϑ̂, v the noise's. None:
    not estimable, as no log odds of at most 10 give that sum, or features are collinear.
    """
    X = check.matrix("X", X)
    n, d = X.shape
    Z = check.matrix("Z", Z, columns=d)
    if len(Z) != n:
        raise InputError(f"Z has {len(Z)} rows; {n} were expected.")
    vector = check.vector("vector", vector, d)
    variance = laplace(norm, d, 1.0).marginal_variance * check.nonnegative("scale", scale) ** 2

    theta = _solution(X, Z, vector)
    if theta is None or not np.abs(X @ theta).max() <= LARGEST_LOG_ODDS:
        return None
    spread = _spread(X @ theta)
    J = _jacobian(X, Z, spread)
    if not _invertible(J):
        return None
    inverse = np.linalg.inv(J)
    answers = (Z * spread[:, None]).T @ Z
    return LogOdds(theta, inverse @ (answers + variance * np.eye(d)) @ inverse.T)


def odds_ratios(
    rows: npt.ArrayLike, log_odds: LogOdds, level: float = 0.95
) -> list[tuple[float, float, float]]:
    """For each row w, a difference of log odds w·ϑ: the odds ratio exp(w·ϑ̂), and the ends of its normal interval."""
    W = check.matrix("rows", rows, columns=len(log_odds.theta))
    middle = W @ log_odds.theta
    deviations = np.sqrt(np.einsum("ij,jk,ik->i", W, log_odds.covariance, W))
    width = special.ndtri((1 + check.share("level", level)) / 2) * deviations
    exponents = np.clip([middle, middle - width, middle + width], -LARGEST_EXPONENT, LARGEST_EXPONENT)
    return [(ratio, low, high) for ratio, low, high in np.exp(exponents).T.tolist()]


def _solution(X: Floats, Z: Floats, vector: Floats) -> Floats | None:
    """The ϑ with Σ ζ_i (2σ(x_i·ϑ) − 1) = vector, by Newton steps damped by ln(1 + D)/D.

    D is the most that a step would move anybody's log odds. With ζ ∝ Tx the equations are T times those of the least of
    a convex function, whose curvature changes at most e-fold as log odds move by 1: a damped step lowers it, whatever T
    (Sun and Tran-Dinh, "Generalized self-concordant functions", 2019). Without a solution ϑ grows without end. In the
    sup norm ζ is not ∝ Tx where only some entries are cut: the same steps are taken there, without that proof.
    """
    if not _invertible(_jacobian(X, Z, np.ones(len(X)))):
        return None
    theta = np.zeros(X.shape[1])
    for _ in range(STEPS):
        logits = X @ theta
        if np.abs(logits).max() > FARTHEST:
            return None
        try:
            step = np.linalg.solve(_jacobian(X, Z, _spread(logits)), vector - Z.T @ np.tanh(logits / 2))
        except np.linalg.LinAlgError:
            return None
        D = float(np.abs(X @ step).max())
        if D <= LAST_STEP:
            return np.asarray(theta + step)
        theta += step * (math.log1p(D) / D)
    return None


def _spread(logits: Floats) -> Floats:
    """The variance of answers ±1, 4p(1 − p)."""
    return np.asarray(4 * special.expit(logits) * special.expit(-logits))


def _jacobian(X: Floats, Z: Floats, spread: Floats) -> Floats:
    """J = Σ ζxᵀ2p(1 − p)."""
    return np.asarray((Z * (spread / 2)[:, None]).T @ X)


def _invertible(J: Floats) -> bool:
    return bool(np.linalg.cond(J) <= WORST_CONDITION)
