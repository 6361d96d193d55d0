"""A slow twin of the planner: random points over every parameter, closing in on the best ones. No planner code."""

import math
from dataclasses import dataclass

import numpy as np

from truthful.bounds import Setting, proved, scales
from truthful.check import Floats
from truthful.guarantees import model
from truthful.noise import L2Laplace
from truthful.payments import PAYMENT_STEPS
from truthful.planner.goals import LEAST_SLOPE
from truthful.slope import stretch
from truthful.study import Study

MOST_PUBLIC = {"never-negative": 0.99, "expected": 0.9}
DRAWS, KEPT, ROUNDS, SHRINK = 6_000, 6, 14, 0.6
WORDS = ("alpha", "epsilon", "public_share", "gamma", "peer_gamma", "gram_share")


@dataclass(frozen=True)
class Question:
    """What is asked of a plan: the least error within a budget, or the least cost within an error (normalised)."""

    study: Study
    players: int
    pair: tuple[str, str]
    lie: float
    budget: float = math.inf
    error: float = math.inf
    payments: str = "never-negative"
    rule: str = "quadratic"
    beta: float = 0.01
    slope: float = LEAST_SLOPE
    accuracy_of: str = "coefficients"


def median_slope(study: Study, s: Setting) -> Floats:
    """P(|u + e| ≤ R): e the noise of a half along typical features, u the median deviation of the truth."""
    R, d = study.beliefs.radius, study.dimension
    u = 0.6745 * math.sqrt(study.beliefs.prior.variance(d))
    scale = scales.peer_scale(s, max(1, int(np.max(s.n)) // 2)) * stretch(study, s.peer_estimator)
    law = L2Laplace(d, 1.0)
    return np.asarray(law.marginal_cdf((R - u) / scale) - law.marginal_cdf((-R - u) / scale))


def least_paid(q: Question, s: Setting) -> Setting:
    """With the least payments: D = g + √(g² + τh/b) at the lie asked, then the base that joining and paying need.

    A ridge that shrinks own predictions shrinks what a lie moves: so the size asked for shrinks too.
    """
    D, g = np.full(np.shape(s.alpha), q.lie), proved.gap(s)
    if s.peer_estimator == "ridge-free":
        mu = np.asarray(s.n) / 2 * s.model.least_eigenvalue
        D = q.lie * mu / (s.half_gamma + mu)
    saved = proved.truthfulness(s.at(b=0.0))
    paid = s.at(b=np.where(2 * g < D, saved / (D * (D - 2 * g)), np.inf))
    least = proved.participation(paid)
    return paid.at(a=np.maximum(least, proved.payable(paid)) if s.clipped else least)


def cost_and_error(q: Question, s: Setting) -> tuple[Floats, Floats]:
    """What each setting costs and guarantees; infinite where a constraint fails."""
    paid = least_paid(q, s)
    cost = proved.budget_cap(paid) if paid.clipped else proved.budget(paid)
    error = proved.accuracy(s) if q.accuracy_of == "coefficients" else proved.prediction_error(s)
    useful = median_slope(q.study, s) >= q.slope if s.clipped else np.ones(np.shape(s.alpha), dtype=bool)
    holds = useful & (cost <= q.budget) & (error <= q.error)
    return np.where(holds, cost, np.inf), np.where(holds, error, np.inf)


def setting_at(q: Question, places: Floats) -> Setting:
    """Points of the unit cube, one row each, as settings: shares of liars are whole players, none included."""
    n = q.players
    k = np.round(np.exp(places[:, 0] * math.log(0.3 * n + 1)) - 1)
    return Setting(
        model=model(q.study),
        costs=q.study.costs,
        n=n,
        alpha=k / n,
        epsilon=np.exp(math.log(1e-5) + places[:, 1] * math.log(1e7)),
        public_share=np.clip(1 - np.exp(-5 * places[:, 2]), 1e-3, MOST_PUBLIC[q.payments]),
        gamma=np.exp(math.log(1e-2) + places[:, 3] * math.log(3e3 * n)),
        peer_gamma=np.exp(math.log(1e-2) + places[:, 4] * math.log(1e3 * n)),
        gram_share=0.01 + 0.98 * places[:, 5],
        beta=q.beta,
        estimator=q.pair[0],
        peer_estimator=q.pair[1],
        rule=q.rule,
        payments=q.payments,
        privacy=q.study.declared.costs.privacy,
        rounding=1 / PAYMENT_STEPS,
    )


def search(q: Question, seed: int = 0) -> tuple[float, dict[str, float]]:
    """The least error if a budget is given and no error, else the least cost; and where it was found."""
    rng, wanted = np.random.default_rng(seed), 1 if q.error == math.inf else 0
    places, width = rng.random((4 * DRAWS, len(WORDS))), 0.25
    best, values = places[:0], np.empty(0)
    for _ in range(ROUNDS):
        with np.errstate(all="ignore"):  # no liars and unbounded costs: an infinite threshold
            found = np.nan_to_num(cost_and_error(q, setting_at(q, places))[wanted], nan=np.inf, posinf=np.inf)
        places, values = np.vstack([best, places]), np.concatenate([values, found])
        order = np.argsort(values, kind="stable")[:KEPT]
        best, values = places[order], values[order]
        steps = rng.normal(scale=width, size=(KEPT, DRAWS // KEPT, len(WORDS)))
        places = np.clip(best[:, None, :] + steps, 0, 1).reshape(-1, len(WORDS))
        width *= SHRINK
    s = setting_at(q, best[:1])
    return float(values[0]), {name: float(np.ravel(getattr(s, name))[0]) for name in WORDS}
