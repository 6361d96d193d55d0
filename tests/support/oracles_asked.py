"""Studies that ask what the others will say, by plain numpy: what one person's payment depends on, drawn from its law.

Written from the theorems, apart from the code that is tested. Half the scale of answers is the unit. Everybody else is
refitted without her: no record is taken out of anything. Beliefs of numbers are normal, of shares uniform; these are
integrated over states of the world by quadrature, so that what somebody expects is exact and only the others' answers
and the noise are drawn.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy import stats

from support.asked import mechanism_of
from truthful.check import Floats
from truthful.moments import GRID, grid_features, instruments_on_grid
from truthful.noise import L2Laplace
from truthful.plan import Plan

Rng = np.random.Generator
Indices = npt.NDArray[np.int64]
NODES = 8


@dataclass(frozen=True, eq=False)
class Seen:
    """What decides one person's payment, one for each draw: p, the average answer, the surprise, not clipped."""

    weight: Floats
    p: Floats
    average: Floats
    surprise: Floats

    def mean(self, values: Floats) -> tuple[float, float]:
        """A mean over draws, and its standard error."""
        total = self.weight.sum()
        value = float(self.weight @ values / total)
        return value, float(np.sqrt(np.sum((self.weight * (values - value)) ** 2)) / total)


@dataclass(frozen=True, eq=False)
class Asked:
    """People with these features, whose common centre nobody declares; `liars` of them say and predict the ends."""

    plan: Plan
    x: Floats
    centre: float = 0.0
    liars: int = 0

    @cached_property
    def z(self) -> Floats:
        return instruments_on_grid(grid_features(self.x), mechanism_of(self.plan).transform) / GRID

    @cached_property
    def c(self) -> Floats:
        return np.asarray(self.x.mean(axis=0))

    @cached_property
    def effects(self) -> Floats:
        """The standard deviation of what a unit of each code changes: uniform on ±e/2, for a number or two levels."""
        levels = self.plan.study.levels
        assert levels is not None
        numbers, factors = list(levels.numbers), iter(levels.factors)
        for place in range(1, len(numbers)):
            numbers[place] = numbers[place] or next(factors)
        return np.array(numbers) / math.sqrt(12)

    @property
    def sure(self) -> float:
        levels = self.plan.study.levels
        assert levels is not None
        return levels.sure

    @cached_property
    def codes(self) -> Floats:
        """x − c as codes, without the intercept."""
        levels = self.plan.study.levels
        assert levels is not None
        return np.asarray((self.x - self.c)[:, 1:] * levels.scale)

    @cached_property
    def v(self) -> Floats:
        return np.asarray(self.sure**2 + self.codes**2 @ self.effects[1:] ** 2)

    def others(self, i: int, vector: Floats, predictions: Floats, weight: Floats, rng: Rng) -> Seen:
        """From Σζy and Σm over all others, a row and a number for each draw: noise is added, and her surprise found."""
        mechanism, n, d = mechanism_of(self.plan), len(self.x), self.x.shape[1]
        scale = 2 * math.sqrt(1 + mechanism.ratio**2) / mechanism.epsilon
        noise = L2Laplace(d + 1, scale).sample(rng, len(vector))
        keep = np.arange(n) != i
        M = self.z[keep].T @ self.x[keep]
        theta = np.linalg.solve(M, (vector + noise[:, :d]).T).T
        mean = (predictions + noise[:, d] / mechanism.ratio) / (n - 1)
        p = theta @ self.x[i]
        if mechanism.rule == "serum":
            return Seen(weight, p, theta @ self.c, p - mean)
        k = self.declared_slopes * self.sure**2 / self.v
        taken = (k[keep] @ self.x[keep]) / (n - 1)
        centre = (mean - theta @ taken) / (1 - k[keep].mean())
        return Seen(weight, p, theta @ self.c, p - centre)

    @cached_property
    def declared_slopes(self) -> Floats:
        """s of everybody as the mechanism has it."""
        levels = self.plan.study.levels
        assert levels is not None
        if levels.shares is None:
            return np.asarray(self.v / (self.v + (levels.spread or 0.0) ** 2))
        middle, parts = (levels.low + levels.high) / 2, levels.shares.levels - 1.0
        parts /= 1 + (parts - 1) * levels.shares.agreement
        return np.asarray(parts / (parts + (1 - middle**2) / self.v - 1))

    def _lies(self, i: int) -> Indices:
        """Those whose lies move most what is said of i, and which way."""
        keep = np.arange(len(self.x)) != i
        w = np.linalg.solve((self.z[keep].T @ self.x[keep]).T, self.x[i]) @ self.z.T
        w[i] = 0.0
        found = np.argsort(-np.abs(w))[: self.liars]
        return np.where(w[found] >= 0, 1, -1) * (found + 1)

    # Numbers

    def numbers(self, i: int, y: float, draws: int, rng: Rng) -> Seen:
        """Normal answers and beliefs: θ given her answer y, and sums over the others, which are normal given θ."""
        levels = self.plan.study.levels
        assert levels is not None
        sigma, n = levels.spread or 0.0, len(self.x)
        level = self.sure * rng.standard_normal(draws)
        delta = self.effects[1:] * rng.standard_normal((draws, len(self.effects) - 1))
        own = level + delta @ self.codes[i] + sigma * rng.standard_normal(draws)
        gain = (y - self.centre - own) / (self.v[i] + sigma**2)
        level += gain * self.sure**2
        delta += gain[:, None] * self.codes[i] * self.effects[1:] ** 2
        keep = np.arange(n) != i
        k = self.sure**2 / (self.v + sigma**2)
        said, lies = np.ones(n), self._lies(i)
        said[np.abs(lies) - 1] = 0.0
        told = keep * said
        # Σζy and Σm = Σ(μ + k(y − μ)) of those who tell the truth: means, and the covariance of the noise.
        rows = np.hstack([self.z, k[:, None]]) * told[:, None]
        mean = (level + self.centre)[:, None] * rows.sum(axis=0) + delta @ (self.codes.T @ rows)
        sums = mean + rng.multivariate_normal(np.zeros(rows.shape[1]), sigma**2 * rows.T @ rows, draws)
        vector = sums[:, :-1] + np.sign(lies) @ self.z[np.abs(lies) - 1]
        predictions = sums[:, -1] + self.centre * np.sum((1 - k) * told) - np.sign(lies).sum()
        return self.others(i, vector, predictions, np.ones(draws), rng)

    # Shares

    @cached_property
    def states(self) -> tuple[Floats, Floats]:
        """Averages of everybody's kind of people (a row for each state), and the probability of each state."""
        nodes, weights = np.polynomial.legendre.leggauss(NODES)
        axes = [self.sure * math.sqrt(3) * nodes, *(e * math.sqrt(3) * nodes for e in self.effects[1:])]
        grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
        chance = np.ones(1)
        for _ in axes:
            chance = np.outer(chance, weights / 2).ravel()
        return np.hstack([self.centre + grid[:, :1], grid[:, 1:]]), chance

    @cached_property
    def cells(self) -> tuple[Indices, Indices]:
        """The first person of each kind, and everybody's kind."""
        _, first, kind = np.unique(self.x, axis=0, return_index=True, return_inverse=True)
        return first.astype(np.int64), kind.ravel().astype(np.int64)

    @cached_property
    def chances(self) -> Floats:
        """Of each answer, by state, kind of people and answer."""
        shares = self.plan.study.shares
        assert shares is not None
        states, _ = self.states
        m = (1 + states[:, :1] + states[:, 1:] @ self.codes[self.cells[0]].T) / 2
        parts = shares.levels - 1
        if parts == 1 or shares.agreement == 0:
            return np.asarray(stats.binom.pmf(np.arange(parts + 1), parts, m[:, :, None]))
        w = 1 / shares.agreement - 1
        return np.asarray(
            stats.betabinom.pmf(np.arange(parts + 1), parts, m[:, :, None] * w, (1 - m[:, :, None]) * w)
        )

    @cached_property
    def predicted(self) -> Floats:
        """E[level | kind of people, answer]: what truthful people predict."""
        states, chance = self.states
        weights = chance[:, None, None] * self.chances
        return np.asarray(np.einsum("t,tck->ck", states[:, 0], weights) / weights.sum(axis=0))

    def shares(self, i: int, place: int, draws: int, rng: Rng) -> Seen:
        """So many draws of the others in every state, each counting as much as her answer makes it likely."""
        states, chance = self.states
        first, kind = self.cells
        answers = np.linspace(-1, 1, self.chances.shape[2])
        keep, lies = np.arange(len(self.x)) != i, self._lies(i)
        keep[np.abs(lies) - 1] = False
        counts = np.bincount(kind[keep], minlength=len(first))
        vector = np.zeros((len(states), draws, self.x.shape[1]))
        predictions = np.zeros((len(states), draws))
        for cell, person in enumerate(first):
            given = rng.multinomial(counts[cell], self.chances[:, cell], size=(draws, len(states)))
            given = np.swapaxes(given, 0, 1)
            vector += (given @ answers)[:, :, None] * self.z[person]
            predictions += given @ self.predicted[cell]
        vector += np.sign(lies) @ self.z[np.abs(lies) - 1]
        predictions -= np.sign(lies).sum()
        weight = np.repeat(chance * self.chances[:, kind[i], place], draws)
        return self.others(i, vector.reshape(-1, self.x.shape[1]), predictions.ravel(), weight, rng)


def payments(plan: Plan, s: float, seen: Seen, said: Floats) -> Floats:
    """What is paid for each answer (a column), predictions left out: the rule of the theorems, and its clauses."""
    mechanism = mechanism_of(plan)
    surprise = np.clip(seen.surprise, -mechanism.clip, mechanism.clip)[:, None]
    if mechanism.rule == "serum":
        score = said * surprise / mechanism.clip
    else:
        t = said - np.clip(seen.p, -1, 1)[:, None]
        score = 2 * s * (1 - s) * t * surprise - (s * t) ** 2
    low, high = mechanism.plausible
    score = np.where(((seen.average >= low) & (seen.average <= high))[:, None], score, 0.0)
    return np.asarray(mechanism.base_payment + mechanism.score_weight * score)
