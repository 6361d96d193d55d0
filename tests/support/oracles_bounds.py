"""Worlds in which every bound is tried, and what the worst liars do there: the mechanism of many runs at once.

Each function here is a plain twin of the package's; `test_bounds_gap.py` ties them to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from support.studies import DESIGNED
from truthful.beliefs import Beliefs
from truthful.beliefs.laws import IDENTITY, Clipped, Curve
from truthful.bounds import Model, Setting
from truthful.bounds.setting import Numbers, gram_floor, gram_scale, noise_scale
from truthful.check import Floats
from truthful.costs import ParetoCosts
from truthful.guarantees import model
from truthful.noise import L2Laplace
from truthful.study import Study

COSTS = ParetoCosts(tail=2.0, scale=0.05)
SIX = 6.0

Rng = np.random.Generator


@dataclass(frozen=True, eq=False)
class World:
    """A study, and a law of its features."""

    study: Study
    draw: Callable[[Rng, int], Floats]

    @property
    def model(self) -> Model:
        return model(self.study)

    @property
    def beliefs(self) -> Beliefs:
        return self.study.beliefs

    @property
    def dimension(self) -> int:
        return self.study.dimension

    @property
    def inverse(self) -> Floats:
        """Σ⁻¹; of the corners of a cube if the study does not know it."""
        Sigma = self.study.second_moments
        if Sigma is None:
            return np.eye(self.dimension) * self.dimension
        return np.asarray(np.linalg.inv(Sigma), dtype=np.float64)

    def people(self, rng: Rng, runs: int, n: int, theta: Floats) -> tuple[Floats, Floats]:
        """Features and true answers: y = θ·x + z."""
        X = self.draw(rng, runs * n).reshape(runs, n, self.dimension)
        z = self.beliefs.noise.sample(rng, runs * n).reshape(runs, n)
        return X, X @ theta + z

    def farthest(self) -> Floats:
        """Features of the greatest weight xᵀΣ⁻¹x, of a large sample and the first unit vector."""
        X = np.vstack([self.draw(np.random.default_rng(0), 2000), np.eye(self.dimension)[:1]])
        if self.study.design.kind != "unit-ball":
            X = X[:-1]
        return np.asarray(X[np.argmax(np.einsum("nd,de,ne->n", X, self.inverse, X))])

    def worst_theta(self) -> Floats:
        """The θ of norm R at which the sampling error of a known design is largest: an eigenvector."""
        total = np.zeros((self.dimension, self.dimension))
        if self.study.second_moments is not None:
            for w in self.inverse.T:
                total += self.study.weighted_moments(w)
        return np.asarray(self.beliefs.radius * np.linalg.eigh(total)[1][:, -1])


def _text(features: str, design: str, beliefs: str) -> str:
    head = 'name = "W"\ncurrency = "EUR"\nintercept = false\n[response]\nname = "y"\nlow = -1\nhigh = 1\n'
    costs = '[costs]\nkind = "pareto"\ntail = 2.0\nscale = 0.05\n'
    return f"{head}{features}[design]\n{design}\n[beliefs]\n{beliefs}\n{costs}"


def _ball(d: int, beliefs: str) -> World:
    names = "".join(f'[[features]]\nname = "x{j}"\n' for j in range(d))
    study = Study.parse(_text(names, 'kind = "unit-ball"', beliefs))
    return World(study, lambda rng, size: study.normalise(study.sample_features(rng, size)))


def _corners(d: int, design: str) -> World:
    """Features at the corners of a cube: no law of these second moments has more weight in its features."""
    names = "".join(f'[[features]]\nname = "x{j}"\nlow = -1\nhigh = 1\n' for j in range(d))
    study = Study.parse(_text(names, design, "radius = 0.8\nnoise_bound = 0.4"))
    return World(study, lambda rng, size: np.asarray((rng.integers(0, 2, (size, d)) * 2.0 - 1) / d**0.5))


@cache
def world(name: str) -> World:
    """The spread: dimensions 1 to 10, all designs, both priors, both noises, small and large R and M."""
    if name == "uniform":
        study = Study.parse(DESIGNED)
        return World(study, lambda rng, size: study.normalise(study.sample_features(rng, size)))
    identity = str((np.eye(3) / 3).tolist())
    makers: dict[str, Callable[[], World]] = {
        "ball 1": lambda: _ball(1, 'radius = 0.5\nnoise_bound = 1.0\nnoise = "uniform"'),
        "ball 2": lambda: _ball(2, "radius = 1.0\nnoise_bound = 1.0"),
        "ball 5": lambda: _ball(5, 'radius = 2.0\nnoise_bound = 0.5\nprior = "normal"\nprior_sd = 0.7'),
        "ball 10": lambda: _ball(10, 'radius = 0.7\nnoise_bound = 0.3\nnoise = "uniform"'),
        "covariance": lambda: _corners(3, f'kind = "covariance"\nmatrix = {identity}'),
        "observed": lambda: _corners(3, f'kind = "observed"\nleast_eigenvalue = {1 / 3}'),
    }
    return makers[name]()


BALLS = ("ball 1", "ball 2", "ball 5", "ball 10")
DESIGNS = (*BALLS, "uniform", "covariance")


def setting(where: World, **numbers: Numbers | str) -> Setting:
    """The setting of a bound: everyday numbers, but for those given."""
    usual: dict[str, Numbers | str] = {
        "n": 1000,
        "epsilon": 1.0,
        "alpha": 0.0,
        "beta": 0.01,
        "b": 0.5,
        "a": 3.0,
    }
    return Setting(model=where.model, costs=COSTS, **{**usual, **numbers})  # type: ignore[arg-type]


# Estimates without privacy noise, for all runs at once


def fitted(estimator: str, where: World, X: Floats, y: Floats, gamma: float = math.nan) -> Floats:
    """θ̂ of every run, before noise is added."""
    cross = np.einsum("knd,kn->kd", X, y)
    if estimator == "known-design":
        return np.asarray(cross / X.shape[1] @ where.inverse)
    values, vectors = np.linalg.eigh(X.transpose(0, 2, 1) @ X)
    along = np.einsum("kdj,kd->kj", vectors, cross)
    penalty = np.full((len(X), 1), gamma if estimator.startswith("ridge") else 0.0)
    if estimator == "ridge-ball":  # the least penalty from γ on that brings the minimiser into the ball
        low, high = penalty, penalty + np.linalg.norm(cross, axis=1, keepdims=True) / where.beliefs.radius
        for _ in range(60):
            middle = (low + high) / 2
            outside = np.linalg.norm(along / (values + middle), axis=1, keepdims=True) > where.beliefs.radius
            low, high = np.where(outside, middle, low), np.where(outside, high, middle)
        inside = np.linalg.norm(along / (values + penalty), axis=1, keepdims=True) <= where.beliefs.radius
        penalty = np.where(inside, penalty, high)
    return np.asarray(np.einsum("kdj,kj->kd", vectors, along / (values + penalty)))


def influence(estimator: str, where: World, X: Floats, gamma: float = math.nan) -> Floats:
    """The matrix M of every run with ∂θ̂/∂y_j = M x_j, of unconstrained estimates without noise."""
    if estimator == "known-design":
        return np.broadcast_to(where.inverse / X.shape[1], (len(X), *where.inverse.shape))
    penalty = gamma if estimator.startswith("ridge") else 0.0
    return np.asarray(np.linalg.inv(X.transpose(0, 2, 1) @ X + penalty * np.eye(X.shape[2])))


def worst_reports(where: World, X: Floats, y: Floats, w: Floats, liars: int) -> Floats:
    """The k reports that push Σ_j (x_j·w)y_j up the most, by people who know all features and answers: ±Y."""
    if liars == 0:
        return y
    Y, weight = where.beliefs.response_bound, np.einsum("knd,kd->kn", X, w)
    chosen = np.argpartition(weight * y - np.abs(weight) * Y, liars - 1, axis=1)[:, :liars]
    lied = y.copy()
    np.put_along_axis(lied, chosen, Y * np.sign(np.take_along_axis(weight, chosen, 1)), 1)
    return lied


def symmetric_noise(rng: Rng, runs: int, d: int, scale: float) -> Floats:
    """N with density ∝ exp(−‖N‖_F/scale) on the symmetric matrices."""
    rows, columns = np.triu_indices(d)
    v = L2Laplace(len(rows), scale).sample(rng, runs) / np.where(rows == columns, 1.0, math.sqrt(2))
    N = np.zeros((runs, d, d))
    N[:, rows, columns] = v
    N[:, columns, rows] = v
    return N


def floored_inverse(G: Floats, floor: float) -> Floats:
    values, vectors = np.linalg.eigh(G)
    return np.asarray(np.einsum("kij,kj,klj->kil", vectors, 1 / np.maximum(values, floor), vectors))


# What is observed of the quantities that bounds bound


def errors(
    where: World, s: Setting, theta: Floats, rng: Rng, runs: int, toward: Floats | None = None
) -> Floats:
    """θ̂ − θ of the published estimate in many runs, the worst αn people lying.

    They push along `toward` (by default against θ), and then, three times, along what they have achieved.
    """
    n, gamma = int(s.n), float(s.gamma)
    X, y = where.people(rng, runs, n, theta)
    M, reports = influence(s.estimator, where, X, gamma), y
    push = np.broadcast_to(-theta if toward is None else toward, (runs, len(theta)))
    for _ in range(4 if s.alpha else 0):
        w = np.einsum("kij,kj->ki", M, push)
        reports = worst_reports(where, X, y, w, math.floor(float(s.alpha) * n + 1e-9))
        push = fitted(s.estimator, where, X, reports, gamma) - theta
    v = L2Laplace(where.dimension, float(noise_scale(s, s.n))).sample(rng, runs)
    if s.estimator == "noisy-statistics":
        scale = float(gram_scale(s, n))
        G = X.transpose(0, 2, 1) @ X / n + symmetric_noise(rng, runs, where.dimension, scale)
        inverse = floored_inverse(G, float(gram_floor(s)))
        return np.asarray(
            np.einsum("kij,kj->ki", inverse, np.einsum("knd,kn->kd", X, reports) / n + v) - theta
        )
    stretch = where.inverse if s.estimator == "known-design" else np.eye(where.dimension)
    return np.asarray(fitted(s.estimator, where, X, reports, gamma) + v @ stretch - theta)


def mean_and_error(values: Floats) -> tuple[float, float]:
    """The mean, and its standard error."""
    return float(values.mean()), float(values.std() / math.sqrt(len(values)))


def squares(vectors: Floats) -> tuple[float, float]:
    """The mean of ‖·‖² over the runs, and its standard error."""
    return mean_and_error(np.sum(vectors**2, axis=1))


# One release, and what everybody else says of the first of n people


def curve(s: Setting) -> Curve:
    return Clipped(float(s.reach), s.model.dimension) if s.clipped else IDENTITY


def inverses(where: World, s: Setting, X: Floats, rng: Rng) -> Floats:
    """M⁻¹ of every run: of n·Σ, or of the noisy Σ x xᵀ with its floor."""
    n, d = X.shape[1], where.dimension
    if s.estimator == "known-design":
        return np.broadcast_to(where.inverse / n, (len(X), d, d))
    noise = symmetric_noise(rng, len(X), d, n * float(gram_scale(s, n)))
    return floored_inverse(X.transpose(0, 2, 1) @ X + noise, n * float(gram_floor(s)))


def left_out(s: Setting, X: Floats, y: Floats, inverse: Floats) -> tuple[Floats, Floats]:
    """What is predicted of the first of n people without her, before noise, and the scale of the noise in that.

    p = (x·θ̂ − hy)/(1 − h), and n/(n−1) for 1/(1 − h) where the matrix is declared.
    """
    n, x = X.shape[1], X[:, 0]
    w = np.einsum("kij,kj->ki", inverse, x)
    h = np.einsum("ki,ki->k", w, x)
    kept = (n - 1) / n if s.estimator == "known-design" else 1 - h
    b = np.einsum("knd,kn->kd", X, y)
    scale = n * float(noise_scale(s, s.n)) * np.linalg.norm(w, axis=1) / kept
    return (np.einsum("ki,ki->k", w, b) - h * y[:, 0]) / kept, scale


def given_answer(where: World, x: Floats, y: float, rng: Rng, runs: int) -> Floats:
    """θ from the prior given y = θ·x + z: draws of the prior, drawn again by the density of z."""
    theta = where.beliefs.prior.sample(rng, where.dimension, 50 * runs)
    weight = where.beliefs.noise.density(y - theta @ x)
    return np.asarray(theta[rng.choice(len(theta), runs, p=weight / weight.sum())])


def lied(where: World, s: Setting, X: Floats, y: Floats, inverse: Floats, rng: Rng, toward: float) -> Floats:
    """Reports: as many of the others lie as have costs above τ, those of most weight along the first's x."""
    w = toward * np.einsum("kij,kj->ki", inverse, X[:, 0])
    liars, reports = rng.binomial(X.shape[1] - 1, float(s.above_threshold), len(X)), y.copy()
    for k in np.unique(liars):
        runs = liars == k
        reports[runs, 1:] = worst_reports(where, X[runs, 1:], y[runs, 1:], w[runs], int(k))
    return reports


@dataclass(frozen=True, eq=False)
class Scored:
    """A player in many studies: x·θ, what is predicted of her before noise, if all tell the truth too; the noise."""

    r: float
    truth: Floats
    honest: Floats
    p: Floats
    scale: Floats

    def gaps(self, s: Setting) -> Floats:
        """p − ‖x‖ψ(u) averaged over the noise; the mean given x and her answer is p̄ − q."""
        psi, r = curve(s), self.r
        return np.asarray(r * (psi(self.p / r, self.scale / r) - psi(self.truth / r, self.scale / r)))

    def gap(self, s: Setting) -> tuple[float, float]:
        """Its mean and standard error. What truthful people err has mean zero, and is taken out by regression."""
        values, sampling = self.gaps(s), self.honest - self.truth
        return mean_and_error(values - np.cov(values, sampling)[0, 1] / sampling.var() * sampling)


def scored(where: World, s: Setting, x: Floats, theta: Floats, answer: float, rng: Rng) -> Scored:
    """One run for every θ: the player holds x and this answer, liars push against x·θ."""
    n, runs = int(s.n), len(theta)
    X = where.draw(rng, runs * n).reshape(runs, n, where.dimension)
    X[:, 0] = x
    y = np.einsum("knd,kd->kn", X, theta) + where.beliefs.noise.sample(rng, runs * n).reshape(runs, n)
    y[:, 0] = answer
    inverse, truth = inverses(where, s, X, rng), theta @ x
    p, scale = left_out(s, X, lied(where, s, X, y, inverse, rng, -float(np.sign(truth.mean()))), inverse)
    return Scored(float(np.linalg.norm(x)), truth, left_out(s, X, y, inverse)[0], p, scale)
