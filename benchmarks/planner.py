"""What a budget buys: the planner's guarantees, and the errors that simulation finds.

    python benchmarks/planner.py [--write] [TABLE...]

Prints the tables, or those named; with --write they go into docs/budgets.md and docs/theory.md, between their markers.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import rosters

from truthful.check import Floats
from truthful.geometry import geometry
from truthful.guarantees import model
from truthful.instruments import best_transform, shorten
from truthful.moments import GRID, grid_features, instruments_on_grid
from truthful.noise import L2Laplace
from truthful.one_release import OneRelease
from truthful.plan import Plan, design
from truthful.planner import Goals, Infeasible
from truthful.planner.number_planning import solve_all
from truthful.planner.panel import Panel
from truthful.study import Study

DOCS = Path(__file__).resolve().parents[1] / "docs"
PLAYERS, BUDGET, LIE, EACH = 20_000, 5_000.0, 0.5, 0.25
RUNS = 100
BALL = """
name = "Ball"
currency = "USD"
[response]
name = "y"
low = -2
high = 2
{features}
[design]
kind = "unit-ball"
[privacy]
protects = "{protects}"
[beliefs]
radius = 1.0
noise_bound = 1.0
noise_sd = 0.5
[costs]
kind = "pareto"
tail = 2.0
scale = 0.05
"""


def ball(d: int, protects: str = "answers") -> Study:
    """Features uniform on the unit ball, R = M = 1."""
    features = "".join(f'[[features]]\nname = "x{j}"\n' for j in range(d))
    return Study.parse(BALL.format(features=features, protects=protects))


def observed(d: int) -> Study:
    """d − 1 numbers and an intercept, records protected; least eigenvalue half of that of an even spread."""
    numbers = "".join(f'[[features]]\nname = "x{j}"\nlow = 0\nhigh = 1\n' for j in range(d - 1))
    kind = f'kind = "observed"\nleast_eigenvalue = {1 / (6 * d)}'
    return Study.parse(BALL.format(features=numbers, protects="records").replace('kind = "unit-ball"', kind))


def drawn(study: Study, players: int) -> Floats:
    """Features of so many people, drawn from the design: a plan from these is exact."""
    return study.normalise(study.sample_features(np.random.default_rng(0), players), players)


def planned(study: Study, players: int, budget: float, payments: str, **more: Any) -> Plan | Infeasible:
    """The best plan, or why there is none."""
    try:
        return design(study, players=players, budget=budget, lie=LIE, payments=payments, **more)
    except Infeasible as problem:
        return problem


def surveyed(players: int, d: int, each: float) -> Plan | None:
    """The best plan for people of a survey roster, at so much each; None if it is no better than the prior mean."""
    study, X = rosters.survey(d), rosters.features(players, d)
    goals = Goals(players=players, budget=each * players, panel=Panel(study, X))
    if not solve_all(study, goals, players)[0].error < goals.prior_error(study):
        return None
    return design(study, roster=X, budget=each * players)


def of_plan(plan: Plan, liars: int, X: Floats) -> str:
    """The mean of ‖θ̂ − θ‖², ± its standard error, of people with these features; liars do most damage along θ."""
    study, mechanism, players = plan.study, plan.mechanism, plan.players
    assert isinstance(mechanism, OneRelease)
    rng, beliefs, theta = np.random.default_rng(0), study.beliefs, _edge(study)
    noise = L2Laplace(study.dimension, mechanism.scale(beliefs))
    u = theta / np.linalg.norm(theta)

    kx = grid_features(X)
    Z = instruments_on_grid(kx, mechanism.transform) / GRID
    inverse = np.linalg.inv(Z.T @ (kx / GRID))
    influence = inverse @ Z.T
    worst = np.argsort(-np.abs(u @ influence))[:liars]

    def error() -> float:
        y = kx / GRID @ theta + beliefs.noise.sample(rng, players)
        y[worst] = -beliefs.response_bound * np.sign(u @ influence[:, worst])
        return float(np.sum((influence @ y + inverse @ noise.sample(rng, 1)[0] - theta) ** 2))

    return _mean([error() for _ in range(RUNS)])


def truthful_error(plan: Plan, X: Floats) -> float:
    """E‖θ̂ − θ‖² of people with these features who tell the truth, exactly: σ²‖M⁻¹Zᵀ‖²_F, and what noise adds."""
    study, mechanism = plan.study, plan.mechanism
    assert isinstance(mechanism, OneRelease)
    kx = grid_features(X)
    Z = instruments_on_grid(kx, mechanism.transform) / GRID
    inverse = np.linalg.inv(Z.T @ (kx / GRID))
    noise = L2Laplace(study.dimension, mechanism.scale(study.beliefs)).mean_square_norm / study.dimension
    return float(study.beliefs.noise_variance * np.sum((inverse @ Z.T) ** 2) + noise * np.sum(inverse**2))


def _edge(study: Study) -> Floats:
    """Coefficients of the greatest length."""
    theta = np.zeros(study.dimension)
    theta[0] = -study.beliefs.radius
    return theta


def _mean(errors: list[float]) -> str:
    return f"{np.mean(errors):.3g} ± {np.std(errors) / math.sqrt(len(errors)):.1g}"


# Tables


def surveys() -> Iterator[str]:
    """People's own features, answers protected."""
    yield "| players | d | 0.25 USD each | 1 USD each | 5 USD each |"
    yield "|---|---|---|---|---|"
    for players in (500, 2_000, 6_000, 20_000, 200_000):
        for d in rosters.SETS:
            cells = (_errors(surveyed(players, d, each)) for each in (0.25, 1.0, 5.0))
            yield f"| {players:,} | {d} | {' | '.join(cells)} |"


def _errors(plan: Plan | None) -> str:
    if plan is None:
        return "–"
    accuracy = plan.guarantees.accuracy
    return f"{accuracy.rmse:.2g} / {accuracy.prediction_rmse:.2g}"


CHECKED = ((500, 3, 5.0), (2_000, 5, 1.0), (6_000, 10, 1.0), (20_000, 5, 0.25))


def checked() -> Iterator[str]:
    """Guarantees of survey rosters next to simulated errors."""
    yield (
        "| players | d | USD each | ε | guaranteed MSE | simulated, truthful | simulated, worst liars | undeterred | "
        "payments at most |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for players, d, each in CHECKED:
        plan, X = surveyed(players, d, each), rosters.features(players, d)
        assert plan is not None
        g, liars = plan.guarantees, round(plan.absent_share * players)
        ours = [of_plan(plan, k, X) for k in (0, liars)]
        yield (
            f"| {players:,} | {d} | {each:g} | {g.privacy.epsilon:.3g} | {g.accuracy.mean_squared_error:.3g} | "
            f"{ours[0]} | {ours[1]} | {g.truthfulness.undeterred:.0%} | {g.budget.cap:,.0f} USD |"
        )


def asked() -> Iterator[str]:
    """20,000 players and 5,000 USD, assigned features."""
    yield "| payments | d | guaranteed MSE | simulated, truthful | simulated, worst liars |"
    yield "|---|---|---|---|---|"
    for payments in ("expected", "never-negative"):
        for d in (2, 5, 10):
            study = ball(d)
            plan = planned(study, PLAYERS, BUDGET, payments, roster=(X := drawn(study, PLAYERS)))
            assert isinstance(plan, Plan)
            error = plan.guarantees.accuracy.mean_squared_error or math.inf
            liars = round(plan.absent_share * PLAYERS)
            ours = [of_plan(plan, k, X) for k in (0, liars)]
            yield f"| `{payments}` | {d} | {error:.3g} | {ours[0]} | {ours[1]} |"


def panels() -> Iterator[str]:
    """25 cents a head, for panels of four sizes, assigned features."""
    yield "| players | d | `expected`: MSE | ε | `never-negative`: MSE | ε | prior mean |"
    yield "|---|---|---|---|---|---|---|"
    for players in (2_000, 20_000, 200_000, 2_000_000):
        for d in (2, 5, 10, 20):
            study = ball(d)
            X = drawn(study, players)
            plans = (
                planned(study, players, EACH * players, kind, roster=X)
                for kind in ("expected", "never-negative")
            )
            cells = " | ".join(_cells(plan) for plan in plans)
            yield f"| {players:,} | {d} | {cells} | {model(study).prior_square:.3g} |"


def records() -> Iterator[str]:
    """Records protected, features assigned or observed."""
    yield "| players | d | assigned: MSE | ε | observed: MSE | ε | prior mean |"
    yield "|---|---|---|---|---|---|---|"
    for players in (2_000, 20_000, 200_000, 2_000_000):
        for d in (2, 5, 10):
            plans = (
                planned(study, players, EACH * players, "never-negative")
                for study in (ball(d, "records"), observed(d))
            )
            cells = " | ".join(_cells(plan) for plan in plans)
            yield f"| {players:,} | {d} | {cells} | {model(ball(d)).prior_square:.3g} |"


def _cells(plan: Plan | Infeasible) -> str:
    if isinstance(plan, Plan):
        return f"{plan.guarantees.accuracy.mean_squared_error:.3g} | {plan.mechanism.epsilon:.3g}"
    budget = plan.record()["feasible_with"].get("budget")
    needs = "more players" if budget is None else f"a budget of {budget:,.2f} USD"
    return f"nothing better than the prior mean: needs {needs} | –"


def instruments() -> Iterator[str]:
    """How much noise other instruments leave: made by benchmarks/planner.py --write."""
    yield (
        "| roster | least squares, spherical noise | least squares, whitened noise | equal influence | "
        "its sampling variance | its predictions |"
    )
    yield "|---|---|---|---|---|---|"
    draws = np.random.default_rng(0)
    sphere = draws.standard_normal((5_000, 5))
    uniform = sphere * (draws.random(5_000) ** 0.2 / np.linalg.norm(sphere, axis=1))[:, None]
    for name, X in (
        *((f"survey, d = {d}", rosters.features(5_000, d)) for d in rosters.SETS),
        ("ball, d = 5", uniform),
    ):
        n, d = X.shape
        values, vectors = np.linalg.eigh(X.T @ X / n)
        whitening = (vectors / np.sqrt(values)) @ vectors.T
        spherical, whitened, equal, predicting = (
            geometry(X, shorten(X, T, share))
            for T, share in (
                (np.eye(d), 0.0),
                (whitening, 0.0),
                (best_transform(X), 1.0),
                (best_transform(X, "predictions"), 1.0),
            )
        )
        yield (
            f"| {name} | {n**2 * spherical.noise[0]:,.0f} | {n**2 * whitened.noise[0]:,.0f} | "
            f"{n**2 * equal.noise[0]:,.0f} | {equal.sampling[0] / spherical.sampling[0]:.2f} × | "
            f"{n**2 * predicting.noise[1] / d**2:.2f} × |"
        )


#: The tables of each page, in their order.
TABLES: dict[str, tuple[Callable[[], Iterator[str]], ...]] = {
    "budgets.md": (surveys, checked, asked, panels, records),
    "theory.md": (instruments,),
}


def main() -> None:
    """Print the tables, and write them where asked to."""
    named = [word for word in sys.argv[1:] if word != "--write"]
    for page, tables in TABLES.items():
        for table in tables:
            if named and table.__name__ not in named:
                continue
            lines = "\n".join(table())
            print(f"\n{table.__doc__}\n\n{lines}", flush=True)
            if "--write" in sys.argv:
                _write(DOCS / page, table.__name__, lines)


def _write(page: Path, name: str, lines: str) -> None:
    text = page.read_text(encoding="utf-8")
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    head, _, rest = text.partition(begin)
    page.write_text(f"{head}{begin}{lines}\n{end}{rest.partition(end)[2]}", encoding="utf-8")


if __name__ == "__main__":
    main()
