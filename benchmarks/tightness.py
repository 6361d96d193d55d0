"""How tight the proved bounds are: each bound over what a simulation with the worst liars observes.

    python benchmarks/tightness.py [--write]

Prints a table; with --write it goes into docs/theory.md, between its markers. The simulations are those of the tests.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests"))

from support.oracles_bounds import COSTS, Rng, World, errors, scored, setting, world  # noqa: E402

from truthful.bounds import Setting, proved  # noqa: E402
from truthful.bounds.setting import expected_pull  # noqa: E402
from truthful.bounds.spectrum import greatest_spectrum, least_spectrum  # noqa: E402
from truthful.check import Floats  # noqa: E402
from truthful.guarantees import setting as setting_of  # noqa: E402
from truthful.moments import grid_features, grid_responses, sums  # noqa: E402
from truthful.one_release import OneRelease, paymaster  # noqa: E402
from truthful.regression import fast_answer  # noqa: E402

PAGE = ROOT / "docs" / "theory.md"
BEGIN, END = "<!-- tightness: made by benchmarks/tightness.py --write -->\n", "<!-- end of tightness -->\n"
PLACES = {
    "ball 2": "ball, d = 2",
    "ball 5": "ball, d = 5",
    "ball 10": "ball, d = 10",
    "uniform": "uniform, d = 4",
    "observed": "observed, d = 3",
}
N, RUNS, BATCH = 10_000, 600, 25


@dataclass(frozen=True)
class Row:
    """One line of the table; `observe` simulates: one number, or many whose mean counts."""

    what: str
    where: str
    bound: float
    observe: Callable[[], Floats]
    least: bool = False
    """Whether the bound is from below."""


def rows() -> Iterator[Row]:
    """All lines, the bounds computed, nothing simulated yet."""
    yield from spectra()
    yield chance_of_a_miss()
    yield from pulls()
    yield from gap_rows()
    yield from accuracy_rows()
    yield from bill_rows()


def spectra() -> Iterator[Row]:
    for name in ("ball 5", "uniform"):
        where = world(name)

        def quantile(column: int, share: float, where: World = where) -> Floats:
            X = where.draw(np.random.default_rng(1), 4000 * 500).reshape(4000, 500, where.dimension)
            values = np.linalg.eigvalsh(X.transpose(0, 2, 1) @ X)[:, column]
            return np.quantile(values, [share])

        place = f"{PLACES[name]}, n = 500, β = 0.01"
        low, high = (
            float(least_spectrum(where.model, 500, 0.01)),
            float(greatest_spectrum(where.model, 500, 0.01)),
        )
        yield Row("λ<sub>min</sub>(XᵀX)", place, low, lambda quantile=quantile: quantile(0, 0.01), least=True)
        yield Row("λ<sub>max</sub>(XᵀX)", place, high, lambda quantile=quantile: quantile(-1, 0.99))


def chance_of_a_miss() -> Row:
    def observe() -> Floats:
        tau = float(proved.threshold(setting(world("ball 2"), n=1000, alpha=0.02, beta=0.01)))
        costs = COSTS.sample(np.random.default_rng(2), 20_000 * 1000).reshape(20_000, 1000)
        return (np.sum(costs > tau, axis=1) > 20).astype(np.float64)

    return Row("chance of over αn costs above τ", "n = 1000, α = 0.02", 0.01, observe)


def pulls() -> Iterator[Row]:
    for name in ("ball 2", "ball 10", "uniform"):
        where = world(name)

        def observe(where: World = where) -> Floats:
            weights = np.abs(
                where.draw(np.random.default_rng(3), 400_000) @ (where.inverse @ where.farthest())
            )
            return np.array([np.sort(weights)[-4000:].sum() / 400_000])

        yield Row(
            "pull of α liars along x",
            f"{PLACES[name]}, α = 0.01",
            float(expected_pull(where.model, 0.01)),
            observe,
        )


def gap_rows() -> Iterator[Row]:
    cases = [
        ("known-design", "ball 2", 1.0),
        ("known-design", "uniform", 1.0),
        ("known-design", "ball 10", 1.0),
        ("noisy-statistics", "observed", 4.0),
        ("noisy-statistics", "ball 5", 4.0),
    ]
    for estimator, name, epsilon in cases:
        for payments, alpha in (("expected", 0.01), ("never-negative", 0.01), ("never-negative", 0.0)):
            s = setting(
                world(name),
                n=N,
                epsilon=epsilon,
                alpha=alpha,
                estimator=estimator,
                payments=payments,
            )
            x = world(name).farthest()
            beliefs = world(name).beliefs
            theta = np.tile(beliefs.radius * x / np.linalg.norm(x), (BATCH, 1))
            furthest = beliefs.radius * float(np.linalg.norm(x)) + beliefs.noise_bound
            text = f"{PLACES[name]}, ε = {epsilon:g}, α = {alpha:g}"
            kind = "clipped" if s.clipped else "unclipped"

            def observe(
                s: Setting = s, name: str = name, x: Floats = x, theta: Floats = theta, y: float = furthest
            ) -> Floats:
                simulated = batches(
                    lambda rng: scored(world(name), s, x, theta, y, rng).gaps(s), 4 if s.alpha else 40
                )
                return simulated * np.sign(simulated.mean())

            yield Row(f"gap, `{estimator}`, {kind}", text, float(proved.gap(s)), observe)


def accuracy_rows() -> Iterator[Row]:
    cases = [
        ("known-design", "ball 2", 1.0),
        ("known-design", "uniform", 1.0),
        ("known-design", "ball 10", 1.0),
        ("ridge-ball", "ball 2", 1.0),
        ("ridge-free", "ball 5", 1.0),
        ("noisy-statistics", "observed", 4.0),
        ("noisy-statistics", "ball 5", 4.0),
    ]
    for estimator, name, epsilon in cases:
        for alpha in (0.0, 0.01):
            where = world(name)
            s = setting(where, n=N, epsilon=epsilon, alpha=alpha, gamma=100.0, estimator=estimator)

            def observe(s: Setting = s, where: World = where) -> Floats:
                found = batches(lambda rng: errors(where, s, where.worst_theta(), rng, BATCH), RUNS // BATCH)
                return np.sum(found**2, axis=1)

            text = f"{PLACES[name]}, ε = {epsilon:g}, α = {alpha:g}"
            yield Row(f"mean squared error, `{estimator}`", text, float(proved.accuracy(s)), observe)


def bill_rows() -> Iterator[Row]:
    where, n, runs = world("ball 2"), 2000, 100
    m = OneRelease(
        epsilon=0.5,
        base_payment=0.3,
        score_weight=1.0,
        clip=1.0,
        estimator="known-design",
        design=where.study.second_moments,
    )
    s = setting_of(where.study, m, n, 0.01, 0.01)

    def totals(edge: bool) -> Floats:
        rng, paid = np.random.default_rng(4), []
        for theta in where.beliefs.prior.sample(rng, 2, runs):
            theta = theta / np.linalg.norm(theta) if edge else theta
            X, y = (values[0] for values in where.people(rng, 1, n, theta))
            liars = np.argsort(-np.abs(X @ theta))[: n // 100]
            y[liars] = where.beliefs.response_bound * np.sign(X[liars] @ theta)
            kx, ky = grid_features(X), grid_responses(y, where.beliefs.response_bound)
            estimate = m.release(sums(kx, ky, None), where.beliefs, fast_answer(rng))
            paid.append(paymaster(m, where.beliefs, estimate, n).score_players(kx, ky).payment.sum())
        return np.array(paid)

    text = f"{PLACES['ball 2']}, n = {n}, ε = 0.5, α = 0.01, a = 0.3b"
    yield Row("expected bill", text, float(proved.budget(s)), lambda: totals(False))
    yield Row(
        "likely bill",
        f"{text}, ‖θ‖ = R, β = 0.01",
        float(proved.likely_budget(s)),
        lambda: totals(True).max(keepdims=True),
    )
    yield Row(
        "cap of the bill",
        f"{text}, ‖θ‖ = R",
        float(proved.budget_cap(s)),
        lambda: totals(True).max(keepdims=True),
    )


def batches(simulate: Callable[[Rng], Floats], count: int) -> Floats:
    """Many runs, a few at a time, so that they fit into memory."""
    return np.concatenate([simulate(np.random.default_rng(100 + k)) for k in range(count)])


def line(row: Row, simulated: Floats | None = None) -> str:
    """A row of the table; without a simulation, only its beginning."""
    start = f"| {row.what} | {row.where} | {row.bound:.4g} |"
    if simulated is None:
        return start
    observed, error = float(simulated.mean()), float(simulated.std() / len(simulated) ** 0.5)
    ratio = observed / row.bound if row.least else row.bound / observed
    shown = f"{ratio:.2f}" if observed > 3 * error else "–"
    return f"{start} {observed:.4g}{f' ± {error:.1g}' if error else ''} | {shown} |"


def table() -> str:
    """The whole table; takes a minute or two."""
    head = ["| bound on | setting | bound | observed | ratio |", "|---|---|---|---|---|"]
    return "\n".join([*head, *(line(row, row.observe()) for row in rows())]) + "\n"


if __name__ == "__main__":
    made = table()
    print(made)
    if "--write" in sys.argv:
        before, rest = PAGE.read_text().split(BEGIN)
        PAGE.write_text(before + BEGIN + made + END + rest.split(END)[1])
