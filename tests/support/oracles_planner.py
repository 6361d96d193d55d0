"""A slow twin of the planner: random points over every parameter, closing in on the best ones. No planner code."""

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy import interpolate

from truthful.beliefs import Beliefs
from truthful.bounds import Setting, proved
from truthful.bounds.estimator_bounds import GAPS
from truthful.check import Floats
from truthful.deterrence import Deterrence, representative, stretch
from truthful.geometry import Geometry
from truthful.guarantees import model
from truthful.noise import L2Laplace
from truthful.planner.terms import LEAST_SLOPE
from truthful.scoring import PAYMENT_STEPS
from truthful.study import Study

DRAWS, KEPT, ROUNDS, SHRINK = 3_000, 6, 14, 0.6


@dataclass(frozen=True, eq=False)
class People:
    """Who answers, as one release sees them: where answers are protected the geometry of their features."""

    study: Study
    players: int
    geometry: Geometry | None = None

    @cached_property
    def spread(self) -> tuple[Floats, Floats]:
        """(r, noise along x in units of that in the sum) of everybody; of a declared design, of a typical person."""
        if self.geometry is None:
            r = math.sqrt(self.study.mean_square_norm)
            return np.array([r]), np.array([r * stretch(self.study) / (self.players - 1)])
        lengths, tau = self.geometry.people
        return lengths, tau * self.geometry.players / self.players

    @property
    def typical_noise(self) -> float:
        r, noise = self.spread
        return math.sqrt(float(np.mean(noise**2) / np.mean(r**2)))

    def matched_lies(self, lie: float) -> interpolate.RectBivariateSpline:
        """D at levels from R/5 to R and at noises from 1/300 of R to 3R, by cubics, of more people than a plan has."""
        lengths, proportions = (tuple(part.tolist()) for part in representative(*self.spread, 24))
        return _matched_lies(self.study.beliefs, lengths, proportions, self.typical_noise, lie)


@lru_cache(maxsize=8)
def _matched_lies(
    beliefs: Beliefs, lengths: tuple[float, ...], proportions: tuple[float, ...], typical: float, lie: float
) -> interpolate.RectBivariateSpline:
    """Kept: several plans are for the same people."""
    levels, noises = np.linspace(0.2, 1, 12), np.geomspace(1 / 300, 3, 14)
    people = Deterrence(beliefs, np.array(lengths), np.array(proportions))
    table = people.matched_lies(lie, levels * beliefs.radius, noises * beliefs.radius / typical)
    return interpolate.RectBivariateSpline(levels, np.log(noises), table)


@dataclass(frozen=True, eq=False)
class Release:
    """What is asked of a plan with one release: the least error, cost, or product of cost and squared error."""

    people: People
    lie: float
    estimator: str = "instruments"
    budget: float = math.inf
    error: float = math.inf
    epsilon: float | None = None
    payments: str = "never-negative"
    rule: str = "quadratic"
    beta: float = 0.01
    slope: float = LEAST_SLOPE
    accuracy_of: str = "coefficients"

    @cached_property
    def matched(self) -> interpolate.RectBivariateSpline:
        return self.people.matched_lies(self.lie)

    def lies(self, s: Setting) -> Floats:
        if not s.clipped:
            return np.full(np.shape(s.alpha), self.lie)
        R = s.model.radius
        noise = noise_of(s) * self.people.typical_noise / R
        return np.asarray(self.matched.ev(np.asarray(s.reach) / R, np.log(np.clip(noise, 1 / 300, 3))))


def noise_of(s: Setting) -> Floats:
    """The scale of the noise in the released sum of answers."""
    kept = 1 - np.asarray(s.gram_share) if s.estimator == "noisy-statistics" else 1.0
    return np.asarray(2 * s.model.response_bound / (np.asarray(s.epsilon) * kept))


def typical_slope(people: People, s: Setting) -> Floats:
    """P(|u + e| ≤ R): e the noise along typical features, u the median deviation of the truth."""
    beliefs, d = people.study.beliefs, people.study.dimension
    u, scale = 0.6745 * math.sqrt(beliefs.prior.variance(d)), noise_of(s) * people.typical_noise
    law, R = L2Laplace(d, 1.0), beliefs.radius
    return np.asarray(law.marginal_cdf((R - u) / scale) - law.marginal_cdf((-R - u) / scale))


def release_at(q: Release, places: Floats) -> Setting:
    """Points of the unit cube as settings with the least payments: liars, ε, clip and the share of the matrix."""
    people, n = q.people, q.people.players
    k = np.round(np.exp(places[:, 0] * math.log(0.3 * n + 1)) - 1)
    epsilon = np.exp(math.log(1e-3) + places[:, 1] * math.log(1e4))
    s = Setting(
        model=model(people.study),
        costs=people.study.costs,
        n=n,
        alpha=k / n,
        epsilon=epsilon if q.epsilon is None else np.full(len(k), q.epsilon),
        clip=people.study.beliefs.radius * (0.2 + 0.8 * places[:, 2]),
        gram_share=0.01 + 0.98 * places[:, 3],
        beta=q.beta,
        estimator=q.estimator,
        rule=q.rule,
        payments=q.payments,
        privacy=people.study.declared.costs.privacy,
        rounding=1 / PAYMENT_STEPS,
        geometry=people.geometry,
    )
    D, g = q.lies(s), _gap(s)
    saved = proved.truthfulness(s.at(b=0.0))
    b = np.where(2 * g < D, saved / (D * (D - 2 * g)), np.inf)
    linear = 0.25 if q.rule == "brier" else 0.0
    return s.at(b=b, a=np.where(np.isfinite(b), b * (g**2 + linear) + saved, np.inf))


def release_cost_and_error(q: Release, s: Setting) -> tuple[Floats, Floats]:
    """What each setting costs and guarantees; infinite where a constraint fails."""
    cost = proved.budget_cap(s) if s.clipped else proved.budget(s)
    error = (proved.accuracy if q.accuracy_of == "coefficients" else proved.prediction_error)(s)
    useful = typical_slope(q.people, s) >= q.slope if s.clipped else np.ones(np.shape(s.alpha), dtype=bool)
    holds = useful & (cost <= q.budget) & (error <= q.error)
    return np.where(holds, cost, np.inf), np.where(holds, error, np.inf)


def search_release(q: Release, seed: int = 0) -> tuple[float, dict[str, float]]:
    """The least error if a budget alone is given, the least cost for an error, the least product with neither."""
    rng = np.random.default_rng(seed)
    places, width = rng.random((4 * DRAWS, 4)), 0.25
    best, values = places[:0], np.empty(0)
    for _ in range(ROUNDS):
        with np.errstate(all="ignore"):  # no liars and unbounded costs: an infinite threshold
            cost, error = release_cost_and_error(q, release_at(q, places))
            found = cost if q.error < math.inf else error if q.budget < math.inf else cost * error
        places = np.vstack([best, places])
        values = np.concatenate([values, np.nan_to_num(found, nan=np.inf, posinf=np.inf)])
        order = np.argsort(values, kind="stable")[:KEPT]
        best, values = places[order], values[order]
        steps = rng.normal(scale=width, size=(KEPT, DRAWS // KEPT, 4))
        places = np.clip(best[:, None, :] + steps, 0, 1).reshape(-1, 4)
        width *= SHRINK
    s = release_at(q, best[:1])
    names = ("alpha", "epsilon", "clip", "gram_share", "a", "b")
    return float(values[0]), {name: float(np.ravel(getattr(s, name))[0]) for name in names}


def _gap(s: Setting) -> Floats:
    return GAPS["instruments"](s) if s.estimator == "instruments" else proved.gap(s)
