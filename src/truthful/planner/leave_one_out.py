"""The terms of one release, scored leaving one out: what it costs and how accurate it is, at every choice of numbers.

Two things make the same deterrence cheaper: peer predictions are clipped at c ≤ R, so that payments range less, and
the base payment follows the length of a person's features. At another clip level other lies go free. So the size D of
lies that may pay shrinks with c, to where the share of answers that nothing deters is what it is at c = R: no plan is
better because more lies go free.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from truthful.bounds import Setting, proved
from truthful.bounds.setting import Numbers
from truthful.check import Floats
from truthful.geometry import Geometry
from truthful.guarantees import model
from truthful.mechanism import EPSILON_RANGE
from truthful.payments import PAYMENT_STEPS
from truthful.planner.matched import BeliefGaps, MatchedLies
from truthful.planner.terms import MARGIN, Choice, Terms
from truthful.scoring import RULES
from truthful.slope import least_noise, noise_proportion, stretch
from truthful.study import Study


@dataclass(frozen=True, eq=False)
class LeaveOneOutTerms(Terms):
    """A study run with one release, for so many players of whom a share may answer."""

    shortening: float = 1.0

    @cached_property
    def answering(self) -> int:
        """Those whom the guarantees are about."""
        panel = self.goals.panel
        return self.players if panel is None else panel.answering(self.players)

    @cached_property
    def geometry(self) -> Geometry | None:
        """That of those who answer, where answers are protected."""
        if self.estimator != "instruments" or self.goals.panel is None:
            return None
        return self.goals.panel.geometry(self.players, self.shortening)

    def setting(self, choice: Choice, epsilon: Numbers) -> Setting:
        """At this ε, with the least payments that deter lies and make joining pay.

        b ≥ (τ·h(ε) + rounding)/(D² − 2Dg), so that no lie beyond D pays, and a as `participation` needs.
        """
        s = self._unpaid(choice, epsilon)
        D = self.lie(s) * (1 - MARGIN)
        g = proved.gap(s)
        room = D**2 - 2 * D * g
        saved = proved.threshold(s) * s.privacy_cost + s.rounding
        # Where ε is given it may be one at which noise drowns what deters.
        deters = (room > 0) & (np.asarray(epsilon) >= self.least_epsilon(choice) * (1 - MARGIN))
        with np.errstate(divide="ignore", invalid="ignore"):
            b = np.where(deters, saved / room, np.inf)
            # As `proved.participation` has it, which would compute the gap again.
            a = b * (g**2 + RULES[s.rule].linear / 4) + saved
        return s.at(a=np.where(np.isfinite(b), a, np.inf) * (1 + MARGIN), b=b)

    def lie(self, s: Setting) -> Floats:
        """D, the size of lies that may pay at this clip level and noise: as asked for at c = R."""
        if not s.clipped:
            shape = np.broadcast_shapes(np.shape(s.epsilon), np.shape(s.alpha))
            return np.full(shape, self.goals.lie_size(self.study))
        return self._matched(s.reach, self._noise(s))

    def belief_gap(self, s: Setting) -> Numbers:
        """Γ, what the declared tolerance of people's centre does to what they expect, at this clip level and noise."""
        if self.study.tolerance == 0 or not s.clipped:
            return self.study.tolerance
        return self._belief_gaps(s.reach, self._noise(s))

    def _noise(self, s: Setting) -> Floats:
        """The scale of the noise in the released sum, for each of those who are left."""
        kept = 1 - np.asarray(s.gram_share) if self.estimator == "noisy-statistics" else 1.0
        return np.asarray(2 * s.model.response_bound / (np.asarray(s.epsilon) * kept) / self._peers)

    @property
    def _peers(self) -> int:
        """By how many the noise that a player of `_matched` has is divided."""
        return self.answering if self.geometry is not None else max(1, self.answering - 1)

    @cached_property
    def _matched(self) -> MatchedLies:
        lie, pinned, panel = self.goals.lie_size(self.study), self.goals.pins.get("clip"), self.goals.panel
        if self.geometry is None or panel is None:
            return _matched_of_design(self.study, self.estimator, lie, pinned)
        return panel.matched(self.shortening, lie, pinned)

    @cached_property
    def _belief_gaps(self) -> BeliefGaps:
        pinned, panel = self.goals.pins.get("clip"), self.goals.panel
        if self.geometry is None or panel is None:
            return _belief_gaps_of_design(self.study, pinned)
        return panel.belief_gaps(self.shortening, self.study.tolerance, pinned)

    def rough_error(self, choice: Choice, epsilon: Numbers) -> Floats:
        """As `error`, if those who answer were spread just as all are of whom they are drawn: quicker to know."""
        panel = self.goals.panel
        everybody = None if panel is None else panel.everybody(self.shortening)
        s = self._setting(choice, epsilon, everybody)
        of_predictions = self.goals.accuracy_of == "predictions"
        return proved.prediction_error(s) if of_predictions else proved.accuracy(s)

    def _unpaid(self, choice: Choice, epsilon: Numbers) -> Setting:
        s = self._setting(choice, epsilon, self.geometry)
        return s.at(belief_gap=self.belief_gap(s)) if self.study.tolerance else s

    def _setting(self, choice: Choice, epsilon: Numbers, geometry: Geometry | None) -> Setting:
        R = self.study.beliefs.radius
        clip = np.where(np.isnan(choice.clip), R, choice.clip)
        return Setting(
            model=model(self.study),
            costs=self.study.costs,
            n=self.answering,
            epsilon=epsilon,
            alpha=choice.alpha,
            beta=self.goals.failure_probability,
            gram_share=choice.gram_share,
            estimator=self.estimator,
            peer_estimator=self.peer_estimator,
            peers="leave-one-out",
            clip=clip,
            geometry=geometry,
            rule=self.goals.rule,
            payments=self.goals.payments,
            privacy=self.study.declared.costs.privacy,
            rounding=1 / PAYMENT_STEPS,
        )

    def least_epsilon(self, choice: Choice) -> Floats:
        """Below this ε the noise along a typical x is larger than a useful slope allows."""
        if self.goals.payments == "expected":
            return np.asarray(EPSILON_RANGE[0])
        proportion = (
            noise_proportion(self.study, self.estimator, self.answering)
            if self.geometry is None
            else self.geometry.typical_noise * self.geometry.players / self.answering
        )
        kept = 1 - np.asarray(choice.gram_share) if self.estimator == "noisy-statistics" else 1.0
        least = 2 * self.study.beliefs.response_bound * proportion / kept / self._largest_scale
        return np.asarray(np.maximum(EPSILON_RANGE[0], least))


@lru_cache(maxsize=32)
def _matched_of_design(study: Study, estimator: str, lie: float, pinned: float | None) -> MatchedLies:
    """Of one person, whose features are typical of the design."""
    r = np.array([math.sqrt(study.mean_square_norm)])
    noise = r * stretch(study, estimator)
    return MatchedLies(beliefs=study.beliefs, lengths=r, proportions=noise, pinned=pinned, lie=lie)


@lru_cache(maxsize=32)
def _belief_gaps_of_design(study: Study, pinned: float | None) -> BeliefGaps:
    """Of anybody whose features are of the design."""
    r, noise = least_noise(study)
    return BeliefGaps(
        beliefs=study.beliefs, lengths=r, proportions=noise, pinned=pinned, shift=study.tolerance
    )
