"""One way to run a study, as functions of the numbers that a search may choose: what it costs and how accurate it is.

Of these, epsilon is the last to be chosen: what a study costs rises with it and its error falls, so that a budget or
an accuracy decides it.

With one release, scored leaving one out, two things make the same deterrence cheaper: peer predictions are clipped at
c ≤ R, so that payments range less, and the base payment follows the length of a person's features. At another clip
level other lies go free. So the size D of lies that may pay shrinks with c, to where the share of answers that nothing
deters is what it is at c = R: no plan is better because more lies go free.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from truthful.bounds import Setting, proved
from truthful.bounds.setting import Numbers
from truthful.bounds.setting import sensitivity as sensitivity_of
from truthful.check import Floats
from truthful.deterrence import least_noise, noise_proportion, stretch
from truthful.geometry import Geometry
from truthful.guarantees import model
from truthful.noise import L2Laplace
from truthful.planner.goals import Goals
from truthful.planner.panel import BeliefGaps, MatchedLies
from truthful.planner.planning import MARGIN
from truthful.random_halves import EPSILON_RANGE
from truthful.scoring import PAYMENT_STEPS, RULES
from truthful.study import Study

#: At most this share of ε is spent on the published estimate, and at least the rest on the halves. Unclipped payments
#: are as noisy as the halves' estimates, and so is their total: less would make a bill that nobody can plan with.
MOST_PUBLIC = {"never-negative": 0.99, "expected": 0.9}
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
    """A study run with one public and one peer estimator for so many players, scored against random halves."""

    study: Study
    goals: Goals
    players: int
    estimator: str
    peer_estimator: str

    @property
    def pair(self) -> tuple[str, str]:
        """The public and the peer estimator."""
        return self.estimator, self.peer_estimator

    @property
    def answering(self) -> int:
        """Those whom the guarantees are about."""
        return self.players

    def setting(self, choice: Choice, epsilon: Numbers) -> Setting:
        """The setting at this ε: with the least payments that deter lies and make joining pay.

        b ≥ (τ·h(ε) + rounding)/(D² − 2Dg), so that no lie beyond D pays; a as `participation` needs (it would compute
        the gap again), and `payable` if halves are clipped.
        """
        s = self._unpaid(choice, epsilon)
        D = self.lie(s) * (1 - MARGIN)
        g = proved.gap(s)
        room = D**2 - 2 * D * g
        saved = proved.threshold(s) * s.privacy_cost + s.rounding
        with np.errstate(divide="ignore", invalid="ignore"):
            b = np.where((room > 0) & self._follows(choice, epsilon), saved / room, np.inf)
            paid = s.at(b=b)
            a = b * (g**2 + RULES[s.rule].linear / 4) + saved
            if s.clipped and s.peers == "halves":
                a = np.maximum(a, proved.payable(paid))
        return paid.at(a=np.where(np.isfinite(b), a, np.inf) * (1 + MARGIN))

    def _unpaid(self, choice: Choice, epsilon: Numbers) -> Setting:
        return Setting(
            **self._given,
            n=self.players,
            epsilon=epsilon,
            alpha=choice.alpha,
            gamma=choice.gamma,
            peer_gamma=choice.peer_gamma,
            public_share=self.public_share(choice, epsilon),
            gram_share=choice.gram_share,
            belief_gap=self.study.tolerance,
        )

    @cached_property
    def _given(self) -> dict[str, Any]:
        """What no search chooses."""
        return {
            "model": model(self.study),
            "costs": self.study.costs,
            "beta": self.goals.failure_probability,
            "estimator": self.estimator,
            "peer_estimator": self.peer_estimator,
            "rule": self.goals.rule,
            "payments": self.goals.payments,
            "privacy": self.study.declared.costs.privacy,
            "rounding": 1 / PAYMENT_STEPS,
        }

    def lie(self, s: Setting) -> Floats:
        """D, the size of lies that may pay: as asked for, measured before a ridge shrinks own predictions."""
        asked = np.asarray(self.goals.lie_size(self.study))
        if self.peer_estimator != "ridge-free":
            return asked
        mu = np.asarray(s.n) / 2 * s.model.least_eigenvalue
        return np.asarray(asked * np.asarray(mu / (s.half_gamma + mu)))

    def _follows(self, choice: Choice, epsilon: Numbers) -> npt.NDArray[np.bool_]:
        """Whether peer predictions follow the truth, so that noise does not drown what deters."""
        return np.asarray(True)

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
        sensitivity = sensitivity_of(self.peer_estimator, model(self.study), half, choice.peer_gamma)
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
        return np.where(np.asarray(s.public_share) > 1e-6, self._error(s), np.inf)

    def _error(self, s: Setting) -> Floats:
        of_predictions = self.goals.accuracy_of == "predictions"
        return proved.prediction_error(s) if of_predictions else proved.accuracy(s)


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

    def _follows(self, choice: Choice, epsilon: Numbers) -> npt.NDArray[np.bool_]:
        # Where ε is given it may be one at which noise drowns what deters.
        return np.asarray(np.asarray(epsilon) >= self.least_epsilon(choice) * (1 - MARGIN))

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
        return panel.match_lies(self.shortening, lie, pinned)

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
        return self._error(self._setting(choice, epsilon, everybody))

    def _unpaid(self, choice: Choice, epsilon: Numbers) -> Setting:
        s = self._setting(choice, epsilon, self.geometry)
        return s.at(belief_gap=self.belief_gap(s)) if self.study.tolerance else s

    def _setting(self, choice: Choice, epsilon: Numbers, geometry: Geometry | None) -> Setting:
        return Setting(
            **self._given,
            n=self.answering,
            epsilon=epsilon,
            alpha=choice.alpha,
            gram_share=choice.gram_share,
            peers="leave-one-out",
            clip=np.where(np.isnan(choice.clip), self.study.beliefs.radius, choice.clip),
            geometry=geometry,
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
