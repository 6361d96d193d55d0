"""Bounds for yes or no and for ratings, given everybody's features: closed forms, as for numbers.

Shares are in probability units. Somebody with features x expects the others' prediction p to be m(x) on average, if
they are truthful. p − m(x) is a weighted sum of their answers' deviations, of weights w_ij with Σw² = v_i and |w_ij| ≤
ρ_i, and noise of scale τ_i/ε (truthful.geometry). ρ_i = τ_i, or √d·τ_i where instruments have sup norm at most 1. A
liar moves p by |w_ij| at most. Derivations: docs/theory.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from truthful.bounds.estimator_bounds import instruments_error
from truthful.bounds.setting import Model, Setting
from truthful.check import Floats
from truthful.costs import PRIVACY_COSTS, miss_probability
from truthful.errors import InputError
from truthful.geometry import Geometry
from truthful.noise import log_moments as noise_moments
from truthful.study import Study
from truthful.study.credibility import LevelBeliefs, ShareBeliefs, expected_shares

#: The number of groups of people with similar beliefs, each represented by the worst of its numbers.
GROUPS = 24
#: λ of the exponential bounds, as parts of the pole of the noise's.
_PARTS = np.linspace(0.04, 0.96, 24)
#: A cap on logarithms: bounds this large say nothing.
_LARGEST_LOG = 300.0
#: Payments are rounded down to millionths, the truth's as well as a lie's.
ROUNDING = 2e-6


def believed_rows(beliefs: ShareBeliefs, x: Floats) -> Floats:
    """(δ, w, T, gap) of each person: w without margin; T bounds how much an answer raises the density of a share.

    gap is the largest distance of the exact expectation given an answer from her own prediction, which is a line: 0 for
    yes and no, and for ratings only with beliefs of a special form.
    """
    expected = beliefs.expects(x)
    mean, low, high = expected.mean, expected.low, expected.high
    likelier = np.maximum(high / mean, (1 - low) / (1 - mean))
    gap = np.zeros(len(x))
    if beliefs.levels > 2:
        answers = np.linspace(-1, 1, beliefs.levels)
        own = expected.switch[:, None] + expected.advantage[:, None] * answers
        gap = np.abs(expected_shares(beliefs, x) - own).max(axis=1)
    return np.stack([expected.advantage, expected.width(0.0), likelier, gap], axis=1)


def group_beliefs(rows: Floats) -> Floats:
    """At most GROUPS rows, each the worst of people with similar δ/w: least δ, largest w, T and gap."""
    rows = np.unique(rows, axis=0)
    return worst_of_groups(rows, rows[:, 0] / rows[:, 1], least=(0,))


def worst_of_groups(rows: Floats, order: Floats, least: tuple[int, ...]) -> Floats:
    """The rows if few, else GROUPS of them: the least of some columns over neighbours, the largest of others."""
    if len(rows) <= GROUPS:
        return rows
    rows = rows[np.argsort(order)]
    starts = np.unique(np.linspace(0, len(rows), GROUPS, endpoint=False).astype(np.int64))
    ends = (np.minimum if column in least else np.maximum for column in range(rows.shape[1]))
    return np.stack([end.reduceat(rows[:, k], starts) for k, end in enumerate(ends)], axis=1)


@dataclass(frozen=True, eq=False, kw_only=True)
class RosterSetting:
    """The numbers of a mechanism and of its respondents: some shares of liars α, and for each some values of ε."""

    study: Study
    beliefs: ShareBeliefs | LevelBeliefs
    geometry: Geometry
    n: int
    alpha: Floats
    epsilon: Floats
    beta: float

    @property
    def shares(self) -> ShareBeliefs | None:
        """Beliefs about shares, where answers are shares."""
        return self.beliefs if isinstance(self.beliefs, ShareBeliefs) else self.beliefs.shares

    @property
    def answers_epsilon(self) -> Floats:
        """The ε at which answers alone would have this much noise."""
        return np.asarray(self.epsilon)

    @cached_property
    def believed(self) -> Floats:
        """Beliefs of groups of the geometry's people."""
        if self.geometry.believed is None:
            raise InputError("Shares and levels need to know what the people of a geometry believe.")
        return self.geometry.believed

    @cached_property
    def threshold(self) -> Floats:
        """τ for each α: with probability 1 − β no more than that share of people have a larger cost."""
        return self.study.costs.upper_quantile(self._missed)

    @cached_property
    def saved(self) -> Floats:
        """The most that a lie saves in privacy, and by rounding: τ·h(ε). α × ε."""
        worth = PRIVACY_COSTS[self.study.declared.costs.privacy](np.asarray(self.epsilon, dtype=np.float64))
        return np.asarray(self.threshold[:, None] * worth + ROUNDING)

    @cached_property
    def liars_expected(self) -> Floats:
        """κ ≥ E|A| for each α: n·min(p, α), p = 1 − F(τ) being the chance of a cost above the threshold, as every liar
        has.

        Costs are independent given features and coefficients, and above τ for at most a share p of people on average.
        """
        return self.n * self._missed

    @cached_property
    def _missed(self) -> Floats:
        """The chance of a cost above the threshold, for each α."""
        miss = miss_probability(n=self.n, alpha=self.alpha, beta=self.beta)
        return np.asarray(np.minimum(miss, self.alpha))

    def pull_of(self, rho: Floats, v: Floats) -> Floats:
        """How far liars move the expectation of the others, E|Σ_A w_ij| ≤ min(κρ, √(κv)) by Jensen. α × rows.

        Assigned features say nothing about costs, so everybody is equally likely to lie: (κ/n)Σ|w| ≤ κ√(v/n).
        """
        liars = self.liars_expected[:, None]
        anybody = np.minimum(liars * rho, np.sqrt(liars * v))
        assigned = self.study.assigned or not self.study.features
        return np.minimum(anybody, liars * np.sqrt(v / self.n)) if assigned else anybody


@dataclass(frozen=True, eq=False, kw_only=True)
class ShareSetting(RosterSetting):
    """The numbers of a mechanism for yes and no and for ratings.

    belief_gap is how far the share that somebody expects, given her answer, may be from the declared one.
    """

    beliefs: ShareBeliefs
    margin: float = 0.0
    tolerance: float = np.inf
    belief_gap: float = 0.0

    @cached_property
    def rows(self) -> tuple[Floats, Floats]:
        """(ρ, v) of groups of similar people, among n."""
        f = self.geometry.players / self.n
        return self.geometry.worst[:, 0] * self.geometry.longest * f, self.geometry.worst[:, 1] * f


def pull(s: ShareSetting) -> Floats:
    """g for each α and row: how far liars move somebody's expectation."""
    return s.pull_of(*s.rows)


def log_moments(s: ShareSetting) -> tuple[Floats, Floats]:
    """λ, and a bound on ln E[exp(±λ(p − m))], given all but chance, for rows × ε × some λ.

    Sampling is bounded by Bennett's inequality: deviations have a variance of at most V and are at most A, so that a
    sum with weights |w| ≤ ρ, Σw² = v has at most (v/ρ²)(V/A²)(e^u − 1 − u) at u = λρA. The noise is a Laplace vector's
    along a line (truthful.noise.log_moments), λ being a part of ε/ρ.
    """
    rho, v = (part[:, None, None] for part in s.rows)
    epsilon = np.asarray(s.epsilon, dtype=np.float64)[None, :, None]
    rate = _PARTS * epsilon / rho
    low, high = s.beliefs.ends
    A = max(high, 1 - low)
    u = rate * rho * A
    with np.errstate(over="ignore"):
        sampling = v / rho**2 * (s.beliefs.variance / A**2) * (np.expm1(u) - u)
    noise = noise_moments(s.geometry.norm, s.beliefs.dimension, _PARTS)
    return rate, np.minimum(sampling + noise, _LARGEST_LOG)


def clipping(s: ShareSetting) -> tuple[Floats, Floats]:
    """Bounds on E[(|p − t| − w)₊ | x, y]: for any prior, and a factor of T where its density is at most 1/(U − L).

    (|p − t| − w)₊ ≤ (|e| − s)₊, e = p − m and s the margin, and u₊ ≤ exp(λu − 1)/λ. If m has a density ≤ f̄T, the
    distance to the nearer end is integrated over: 2f̄T·exp(L − λs)/λ². Rows × ε.
    """
    rate, logs = log_moments(s)
    top = logs - rate * s.margin
    anyhow = (2 * np.exp(top - 1) / rate).min(axis=2)
    density = 1 / (s.beliefs.high - s.beliefs.low)
    return anyhow, (2 * density * np.exp(top) / rate**2).min(axis=2)


def implausible(s: ShareSetting) -> Floats:
    """A bound on the chance that p is beyond the tolerance, as a factor of T: 2f̄·exp(L − λ·tolerance)/λ. Rows × ε."""
    if np.isinf(s.tolerance):
        return np.zeros((1, 1))
    rate, logs = log_moments(s)
    density = 1 / (s.beliefs.high - s.beliefs.low)
    return np.asarray((2 * density * np.exp(logs - rate * s.tolerance) / rate).min(axis=2))


def gain(s: ShareSetting, steps: int = 1) -> Floats:
    """The least gain, over people, of the truth over a lie of this many steps, as a part of the bonus.

    One row for each α, one column for each ε.
    """
    return np.asarray(np.minimum.reduce([earned.min(axis=1) for earned, _ in _truth_gains(s, steps)]))


def tolerated_gap(s: ShareSetting, steps: int, needed: float) -> Floats:
    """How far somebody's expected share, given her answer, may be off if the truth must earn `needed` of the bonus.

    It comes on top of the declared tolerance, and is negative where the truth earns less. A row for each α, a column
    for each ε.
    """
    gaps = [(earned.min(axis=1) - needed) / price for earned, price in _truth_gains(s, steps)]
    return np.asarray(np.minimum.reduce(gaps) + s.belief_gap)


def _truth_gains(s: ShareSetting, steps: int) -> Iterator[tuple[Floats, float]]:
    """For each group of people, the truth's gain over such a lie, and its loss per unit of error in their expectation.

    With b = 1/4δw the quadratic rule loses b((jΔ)² − 2jΔ(g + κ)) by a lie that moves q by jΔ, Δ = 2δ/(K − 1). For
    ratings the gap between q and the exact expectation counts like g, and so does any deviation from declared beliefs.
    Where shares are implausible a lie loses nothing: that has the chance ι, and subtracts at most j/(K − 1)·(1 + δ/w).
    One row for each α, then rows of the geometry, one column for each ε.
    """
    anyhow, dense = clipping(s)
    liars, chance, levels = pull(s)[:, :, None], implausible(s), s.beliefs.levels
    for delta, reach, likelier, gap in s.believed:
        width = reach + s.margin
        moved = steps * 2 * delta / (levels - 1)
        off = liars + np.minimum(anyhow, likelier * dense) + gap + s.belief_gap
        earned = (moved**2 - 2 * moved * off) / (4 * delta * width)
        bent = 1 + (delta / width if levels > 2 else 0.0)
        earned = earned - steps / (levels - 1) * bent * np.minimum(1.0, likelier * chance)
        yield earned, moved / (2 * delta * width)


# Accuracy, with predictions or without: as for numbers, with the variance 4P(1 − P) of answers ±1


def error(s: RosterSetting, of: str = "coefficients") -> Floats:
    """The mean squared error that a plan is judged by, normalised: that of the largest effect, or else of the share.

    If asked for, that of predictions, averaged over people.
    """
    found = None if of == "predictions" else effect_error(s)
    if found is not None:
        return found
    return instruments_error(accuracy_setting(s), predictions=of == "predictions")


def effect_error(s: RosterSetting) -> Floats | None:
    """The largest mean squared error of an effect, normalised, with liars as for all coefficients. α × ε.

    None where there are no effects, or answers are not shares.
    """
    effects, f = s.geometry.effects, s.geometry.players / s.n
    if s.shares is None or effects is None or not len(effects):
        return None
    noise, squares, largest = effects.T[:, :, None, None]
    liars = np.asarray(s.alpha)[:, None] * s.n
    lies = 2 * np.minimum(np.ceil(np.round(liars, 9)) * largest * f, np.sqrt(liars * squares * f))
    drawn = s.geometry.noise_variance * (2 / s.answers_epsilon) ** 2 * noise * f**2
    return np.asarray(((lies + np.sqrt(4 * s.shares.variance * squares * f)) ** 2 + drawn).max(axis=0))


def accuracy_setting(s: RosterSetting) -> Setting:
    """The setting that the errors of all coefficients follow from."""
    beliefs = s.shares or s.beliefs
    model = Model(
        dimension=beliefs.dimension,
        radius=beliefs.response_bound,
        noise_bound=0.0,
        noise_variance=beliefs.variance if s.shares is None else 4 * beliefs.variance,
        least_eigenvalue=0.0,
    )
    return Setting(
        model=model,
        costs=s.study.costs,
        n=s.n,
        epsilon=s.answers_epsilon,
        alpha=s.alpha[:, None],
        beta=s.beta,
        estimator="instruments",
        geometry=s.geometry,
    )
