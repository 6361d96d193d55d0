"""One release that protects answers, by plain numpy: influences, weights, gaps of single people and their worst liars.

Written from the theorems, apart from the code that is tested: everything follows from X, Z and M = ZᵀX. What a person
can expect of the others is drawn: θ given her answer, everybody's z, and who lies; only the mean over the privacy noise
is taken by its law.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from truthful.beliefs import Clipped
from truthful.bounds import Setting, proved
from truthful.check import Floats
from truthful.geometry import geometry
from truthful.guarantees import setting
from truthful.instruments import best_transform, shorten
from truthful.moments import GRID, Transform, grid_features, grid_responses, sums
from truthful.noise import L2Laplace
from truthful.one_release import OneRelease
from truthful.regression import fast_answer
from truthful.study import Study

Rng = np.random.Generator
Indices = npt.NDArray[np.int64]
#: Draws of z at a time.
CHUNK = 200


@dataclass(frozen=True, eq=False)
class Crowd:
    """People with these features, on the grid, and the mechanism that is run on them."""

    study: Study
    mechanism: OneRelease
    x: Floats
    alpha: float
    beta: float = 0.01

    @property
    def n(self) -> int:
        return len(self.x)

    @property
    def d(self) -> int:
        return int(self.x.shape[1])

    @cached_property
    def z(self) -> Floats:
        """ζ, on the grid: T in units of 2⁻¹⁰."""
        v = self.x @ np.array(self.mechanism.transform).T / 1024
        return grid_features(v / np.maximum(1.0, np.linalg.norm(v, axis=1))[:, None]) / GRID

    @cached_property
    def inverse(self) -> Floats:
        return np.asarray(np.linalg.inv(self.z.T @ self.x))

    @cached_property
    def influence(self) -> Floats:
        """Column j is how answer j moves θ̂."""
        return np.asarray(self.inverse @ self.z.T)

    @cached_property
    def h(self) -> Floats:
        return np.asarray(np.einsum("ij,ji->i", self.x, self.influence))

    @cached_property
    def r(self) -> Floats:
        return np.asarray(np.linalg.norm(self.x, axis=1))

    @property
    def scale(self) -> float:
        """s = 2Y/ε."""
        return 2 * self.study.beliefs.response_bound / self.mechanism.epsilon

    @cached_property
    def noise(self) -> Floats:
        """t_i."""
        return np.asarray(self.scale * np.linalg.norm(self.x @ self.inverse, axis=1) / (1 - self.h))

    @cached_property
    def setting(self) -> Setting:
        """What the bounds of the package depend on."""
        known = geometry(self.x, self.mechanism.transform)
        return setting(self.study, self.mechanism, self.n, self.alpha, self.beta, known)

    @property
    def truthful_error(self) -> float:
        """σ²‖B‖²_F + (d+1)s²‖M⁻¹‖²_F."""
        sampling = self.study.beliefs.noise_variance * np.sum(self.influence**2)
        return float(sampling + (self.d + 1) * self.scale**2 * np.sum(self.inverse**2))

    @property
    def kappa(self) -> float:
        """How many lie on average, at most."""
        return float(self.n * self.setting.above_threshold)

    @property
    def saved(self) -> float:
        """τh(ε), the most that a lie may save in privacy."""
        return float(proved.threshold(self.setting)) * self.study.privacy_cost(self.mechanism.epsilon)

    @cached_property
    def gaps(self) -> Floats:
        """g_i of everybody, by Theorem 9 of the derivation."""
        beliefs, c = self.study.beliefs, self.mechanism.clip
        A = self.x @ self.inverse
        v = (np.einsum("ij,ij->i", A @ (self.z.T @ self.z), A) - self.h**2) / (1 - self.h) ** 2
        law, t, sd = L2Laplace(self.d, 1.0), self.noise, math.sqrt(beliefs.noise_variance)
        S = 2 * law.marginal_cdf(c * self.r / t) - 1
        lies = 2 * beliefs.response_bound * np.minimum(self.kappa * t / self.scale, np.sqrt(self.kappa * v))
        second = np.minimum(S * sd * np.sqrt(v), float(law.marginal_pdf(0.0)) * sd**2 * v / t) / 2
        return np.asarray(np.minimum(S * lies + second, 2 * c * self.r))

    def weights(self, i: int) -> Floats:
        """w_ij of all j, 0 for herself."""
        w = self.x[i] @ self.influence / (1 - self.h[i])
        w[i] = 0.0
        return np.asarray(w)

    def theta_at_the_edge(self, rng: Rng) -> Floats:
        direction = rng.standard_normal(self.d)
        return np.asarray(self.study.beliefs.radius * direction / np.linalg.norm(direction))


def crowd(
    study: Study, X: Floats, epsilon: float, transform: Transform | float, alpha: float, clip: float = 1.0
) -> Crowd:
    """People with these features, and instruments of this transform, or of the best that shortens this share."""
    x = grid_features(X) / GRID
    if isinstance(transform, float | int):
        transform = shorten(x, best_transform(x), float(transform))
    c = clip * study.beliefs.radius
    return Crowd(
        study,
        OneRelease(epsilon=epsilon, base_payment=0.0, score_weight=1.0, clip=c, transform=transform),
        x,
        alpha,
    )


def errors(crowd: Crowd, rng: Rng, studies: int, liars: int = 0) -> Floats:
    """θ̂ − θ of many studies, estimated by the package, θ at the edge of its ball.

    So many liars, of greatest influence in one direction, say ±Y, to the side to which answers err anyhow.
    """
    beliefs, mechanism, kx = crowd.study.beliefs, crowd.mechanism, crowd.x * GRID
    who, signs, direction = worst(crowd, liars)
    found = np.empty((studies, crowd.d))
    answer = fast_answer(rng)
    for k in range(studies):
        theta, z = crowd.theta_at_the_edge(rng), beliefs.noise.sample(rng, crowd.n)
        y = crowd.x @ theta + z
        y[who] = (1 if direction @ (crowd.influence @ z) > 0 else -1) * signs * beliefs.response_bound
        added = sums(kx, grid_responses(y, beliefs.response_bound), mechanism.transform)
        [query] = mechanism.queries(added, beliefs)
        answers = [answer(query, Fraction(mechanism.epsilon))]
        found[k] = mechanism.estimate(answers, crowd.n, beliefs, added.matrix).theta - theta
    return found


def worst(crowd: Crowd, liars: int) -> tuple[Indices, Floats, Floats]:
    """Those who move θ̂ furthest in the direction in which the most influential are strongest; their signs; it."""
    if not liars:
        return np.zeros(0, np.int64), np.zeros(0), np.zeros(crowd.d)
    most = np.argsort(-np.linalg.norm(crowd.influence, axis=0))[:liars]
    direction = np.linalg.svd(crowd.influence[:, most], full_matrices=False)[0][:, 0]
    moved = direction @ crowd.influence
    who = np.argsort(-np.abs(moved))[:liars]
    return who, np.sign(moved[who]), np.asarray(direction)


class Pushed(NamedTuple):
    """What one person with one answer can expect, with liars who push her prediction to one side.

    q is her own prediction of her answer, p̄ what the others predict on average, `luck` its standard error.
    """

    person: int
    answer: float
    q: float
    expected: float
    luck: float

    @property
    def gap(self) -> float:
        return abs(self.expected - self.q)


def pushed(crowd: Crowd, people: Indices, shares: tuple[float, ...], rng: Rng, draws: int) -> list[Pushed]:
    """For each person and answer (as a share of its range), pushed up and down by κ liars of greatest weight on her."""
    beliefs, found = crowd.study.beliefs, []
    tops = [np.argsort(-np.abs(crowd.weights(int(i))))[: math.ceil(crowd.kappa)] for i in people]
    W = np.stack([crowd.weights(int(i)) for i in people], axis=1)
    for column, top in enumerate(tops):
        W[top, column] = 0.0
    others = np.concatenate(
        [
            beliefs.noise.sample(rng, rows * crowd.n).reshape(rows, crowd.n) @ W
            for rows in np.diff([*range(0, draws, CHUNK), draws])
        ]
    )
    for column, (i, top) in enumerate(zip(people, tops, strict=True)):
        w = crowd.weights(int(i))[top]
        for share in shares:
            answer = share * (beliefs.radius * crowd.r[i] + beliefs.noise_bound)
            theta = theta_given(crowd, crowd.x[i], answer, rng, draws)
            honest = theta @ crowd.x[top].T + beliefs.noise.sample(rng, draws * len(top)).reshape(draws, -1)
            # The last of them lies as often as makes κ on average.
            lies = np.ones((draws, len(top)), np.bool_)
            lies[:, -1:] = rng.random((draws, 1)) < crowd.kappa - (len(top) - 1)
            for side in (-1, 1):
                said = np.where(lies, side * np.sign(w) * beliefs.response_bound, honest)
                found.append(
                    _expected(
                        crowd, int(i), answer, theta, others[:, column] + (said - theta @ crowd.x[top].T) @ w
                    )
                )
    return found


def _expected(crowd: Crowd, i: int, answer: float, theta: Floats, off: Floats) -> Pushed:
    """E[p] = q + E[rψ(u + off/r) − rψ(u)], as q = E[rψ(u)]: both with the same θ, so that their luck is the same."""
    curve, r, u = Clipped(crowd.mechanism.clip, crowd.d), crowd.r[i], theta @ crowd.x[i] / crowd.r[i]
    scale = crowd.noise[i] / r
    moved = r * (curve(u + off / r, scale) - curve(u, scale))
    q = float(own(crowd, i, np.array([answer]))[0])
    return Pushed(i, answer, q, q + float(moved.mean()), float(moved.std() / math.sqrt(len(moved))))


def own(crowd: Crowd, i: int, reports: Floats) -> Floats:
    """Her own predictions for these reports."""
    curve, r = Clipped(crowd.mechanism.clip, crowd.d), np.full(len(reports), crowd.r[i])
    return crowd.study.beliefs.prediction(r, reports, curve, crowd.noise[i] / r)


def theta_given(crowd: Crowd, x: Floats, answer: float, rng: Rng, draws: int) -> Floats:
    """θ given x and y: θ·x/‖x‖ by its density on a grid, and the rest of θ evenly over what is left of its ball."""
    beliefs, r, d, R = crowd.study.beliefs, float(np.linalg.norm(x)), crowd.d, crowd.study.beliefs.radius
    u = np.linspace(-R, R, 8001)
    density = (1 - (u / R) ** 2) ** ((d - 1) / 2) * beliefs.noise.density(answer - r * u)
    total = np.cumsum(density)
    along = np.interp(rng.random(draws), total / total[-1], u)
    if d == 1:
        return np.asarray(along[:, None] * x / r)
    across = rng.standard_normal((draws, d))
    across -= np.outer(across @ x, x) / r**2
    across *= (
        np.sqrt(R**2 - along**2) * rng.random(draws) ** (1 / (d - 1)) / np.linalg.norm(across, axis=1)
    )[:, None]
    return np.asarray(np.outer(along, x / r) + across)


def mean_slope(crowd: Crowd, i: int, answer: float, rng: Rng, draws: int = 4000) -> float:
    """E[ψ'(u) | x, y] = P(|ru + e| ≤ cr | x, y): how often what the others predict is not clipped."""
    curve, r = Clipped(crowd.mechanism.clip, crowd.d), crowd.r[i]
    u, step = theta_given(crowd, crowd.x[i], answer, rng, draws) @ crowd.x[i] / r, 1e-4
    scale = crowd.noise[i] / r
    return float(np.mean(curve(u + step, scale) - curve(u - step, scale)) / (2 * step))


def furthest_paying(crowd: Crowd, b: float, all_pushed: list[Pushed], reports: int = 161) -> float:
    """The furthest that a lie which pays moves anybody's own prediction, if every lie saves all that it may."""
    furthest, beliefs = 0.0, crowd.study.beliefs
    for one in all_pushed:
        edge = beliefs.radius * crowd.r[one.person] + beliefs.noise_bound
        said = np.linspace(-edge, edge, reports)
        q = own(crowd, one.person, said)
        gain = b * ((one.expected - one.q) ** 2 - (one.expected - q) ** 2)
        pays = gain + np.where(said == one.answer, 0.0, crowd.saved) > 0
        furthest = max(furthest, float(np.abs(q - one.q)[pays].max(initial=0.0)))
    return furthest


def with_payments(crowd: Crowd, lie: float) -> Crowd:
    """The score weight with which no lie beyond this size pays: b = τh(ε)/(D² − 2Dg)."""
    g = float(proved.gap(crowd.setting))
    mechanism = replace(crowd.mechanism, base_payment=0.0, score_weight=crowd.saved / (lie**2 - 2 * lie * g))
    return replace(crowd, mechanism=mechanism)
