"""What holds where people are also asked what the others will say, given everybody's features: closed forms.

Half the scale of answers is the unit. With Q = (1−s)Δ + s·p (truthful.asked_release) the part of an expected payment
that depends on the answer is b(2s·y·E[Q] − s²y²), and E[Q | x, y] = s·y if beliefs are of the declared form and the
others tell the truth. G bounds how far off it is: liars, what clipping takes away, what is implausible by chance, and
how far a person's centre may be from what she takes for the others'. Then a lie of ℓ loses b(s²ℓ² − 2sℓG). Derivations:
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

#: Between the answers of so many standard deviations, 98 % of them, what is promised holds.
CENTRAL = 2.326
#: The chance that an average that was thought plausible is taken for implausible.
MISTAKEN = 1e-3
#: Centres of beliefs that are looked at, from the lowest to the highest.
CENTRES = 3
#: λ of exponential bounds, as parts of where the noise's has its pole.
_PARTS = np.concatenate([np.geomspace(1e-3, 0.04, 12), np.linspace(0.06, 0.97, 24)])
_LARGEST_LOG = 300.0


def level_rows(beliefs: LevelBeliefs, x: Floats, c: Floats, away: Floats | None = None) -> Floats:
    """(s, s, v, v, o, o, reach, bend) of each person: the least and the largest of those who are grouped together.

    reach is how far the average answer of people like her can be from where beliefs have it, at most. bend is how far
    what an answer really expects can be from the line s: none but for ratings, whatever their centre. Columns of c may
    be `away` from where they are: √(v − v₀) is a norm of x − c, and moves by no more than that of how far c does.
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
    """The most over centres that people can have: what an answer is worth depends on them, and s is that of the middle.

    Beliefs are uniform about the centre; the line is furthest from what they expect at the ends.
    """
    shares = beliefs.shares
    if shares is None or shares.levels == 2:
        return np.zeros(len(x))
    reach, s = REACH * beliefs.sure / 2, beliefs.slopes(x, c)[:, None]
    about = x - c
    about[:, 0] = x[:, 0]
    answers, found = np.linspace(0, 1, shares.levels), np.zeros(len(x))
    for centre in np.linspace(shares.low + reach, shares.high - reach, CENTRES):
        around = replace(shares, low=float(centre) - reach, high=float(centre) + reach)
        mean = around.expects(about).mean[:, None]
        off = expected_shares(around, about) - (mean + s * (answers - mean))
        found = np.maximum(found, SCALE * np.abs(off).max(axis=1))
    return found


def group_levels(rows: Floats) -> Floats:
    """At most GROUPS rows, each for people of about the same slope."""
    rows = np.unique(rows, axis=0)
    return worst_of_groups(rows, np.arange(float(len(rows))), least=(0, 2, 4))


@dataclass(frozen=True, eq=False, kw_only=True)
class AskedSetting(RosterSetting):
    """Of answers with predictions."""

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
        """The largest (τ, v) of people among n: how much one answer and all of them weigh in what others say of her."""
        f = self.geometry.players / self.n
        return float(self.geometry.worst[:, 0].max()) * f, float(self.geometry.worst[:, 1].max()) * f

    @cached_property
    def most(self) -> float:
        """The largest k: how much an answer moves what is expected of everybody."""
        rows = self.believed
        return float((rows[:, 1] * self.beliefs.sure**2 / rows[:, 2]).max())

    @cached_property
    def scale(self) -> Floats:
        """s of the noise in what is released, of d + 1 dimensions. For each ε."""
        return np.asarray(SCALE * math.sqrt(1 + self.ratio**2) / np.asarray(self.epsilon, dtype=np.float64))

    @cached_property
    def lies(self) -> tuple[Floats, Floats]:
        """How far liars move what others say of her, and their mean prediction. For each α."""
        tau, v = np.array(self.worst)[:, None]
        return SCALE * self.pull_of(tau, v)[:, 0], SCALE * self.liars_expected / (self.n - 1)


def _above(rate: Floats, logs: Floats, level: Floats) -> Floats:
    """E[(e − level)₊] at most, from ln E[e^λe]: u₊ ≤ exp(λu − 1)/λ. For each ε; the last axis is that of λ."""
    top = np.minimum(logs - rate * level[:, None], _LARGEST_LOG)
    return np.asarray((np.exp(top - 1) / rate).min(axis=-1))


def _logs(s: AskedSetting, scale: Floats, variance: Floats | float) -> tuple[Floats, Floats]:
    """λ, and ln E[e^λe] of normal sampling error of this variance and noise of these scales, for each ε."""
    rate = _PARTS / scale[:, None]
    noise = -(s.beliefs.dimension + 2) / 2 * np.log1p(-(_PARTS**2))
    return rate, rate**2 * variance / 2 + noise


def surprise_noise(s: AskedSetting) -> tuple[Floats, float]:
    """The scale of the noise in Δ for each ε, and the standard deviation of its sampling error.

    What others say of her weighs τ at most; for numbers and ratings the mean of k_j x_j·θ̂ is taken off, over 1 − k̄, and
    the mean prediction counts 1/(1 − k̄) times.
    """
    (tau, v), n, beliefs = s.worst, s.n, s.beliefs
    k = 0.0 if beliefs.strict else s.most
    along = tau * (1 + k / (1 - k))
    aside = 1 / (s.ratio * (n - 1) * (1 - k))
    sigma = math.sqrt(beliefs.variance)
    of_predictions = math.sqrt((s.most * sigma) ** 2 + beliefs.sure**2) / math.sqrt(n - 1) / (1 - k)
    sampling = sigma * math.sqrt(v) * (1 + k / (1 - k)) + of_predictions
    return s.scale * math.hypot(along, aside), sampling


def largest_deviation(s: AskedSetting, chance: float = MISTAKEN) -> Floats:
    """How far what is found of the average may be from the truth but with this chance. For each ε."""
    tau, v = s.worst
    rate, logs = _logs(s, s.scale * tau, s.beliefs.variance * v)
    return np.asarray(((math.log(2 / chance) + logs) / rate).min(axis=-1))


def gap(s: AskedSetting) -> Floats:
    """G of numbers and ratings: rows × α × ε."""
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
    """From which size on no lie in an answer pays, whoever tells it: (G + √(G² + τh/b))/s. α × ε."""
    found, least = gap(s), s.believed[:, 0][:, None, None]
    with np.errstate(divide="ignore"):
        return np.asarray(((found + np.sqrt(found**2 + s.saved / score_weight)) / least).max(axis=0))


def least_weight(s: AskedSetting, lie: float) -> Floats:
    """b with which no lie of this size or more pays; infinite where none does. α × ε."""
    moved = s.believed[:, 0][:, None, None] * lie
    room = (moved**2 - 2 * moved * gap(s)).min(axis=0)
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(room > 0, s.saved / np.maximum(room, 1e-300), np.inf))


def advantage(s: AskedSetting) -> Floats:
    """Of yes and no: how far E[Δ] is from 0 on the side of the truth, at least, whoever she is. α × ε.

    E[p − o − m̄ | yes] = (v − mean of k_j Cov_j)/μ for shares, Cov_j ≤ √(v v_j), and with 1 − μ if no: least at the
    centre μ furthest from a half. Beliefs reach √3 times their standard deviation, so that centres lie as much inside
    the shares that are thought possible. Liars and clipping take away.
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
        # Where k differs, what features do to others counts too.
        clipped = 2 * _above(rate, logs, s.clip - reach - k * (reach - inside))
        chance = MISTAKEN * s.clip if s.judged else 0.0
        moved, lost = (of_answers + of_predictions)[:, None], (clipped + chance + s.tolerance)[None, :]
        each.append(2 * expected - moved - lost)
    return np.asarray(np.minimum.reduce(each))


def least_bonus(s: AskedSetting) -> Floats:
    """b of yes and no, half the bonus: 2b·(advantage)/C outweighs what a lie saves. α × ε."""
    found = 2 * advantage(s) / s.clip
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(found > 0, s.saved / np.maximum(found, 1e-300), np.inf))


def centre_error(s: AskedSetting) -> Floats:
    """The mean squared error of the centre (m̄ − kp)/(1 − k), without features. α × ε.

    People's centres are taken to scatter by v₀ at most. Noise in m̄ and p is uncorrelated.
    """
    k, n, (tau, _) = s.most, s.n, s.worst
    of_answers, of_predictions = s.lies
    of_people = (of_predictions + k * of_answers) / (1 - k) + s.beliefs.sure / math.sqrt(n)
    weight = (1 / (s.ratio * n)) ** 2 + (k * tau) ** 2
    of_noise = (s.beliefs.dimension + 2) * s.scale**2 * weight / (1 - k) ** 2
    return np.asarray(of_people[:, None] ** 2 + of_noise[None, :])


def error(s: AskedSetting, of: str = "coefficients") -> Floats:
    """The mean squared error that a plan is judged by, normalised, as without predictions at a smaller ε. α × ε."""
    return centre_error(s) if of == "centre" else share_bounds.error(s, of)
