"""One way to run a study, as functions of the numbers that a search may choose: what it costs and how accurate it is.

Of these, epsilon is the last to be chosen: what a study costs rises with it and its error falls, so that a budget or
an accuracy decides it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np

from truthful.bounds import Setting, privacy_noise, proved
from truthful.bounds.setting import Numbers
from truthful.check import Floats
from truthful.guarantees import model
from truthful.mechanism import EPSILON_RANGE
from truthful.noise import L2Laplace
from truthful.payments import PAYMENT_STEPS
from truthful.planner.goals import Goals
from truthful.slope import stretch
from truthful.study import Study

#: At most this share of ε is spent on the published estimate, and at least the rest on the halves. Unclipped payments
#: are as noisy as the halves' estimates, and so is their total: less would make a bill that nobody can plan with.
MOST_PUBLIC = {"never-negative": 0.99, "expected": 0.9}
#: Amounts and sizes are met from below by this relative margin, so that rounding breaks no promise.
MARGIN = 1e-9
#: No plan has a larger base payment or score weight.
MOST_PAID = 1e9
#: Where no accuracy is asked for, an error must be below that of the prior mean by this part of it.
WORTH_ASKING = 1e-3


@dataclass(frozen=True)
class Choice:
    """Numbers to be chosen, one array element for each point of a search; penalties and shares where they matter."""

    alpha: Floats
    public_share: Numbers = 0.5
    gram_share: Numbers = 0.5
    gamma: Numbers = math.nan
    peer_gamma: Numbers = math.nan
    clip: Numbers = math.nan

    def column(self) -> Choice:
        """The same points as a column, to be tried at a row of values of ε each."""
        return Choice(*(np.reshape(getattr(self, f.name), (-1, 1)) for f in fields(self)))


@dataclass(frozen=True, eq=False)
class Terms:
    """A study run with one public and one peer estimator for so many players."""

    study: Study
    goals: Goals
    players: int
    estimator: str
    peer_estimator: str

    @property
    def answering(self) -> int:
        """Those whom the guarantees are about."""
        return self.players

    def setting(self, choice: Choice, epsilon: Numbers) -> Setting:
        """The setting at this ε: with the least payments that deter lies and make joining pay.

        b ≥ (τ·h(ε) + rounding)/(D² − 2Dg), so that no lie beyond D pays; a as `participation` needs, and `payable` if
        clipped.
        """
        s = self._unpaid(choice, epsilon)
        D = self.goals.lie_size(self.study) * self._shrinkage(s) * (1 - MARGIN)
        g = proved.gap(s)
        room = D**2 - 2 * D * g
        saved = proved.threshold(s) * s.privacy_cost + s.rounding
        with np.errstate(divide="ignore", invalid="ignore"):
            b = np.where(room > 0, saved / room, np.inf)
            paid = s.at(b=b)
            least = b * (g**2 + _linear(s) / 4) + saved
            a = np.maximum(least, proved.payable(paid)) if s.clipped else least
        return paid.at(a=np.where(np.isfinite(b), a, np.inf) * (1 + MARGIN))

    def _unpaid(self, choice: Choice, epsilon: Numbers) -> Setting:
        return Setting(
            model=model(self.study),
            costs=self.study.costs,
            n=self.players,
            epsilon=epsilon,
            alpha=choice.alpha,
            beta=self.goals.failure_probability,
            gamma=choice.gamma,
            peer_gamma=choice.peer_gamma,
            public_share=self.public_share(choice, epsilon),
            gram_share=choice.gram_share,
            estimator=self.estimator,
            peer_estimator=self.peer_estimator,
            rule=self.goals.rule,
            payments=self.goals.payments,
            privacy=self.study.declared.costs.privacy,
            rounding=1 / PAYMENT_STEPS,
            belief_gap=self.study.tolerance,
        )

    def _shrinkage(self, s: Setting) -> Numbers:
        """How much smaller own predictions are than the truth: a lie is measured before that, lest it seem small."""
        if self.peer_estimator != "ridge-free":
            return 1.0
        mu = np.asarray(s.n) / 2 * s.model.least_eigenvalue
        return np.asarray(mu / (s.half_gamma + mu))

    def least_epsilon(self, choice: Choice) -> Floats:
        """Below this ε nothing would be left for the published estimate."""
        if "public_share" in self.goals.pins or self.goals.payments == "expected":
            return np.asarray(EPSILON_RANGE[0])
        return np.maximum(EPSILON_RANGE[0], self.least_peer_epsilon(choice) * (1 + 1e-3))

    def public_share(self, choice: Choice, epsilon: Numbers) -> Numbers:
        """The share asked for, or less where the halves need more for a useful slope."""
        if "public_share" in self.goals.pins or self.goals.payments == "expected":
            return choice.public_share
        with np.errstate(divide="ignore"):
            most = 1 - self.least_peer_epsilon(choice) / np.asarray(epsilon)
        return np.asarray(np.clip(np.minimum(choice.public_share, most), 1e-9, None))

    def least_peer_epsilon(self, choice: Choice) -> Floats:
        """The ε of a half at which its noise along a typical x is as large as the slope allows."""
        half = max(1, self.players // 2)
        sensitivity = privacy_noise.sensitivity(
            self.peer_estimator, model(self.study), half, choice.peer_gamma
        )
        kept = 1 - choice.gram_share if self.peer_estimator == "noisy-statistics" else 1.0
        along = sensitivity * self._stretch / kept
        return np.asarray(along / self._largest_scale)

    @cached_property
    def _stretch(self) -> float:
        return stretch(self.study, self.peer_estimator)

    @cached_property
    def _largest_scale(self) -> float:
        """The noise scale with P(|u + e| ≤ R) = least_slope, u a median deviation of the truth along x."""
        beliefs, d = self.study.beliefs, self.study.dimension
        R, u = beliefs.radius, 0.6745 * math.sqrt(beliefs.prior.variance(d))
        law = L2Laplace(d, 1.0)

        # Near slope 1 the scale tends to 0, near slope 0 to infinity.
        low, high = math.log(R) - 40, math.log(R) + 40
        while high - low > 1e-12:
            middle = (low + high) / 2
            outside, inside = law.marginal_cdf((np.array([-R, R]) - u) / math.exp(middle)).tolist()
            low, high = (middle, high) if inside - outside > self.goals.least_slope else (low, middle)
        return math.exp(low)

    @cached_property
    def largest_error(self) -> float:
        """The mean squared error allowed: as asked, or a little less than that of answering with the prior mean."""
        asked = self.goals.error(self.study)
        return self.goals.prior_error(self.study) * (1 - WORTH_ASKING) if asked is None else asked

    def cost(self, choice: Choice, epsilon: Numbers) -> Floats:
        """What a budget must cover: the cap if payments are never negative, else the expected total."""
        s = self.setting(choice, epsilon)
        total = proved.budget_cap(s) if s.clipped else proved.budget(s)
        usable = (np.asarray(s.public_share) > 1e-6) & (np.maximum(s.a, s.b) <= MOST_PAID)
        return np.where(usable & ~np.isnan(total), total, np.inf)

    def error(self, choice: Choice, epsilon: Numbers) -> Floats:
        """The mean squared error that is guaranteed: of coefficients, or of predictions."""
        s = self._unpaid(choice, epsilon)
        error = proved.accuracy(s) if self.goals.accuracy_of == "coefficients" else proved.prediction_error(s)
        return np.where(np.asarray(s.public_share) > 1e-6, error, np.inf)


def _linear(s: Setting) -> float:
    return 1.0 if s.rule == "brier" else 0.0
