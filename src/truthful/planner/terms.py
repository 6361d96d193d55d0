"""A way to run a study: its cost and accuracy as functions of the numbers that a search may choose.

ε is chosen last: cost rises and the error falls with it, so that a budget or an accuracy decides it.

Two things make the same deterrence cheaper: peer predictions are clipped at c ≤ R, so that payments range less, and the
base payment follows the length of a person's features. At another clip level other lies go free. So the size D of lies
that may pay shrinks with c, to where the share of answers that nothing deters is what it is at c = R: no plan is better
because more lies go free.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np

from truthful.bounds import Setting, proved
from truthful.bounds.setting import Numbers
from truthful.check import Floats
from truthful.deterrence import least_noise, noise_proportion, stretch
from truthful.geometry import Geometry
from truthful.guarantees import model
from truthful.noise import L2Laplace
from truthful.one_release import EPSILON_RANGE
from truthful.planner.goals import Goals
from truthful.planner.panel import ClipTable, Tabulate, belief_gaps, matched_lies
from truthful.planner.planning import MARGIN
from truthful.scoring import PAYMENT_STEPS, RULES
from truthful.study import Study

#: The least slope of clipped peer predictions in the truth, for a typical person, lest noise drown the incentive.
LEAST_SLOPE = 0.8
#: The largest base payment or score weight.
MOST_PAID = 1e9
#: Where no accuracy is given, the error must be below that of the prior mean by this part.
WORTH_ASKING = 1e-3


@dataclass(frozen=True)
class Choice:
    """Numbers to choose, an array element for each point of a search; an estimator uses those that matter to it."""

    alpha: Floats
    gram_share: Numbers
    clip: Numbers
    kept: dict[tuple[int, float], Floats] = field(default_factory=dict, repr=False, compare=False)

    def column(self) -> Choice:
        """The points as a column, to be tried at a row of values of ε each."""
        alpha, gram_share, clip = (
            np.reshape(part, (-1, 1)) for part in (self.alpha, self.gram_share, self.clip)
        )
        return Choice(alpha, gram_share, clip)


@dataclass(frozen=True, eq=False)
class Terms:
    """A study run with one estimator and this number of players; a panel's response share says how many answer."""

    study: Study
    goals: Goals
    players: int
    estimator: str
    shortening: float = 1.0

    @cached_property
    def answering(self) -> int:
        """The number of respondents, whom the guarantees are about."""
        panel = self.goals.panel
        return self.players if panel is None else panel.answering(self.players)

    @cached_property
    def geometry(self) -> Geometry | None:
        """The geometry of respondents, where answers are protected."""
        panel = self.goals.panel
        return None if panel is None else panel.geometry(self.players, self.shortening)

    def cost(self, choice: Choice, epsilon: Numbers) -> Floats:
        """The amount a budget must cover: the cap if payments are never negative, else the expected total."""
        s = self.setting(choice, epsilon)
        total = proved.budget_cap(s) if s.clipped else proved.budget(s)
        usable = (np.maximum(s.a, s.b) <= MOST_PAID) & ~np.isnan(total)
        return np.where(usable, total, np.inf)

    def error(self, choice: Choice, epsilon: Numbers) -> Floats:
        """The guaranteed mean squared error, of coefficients or of predictions."""
        return self._error(self._unpaid(choice, epsilon))

    def rough_error(self, choice: Choice, epsilon: Numbers) -> Floats:
        """`error` if respondents are distributed like the whole pool: faster."""
        panel = self.goals.panel
        everybody = None if panel is None else panel.pool_geometry(self.shortening)
        return self._error(self._setting(choice, epsilon, everybody))

    def _error(self, s: Setting) -> Floats:
        of_predictions = self.goals.accuracy_of == "predictions"
        return proved.prediction_error(s) if of_predictions else proved.accuracy(s)

    @cached_property
    def largest_error(self) -> float:
        """The mean squared error allowed: as given, or a little less than that of answering with the prior mean."""
        asked = self.goals.error(self.study)
        return self.goals.prior_error(self.study) * (1 - WORTH_ASKING) if asked is None else asked

    def setting(self, choice: Choice, epsilon: Numbers) -> Setting:
        """The setting at this ε, with the least payments that deter lies and make joining pay.

        b ≥ (τ·h(ε) + rounding)/(D² − 2Dg), so that no lie beyond D pays; a as `participation` needs, which would
        compute the gap again. Below the least ε, where one is given, noise drowns the incentive, and nothing deters.
        """
        s = self._unpaid(choice, epsilon)
        D = self._lie(s) * (1 - MARGIN)
        g = proved.gap(s)
        room = D**2 - 2 * D * g
        saved = proved.threshold(s) * s.privacy_cost + s.rounding
        followed = np.asarray(epsilon) >= self.least_epsilon(choice) * (1 - MARGIN)
        with np.errstate(divide="ignore", invalid="ignore"):
            b = np.where((room > 0) & followed, saved / room, np.inf)
            a = b * (g**2 + RULES[s.rule].linear / 4) + saved
        return s.at(b=b, a=np.where(np.isfinite(b), a, np.inf) * (1 + MARGIN))

    def _unpaid(self, choice: Choice, epsilon: Numbers) -> Setting:
        s = self._setting(choice, epsilon, self.geometry)
        return s.at(belief_gap=self._belief_gap(s)) if self.study.tolerance else s

    def _setting(self, choice: Choice, epsilon: Numbers, geometry: Geometry | None) -> Setting:
        found = Setting(
            model=model(self.study),
            costs=self.study.costs,
            beta=self.goals.failure_probability,
            estimator=self.estimator,
            rule=self.goals.rule,
            payments=self.goals.payments,
            privacy=self.study.declared.costs.privacy,
            rounding=1 / PAYMENT_STEPS,
            n=self.answering,
            epsilon=epsilon,
            alpha=choice.alpha,
            gram_share=choice.gram_share,
            clip=choice.clip,
            geometry=geometry,
        )
        # The same at every ε.
        key = self.answering, self.goals.failure_probability
        if key not in choice.kept:
            choice.kept[key] = found.above_threshold
        found.kept["above_threshold"] = choice.kept[key]
        return found

    def _lie(self, s: Setting) -> Floats:
        """D, the size of lies that may pay at this clip level and noise, given D at c = R."""
        if not s.clipped:
            shape = np.broadcast_shapes(np.shape(s.epsilon), np.shape(s.alpha))
            return np.full(shape, self.goals.lie_size(self.study))
        return self._matched(s.reach, self._noise(s))

    def _belief_gap(self, s: Setting) -> Numbers:
        """Γ: the most that the declared tolerance of the centre changes expectations, at this clip level and noise."""
        if not s.clipped:
            return self.study.tolerance
        return self._belief_gaps(s.reach, self._noise(s))

    def _noise(self, s: Setting) -> Floats:
        """The scale of the noise in the released sum, per peer."""
        peers = self.answering if self.geometry is not None else max(1, self.answering - 1)
        return np.asarray(
            2
            * s.model.response_bound
            / (np.asarray(s.epsilon) * self._coefficient_share(s.gram_share))
            / peers
        )

    def _coefficient_share(self, gram_share: Numbers) -> Numbers:
        """The coefficients' share of ε."""
        return 1 - np.asarray(gram_share) if self.estimator == "noisy-statistics" else 1.0

    @cached_property
    def _matched(self) -> ClipTable:
        return self._table(matched_lies, self.goals.lie_size(self.study))

    @cached_property
    def _belief_gaps(self) -> ClipTable:
        return self._table(belief_gaps, self.study.tolerance)

    def _table(self, tabulate: Tabulate, size: float) -> ClipTable:
        pinned, panel = self.goals.pins.get("clip"), self.goals.panel
        if panel is None:
            return _table_of_design(self.study, tabulate, size, pinned)
        return panel.table(tabulate, self.shortening, size, pinned)

    def least_epsilon(self, choice: Choice) -> Floats:
        """The least ε: below it the noise along a typical x leaves less than a useful slope."""
        if self.goals.payments == "expected":
            return np.asarray(EPSILON_RANGE[0])
        proportion = (
            noise_proportion(self.study, self.answering)
            if self.geometry is None
            else self.geometry.typical_noise * self.geometry.players / self.answering
        )
        noise = (
            2 * self.study.beliefs.response_bound * proportion / self._coefficient_share(choice.gram_share)
        )
        least = noise / _largest_scale(self.study)
        return np.asarray(np.maximum(EPSILON_RANGE[0], least))


@lru_cache(maxsize=32)
def _largest_scale(study: Study) -> float:
    """The noise scale with P(|u + e| ≤ R) = LEAST_SLOPE, u a median deviation of the truth along x."""
    beliefs, d = study.beliefs, study.dimension
    R, u = beliefs.radius, 0.6745 * math.sqrt(beliefs.prior.variance(d))
    law = L2Laplace(d, 1.0)

    def slope(log_scale: float) -> float:
        outside, inside = law.marginal_cdf((np.array([-R, R]) - u) / math.exp(log_scale)).tolist()
        return float(inside - outside)

    # Near slope 1 the scale tends to 0, near slope 0 to infinity.
    low, high = math.log(R) - 40, math.log(R) + 40
    while high - low > 1e-12:
        middle = (low + high) / 2
        low, high = (middle, high) if slope(middle) > LEAST_SLOPE else (low, middle)
    return math.exp(low)


@lru_cache(maxsize=64)
def _table_of_design(study: Study, tabulate: Tabulate, size: float, pinned: float | None) -> ClipTable:
    """A table for the design: gaps cover anybody with such features; lies are of one person with typical features."""
    typical = np.array([math.sqrt(study.mean_square_norm)])
    r, noise = least_noise(study) if tabulate is belief_gaps else (typical, typical * stretch(study))
    return tabulate(study.beliefs, r, noise, size, pinned)
