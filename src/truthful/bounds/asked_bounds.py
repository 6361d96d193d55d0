"""Bounds where people are also asked what the others will say, given everybody's features: closed forms.

Half the scale of answers is the unit. With Q = (1−s)Δ + s·p (truthful.asked_release) the part of an expected payment
that depends on the answer is b(2s·y·E[Q] − s²y²), and E[Q | x, y] = s·y if beliefs are of the declared form and the
others tell the truth. G bounds the deviation from it: liars, clipping, averages that are implausible by chance, and the
distance of a person's centre from what she takes for the others'. Then a lie of ℓ loses b(s²ℓ² − 2sℓG). Derivations:
docs/theory.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from truthful.asked_release import SCALE
from truthful.bounds import share_bounds
from truthful.bounds.share_bounds import RosterSetting, worst_of_groups
from truthful.check import Floats
from truthful.errors import InputError
from truthful.study.credibility import REACH, LevelBeliefs, expected_shares

#: Promises hold for answers within this many standard deviations, 98 % of them.
CENTRAL = 2.326
#: The chance that an average thought plausible is found implausible.
MISTAKEN = 1e-3
#: How many centres of beliefs to evaluate, from the lowest to the highest.
CENTRES = 17
#: λ of exponential bounds, as parts of the pole of the noise's.
_PARTS = np.concatenate([np.geomspace(1e-3, 0.04, 12), np.linspace(0.06, 0.97, 24)])
_LARGEST_LOG = 300.0


def level_rows(beliefs: LevelBeliefs, x: Floats, c: Floats, away: Floats | None = None) -> Floats:
    """(s, s, v, v, o, o, reach, bend) of each person: s, v and o by their least and largest value, for grouping.

    reach bounds the distance of the average answer of people like her from its expectation. bend bounds the distance of
    the exact expectation given an answer from the line of slope s, at any centre: 0 except for ratings. Columns of c
    may move by up to `away`: √(v − v₀) is a norm of x − c, and changes by at most the norm of c's move.
    """
    v, o, reach = beliefs.variances(x, c), beliefs.offsets(x, c), beliefs.reaches(x, c)
    apart, further, longer = beliefs.sensitivities(np.zeros(len(c)) if away is None else away)
    least = beliefs.sure**2
    norm = np.sqrt(np.maximum(v - least, 0.0))
    variances = np.maximum(norm - apart, 0.0) ** 2 + least, (norm + apart) ** 2 + least
    offsets = o - further, o + further
    s = [beliefs.slopes_at(variance, offset) for variance in variances for offset in offsets]
    columns = [np.minimum.reduce(s), np.maximum.reduce(s), *variances, *offsets]
    return np.stack([*columns, reach + longer, _bend(beliefs, x, c)], axis=1)


def _bend(beliefs: LevelBeliefs, x: Floats, c: Floats) -> Floats:
    """The largest bend over possible centres: what an answer is worth depends on the centre, and s is that of the
    middle.

    If the centre rises by t, what is expected given an answer rises by 0 to t, and the line by (1 − s)t. So between
    centres h apart with bends e and e', none is above (1 − s)e + se' + s(1 − s)h or below se + (1 − s)e' − s(1 − s)h.
    """
    shares = beliefs.shares
    if shares is None or shares.levels == 2:
        return np.zeros(len(x))
    x, place = np.unique(x, axis=0, return_inverse=True)
    reach, s = REACH * beliefs.sure / 2, beliefs.slopes(x, c)[:, None]
    about = x - c
    about[:, 0] = x[:, 0]
    answers, bends = np.linspace(0, 1, shares.levels), []
    centres, apart = np.linspace(shares.low + reach, shares.high - reach, CENTRES, retstep=True)
    for centre in centres:
        around = replace(shares, low=float(centre) - reach, high=float(centre) + reach)
        mean = around.expects(about).mean[:, None]
        bends.append(expected_shares(around, about) - (mean + s * (answers - mean)))
    below, above, between = np.stack(bends[:-1]), np.stack(bends[1:]), s * (1 - s) * apart
    highest = (1 - s) * below + s * above + between
    lowest = s * below + (1 - s) * above - between
    return np.asarray(SCALE * np.maximum(highest, -lowest).max(axis=(0, 2)))[place]


def group_levels(rows: Floats) -> Floats:
    """At most GROUPS rows, each for people of similar slope."""
    rows = np.unique(rows, axis=0)
    return worst_of_groups(rows, np.arange(float(len(rows))), least=(0, 2, 4))


@dataclass(frozen=True, eq=False, kw_only=True)
class AskedSetting(RosterSetting):
    """The numbers of a mechanism for answers with predictions."""

    beliefs: LevelBeliefs
    ratio: float
    clip: Floats
    """C, for each ε."""
    judged: bool = False
    """Whether implausible averages are paid alike."""
    tolerance: float = 0.0
    """How far a person's centre may be from what she takes for the others'."""

    @property
    def answers_epsilon(self) -> Floats:
        """The ε at which answers alone would have as much noise: (d+2)(1+ρ²) is (d+1) there."""
        d = self.beliefs.dimension
        return np.asarray(self.epsilon) * math.sqrt((d + 1) / ((d + 2) * (1 + self.ratio**2)))

    @cached_property
    def worst(self) -> tuple[float, float]:
        """The largest (τ, v) among n people: the weight of one answer, and of all, in what others say of her."""
        f = self.geometry.players / self.n
        return float(self.geometry.worst[:, 0].max()) * f, float(self.geometry.worst[:, 1].max()) * f

    @cached_property
    def most(self) -> float:
        """The largest k: how much an answer moves what is expected of everybody."""
        rows = self.believed
        return float((rows[:, 1] * self.beliefs.sure**2 / rows[:, 2]).max())

    @cached_property
    def scale(self) -> Floats:
        """s, the scale of the noise in the d + 1 released dimensions, for each ε."""
        return np.asarray(SCALE * math.sqrt(1 + self.ratio**2) / np.asarray(self.epsilon, dtype=np.float64))

    @cached_property
    def lies(self) -> tuple[Floats, Floats]:
        """How far liars move what others say of her, and their mean prediction, for each α."""
        tau, v = np.array(self.worst)[:, None]
        return SCALE * self.pull_of(tau, v)[:, 0], SCALE * self.liars_expected / (self.n - 1)


def _above(rate: Floats, logs: Floats, level: Floats) -> Floats:
    """A bound on E[(e − level)₊] from ln E[e^λe]: u₊ ≤ exp(λu − 1)/λ. For each ε; λ runs along the last axis."""
    top = np.minimum(logs - rate * level[:, None], _LARGEST_LOG)
    return np.asarray((np.exp(top - 1) / rate).min(axis=-1))


def _logs(s: AskedSetting, scale: Floats, variance: Floats | float) -> tuple[Floats, Floats]:
    """λ, and ln E[e^λe] of normal sampling error of this variance and noise of these scales, for each ε."""
    rate = _PARTS / scale[:, None]
    noise = -(s.beliefs.dimension + 2) / 2 * np.log1p(-(_PARTS**2))
    return rate, rate**2 * variance / 2 + noise


def surprise_noise(s: AskedSetting) -> tuple[Floats, float]:
    """The scale of the noise in Δ for each ε, and the standard deviation of its sampling error.

    What others say of her weighs τ at most; for numbers and ratings the mean of k_j x_j·θ̂ over 1 − k̄ is subtracted,
    and the mean prediction counts 1/(1 − k̄) times.
    """
    (tau, v), n, beliefs = s.worst, s.n, s.beliefs
    k = 0.0 if beliefs.strict else s.most
    along = tau * (1 + k / (1 - k))
    aside = 1 / (s.ratio * (n - 1) * (1 - k))
    sigma = math.sqrt(beliefs.variance)
    of_predictions = math.sqrt((s.most * sigma) ** 2 + beliefs.sure**2) / math.sqrt(n - 1) / (1 - k)
    sampling = sigma * math.sqrt(v) * (1 + k / (1 - k)) + of_predictions
    return s.scale * math.hypot(along, aside), sampling


def largest_deviation(s: AskedSetting) -> Floats:
    """The distance of the average found from the truth that is exceeded with chance MISTAKEN at most, for each ε."""
    tau, v = s.worst
    rate, logs = _logs(s, s.scale * tau, s.beliefs.variance * v)
    return np.asarray(((math.log(2 / MISTAKEN) + logs) / rate).min(axis=-1))


def gap(s: AskedSetting) -> Floats:
    """G for numbers and ratings: rows × α × ε."""
    scale, sampling = surprise_noise(s)
    of_answers, of_predictions = s.lies
    k, rows = s.most, []
    for low, slope, _, v, _, _, _, bend in s.believed:
        others = (1 - low) * (of_predictions + k * of_answers) / (1 - k) + bend / (1 - k)
        # Given her answer the surprise is normal about s(y − μ), of variance v(1 − s).
        rate, logs = _logs(s, scale, v * (1 - low) + sampling**2)
        mean = slope * CENTRAL * math.sqrt(v + s.beliefs.variance)
        clipped = _above(rate, logs + rate * mean, s.clip) + _above(rate, logs - rate * mean, s.clip)
        chance = MISTAKEN * ((1 - low) * s.clip + SCALE * slope) if s.judged else 0.0
        rows.append((of_answers + others)[:, None] + ((1 - low) * (clipped + s.tolerance) + chance)[None, :])
    return np.stack(rows)


def lie_size(s: AskedSetting, score_weight: float) -> Floats:
    """The size from which no lie in an answer pays, whoever tells it: (G + √(G² + τh/b))/s. α × ε."""
    found, least = gap(s), s.believed[:, 0][:, None, None]
    with np.errstate(divide="ignore"):
        return np.asarray(((found + np.sqrt(found**2 + s.saved / score_weight)) / least).max(axis=0))


def least_weight(s: AskedSetting, lie: float) -> Floats:
    """The b with which no lie of this size or more pays; infinite where none is enough. α × ε."""
    moved = s.believed[:, 0][:, None, None] * lie
    room = (moved**2 - 2 * moved * gap(s)).min(axis=0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(room > 0, s.saved / np.maximum(room, 1e-300), np.inf))


def advantage(s: AskedSetting) -> Floats:
    """For yes and no: the least distance of E[Δ] from 0 on the side of the truth, over all people. α × ε.

    E[p − o − m̄ | yes] = (v − mean of k_j Cov_j)/μ for shares, Cov_j ≤ √(v v_j), and with 1 − μ if no: least at the
    centre μ furthest from a half. Beliefs reach √3 times their standard deviation, so centres lie that far inside the
    shares thought possible. Liars and clipping are subtracted.
    """
    beliefs = s.beliefs
    if beliefs.shares is None:
        raise InputError("There is no such advantage of numbers.")
    scale, sampling = surprise_noise(s)
    of_answers, of_predictions = s.lies
    inside = REACH * beliefs.sure
    ends = np.array([beliefs.low + inside, beliefs.high - inside])
    each = []
    for _, _, v, _, lowest, highest, reach, _ in s.believed:
        centres = (1 + np.array([ends[0] + lowest, ends[1] + highest])) / 2
        if not (centres.min() > 0 and centres.max() < 1):
            return np.full((len(s.alpha), len(s.epsilon)), -np.inf)
        k = beliefs.sure**2 / 4 / float((centres * (1 - centres)).min())
        most = float(s.believed[:, 3].max())
        expected = (v - k * math.sqrt(v * most)) / 4 / float(np.maximum(centres, 1 - centres).max())
        rate, logs = _logs(s, scale, sampling**2)
        # Where k varies, effects of features count too.
        clipped = 2 * _above(rate, logs, s.clip - reach - k * (reach - inside))
        chance = MISTAKEN * s.clip if s.judged else 0.0
        moved, lost = (of_answers + of_predictions)[:, None], (clipped + chance + s.tolerance)[None, :]
        each.append(2 * expected - moved - lost)
    return np.asarray(np.minimum.reduce(each))


def least_bonus(s: AskedSetting) -> Floats:
    """b for yes and no, half the bonus: 2b·(advantage)/C outweighs what a lie saves. α × ε."""
    found = 2 * advantage(s) / s.clip
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(found > 0, s.saved / np.maximum(found, 1e-300), np.inf))


def centre_error(s: AskedSetting) -> Floats:
    """The mean squared error of the centre (m̄ − kp)/(1 − k), without features. α × ε.

    People's centres are assumed to have a variance of at most v₀. Noise in m̄ and p is uncorrelated.
    """
    k, n, (tau, _) = s.most, s.n, s.worst
    of_answers, of_predictions = s.lies
    of_people = (of_predictions + k * of_answers) / (1 - k) + s.beliefs.sure / math.sqrt(n)
    weight = (1 / (s.ratio * n)) ** 2 + (k * tau) ** 2
    of_noise = (s.beliefs.dimension + 2) * s.scale**2 * weight / (1 - k) ** 2
    return np.asarray(of_people[:, None] ** 2 + of_noise[None, :])


def error(s: AskedSetting, of: str = "coefficients") -> Floats:
    """The mean squared error that a plan is judged by, normalised: that without predictions, at a smaller ε. α × ε."""
    return centre_error(s) if of == "centre" else share_bounds.error(s, of)
