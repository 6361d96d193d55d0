"""Own predictions by table, and Algorithm 1 next to one X.T @ X of the same array.

python benchmarks/predictions.py [PLAYERS]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from statistics import median

import numpy as np
from measure import Row, interleaved, ratio

from truthful import regression
from truthful.beliefs import IDENTITY, Beliefs, Clipped, Curve, TruncatedNormal, UniformBall, UniformNoise
from truthful.beliefs.table import PredictionTable, prediction_table
from truthful.check import Floats

FEATURES, ROUNDS, TILE = 10, 9, 16_384
QUESTIONS, CHECKED = 2_000_000, 3_000
BELIEFS = Beliefs(FEATURES, UniformBall(1.0), TruncatedNormal(1.0, 0.5))
UNIFORM = Beliefs(FEATURES, UniformBall(1.0), UniformNoise(1.0))


@dataclass(frozen=True, eq=False)
class Case:
    """Players, the table that answers them, and how long it may take for one, in nanoseconds on two threads."""

    name: str
    beliefs: Beliefs
    curve: Curve
    table: PredictionTable
    r: Floats
    y: Floats
    scale: Floats
    at_most: float | None

    def answer(self, workers: int) -> Callable[[], None]:
        """All of them, in tiles, on so many threads."""
        out, pool = np.empty(len(self.r)), ThreadPoolExecutor(workers)

        def tile(start: int) -> None:
            part = slice(start, start + TILE)
            self.table(self.r[part], self.y[part], self.scale[part], out[part])

        return lambda: list(pool.map(tile, range(0, len(out), TILE))).clear()

    def error(self) -> float:
        """The largest distance from direct quadrature, for reports anywhere between the edges."""
        r, scale = self.r[:CHECKED], self.scale[:CHECKED]
        edge = self.beliefs.radius * r + self.beliefs.noise_bound
        y = np.random.default_rng(1).uniform(-1, 1, CHECKED) * edge
        return float(np.abs(self.table(r, y, scale) - self.beliefs.prediction(r, y, self.curve, scale)).max())

    def rows(self, alone: float, together: float) -> list[Row]:
        """Nanoseconds a player on one and two threads, from seconds for all of them; and the error."""
        one, two = 1e9 * alone / QUESTIONS, 1e9 * together / QUESTIONS
        note = f"{1e3 / two:.0f} million players a second"
        return [
            Row(f"own prediction, {self.name}, one thread", one, "ns a player"),
            Row(f"own prediction, {self.name}, two threads", two, "ns a player", self.at_most, note=note),
            Row(f"own prediction, {self.name}: error", 1e10 * self.error(), "· 1e-10", 10, 1),
        ]


def case(name: str, beliefs: Beliefs, curve: Curve, low: float, high: float, at_most: float | None) -> Case:
    """Players of uniform features who tell the truth, and peer noise of scales in [low, high]."""
    rng = np.random.default_rng(0)
    r, u = rng.random(QUESTIONS) ** (1 / FEATURES), beliefs.prior.sample(rng, FEATURES, QUESTIONS)[:, 0]
    y, scale = r * u + beliefs.noise.sample(rng, QUESTIONS), rng.uniform(low, high, QUESTIONS)
    return Case(name, beliefs, curve, prediction_table(beliefs, curve, low, high), r, y, scale, at_most)


def own_predictions() -> list[Row]:
    """Three kinds that studies ask for."""
    clipped = Clipped(1.0, FEATURES)
    cases = (
        case("one scale of the peer noise", BELIEFS, clipped, 0.1, 0.1, at_most=20.0),
        case("scales from 0.05 to 0.2", BELIEFS, clipped, 0.05, 0.2, at_most=None),
        case("uniform response noise", UNIFORM, IDENTITY, 0.0, 0.0, at_most=50.0),
    )
    works = {f"{one.name}{workers}": one.answer(workers) for one in cases for workers in (1, 2)}
    interleaved(works, 1)
    seconds = {name: median(times) for name, times in interleaved(works, ROUNDS).items()}
    return [
        row for one in cases for row in one.rows(*(seconds[f"{one.name}{workers}"] for workers in (1, 2)))
    ]


def data(players: int) -> tuple[Floats, Floats]:
    """Features uniform on the unit ball, and true responses."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((players, FEATURES))
    X *= (rng.random(players) ** (1 / FEATURES) / np.sqrt(np.einsum("ij,ij->i", X, X)))[:, None]
    theta = BELIEFS.prior.sample(rng, FEATURES, 1)[0]
    return X, X @ theta + BELIEFS.noise.sample(rng, players)


def algorithm_1(players: int) -> list[Row]:
    """All fits without one, and all payments; and the same where the table of own predictions is not there yet."""
    X, y = data(players)

    def pay() -> None:
        regression.truthful_regression(X, y, BELIEFS, a=1.0, b=1.0)

    def pay_for_the_first_time() -> None:
        regression._own_predictor.cache_clear()
        pay()

    works = {"sums": lambda: X.T @ X, "first": pay_for_the_first_time, "again": pay}
    interleaved(works, 1)
    seconds = interleaved(works, ROUNDS)
    name = f"Algorithm 1, {players:,} × {FEATURES}, all payments"
    return [
        Row(f"{name} ÷ `X.T @ X`", ratio(seconds, "again", "sums"), at_most=4, aim=3),
        Row(f"{name}, with its table ÷ `X.T @ X`", ratio(seconds, "first", "sums")),
    ]


def rows(players: int = 10_000_000) -> list[Row]:
    """Everything."""
    return own_predictions() + algorithm_1(players)


if __name__ == "__main__":
    for row in rows(*map(int, sys.argv[1:])):
        print(f"{row.work:70} {row.found:8.2f} {row.unit:12} {row.note}")
