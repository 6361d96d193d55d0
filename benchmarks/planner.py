"""What a budget buys: the planner's guarantees next to the paper's mechanism, and the errors that simulation finds.

    python benchmarks/planner.py [--write]

Prints three tables; with --write they go into docs/budgets.md, between its markers.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np

from truthful.check import Floats
from truthful.estimators import Estimator
from truthful.guarantees import model
from truthful.mechanism import Mechanism
from truthful.moments import grid_features, grid_responses, group_moments
from truthful.plan import Plan, design
from truthful.planner import Goals, Infeasible
from truthful.planner.paper import paper_solution
from truthful.planner.solve import Solution
from truthful.regression import fast_answer
from truthful.study import Study

PAGE = Path(__file__).resolve().parents[1] / "docs" / "budgets.md"
PLAYERS, BUDGET, LIE, EACH = 20_000, 5_000.0, 0.5, 0.25
#: What a crude search on the first bounds reached: (payments, d) to the guaranteed mean squared error.
REQUIRED = {
    ("expected", 2): 7.5e-4,
    ("expected", 5): 6.1e-3,
    ("expected", 10): 5.0e-2,
    ("never-negative", 2): 1.5e-3,
    ("never-negative", 5): 1.45e-2,
    ("never-negative", 10): 1.45e-1,
}
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
[beliefs]
radius = 1.0
noise_bound = 1.0
noise_sd = 0.5
[costs]
kind = "pareto"
tail = 2.0
scale = 0.05
"""


def ball(d: int) -> Study:
    """Features uniform on the unit ball, R = M = 1."""
    return Study.parse(BALL.format(features="".join(f'[[features]]\nname = "x{j}"\n' for j in range(d))))


def observed(d: int) -> Study:
    """d − 1 numbers as they come and an intercept; least eigenvalue half of that of an even spread."""
    numbers = "".join(f'[[features]]\nname = "x{j}"\nlow = 0\nhigh = 1\n' for j in range(d - 1))
    kind = f'kind = "observed"\nleast_eigenvalue = {1 / (6 * d)}'
    return Study.parse(BALL.format(features=numbers).replace('kind = "unit-ball"', kind))


def planned(study: Study, players: int, budget: float, payments: str) -> Plan | Infeasible:
    """The best plan, or why there is none."""
    try:
        return design(study, players=players, budget=budget, lie=LIE, payments=payments)
    except Infeasible as problem:
        return problem


def paper(study: Study, players: int, budget: float) -> Solution:
    """The paper's mechanism at its best parameters."""
    found = paper_solution(study, Goals(players=players, budget=budget, lie=LIE), players)
    assert found is not None
    return found


def paper_estimator(solution: Solution) -> tuple[Estimator, float]:
    """Its public estimate, and the ε that it spends."""
    s, study = solution.setting, solution.terms.study
    gamma, epsilon = float(np.asarray(s.gamma)), float(np.asarray(s.epsilon_public))
    mechanism = Mechanism(
        epsilon=2 * epsilon,
        base_payment=0.0,
        score_weight=0.0,
        estimator="ridge-free",
        regularization=gamma,
    )
    return mechanism.public_estimator(study.beliefs), epsilon


def simulated(study: Study, estimator: Estimator, epsilon: float, players: int, liars: int) -> str:
    """The mean of ‖θ̂ − θ‖², ± its standard error, with θ at the edge and the liars who do most damage along it."""
    rng, beliefs, d = np.random.default_rng(0), study.beliefs, study.dimension
    theta = np.zeros(d)
    theta[0] = -beliefs.radius
    errors = [_error(study, estimator, epsilon, theta, rng, players, liars) for _ in range(RUNS)]
    return f"{np.mean(errors):.3g} ± {np.std(errors) / math.sqrt(RUNS):.1g}"


def _error(
    study: Study,
    estimator: Estimator,
    epsilon: float,
    theta: Floats,
    rng: np.random.Generator,
    players: int,
    liars: int,
) -> float:
    beliefs = study.beliefs
    X = study.normalise(study.sample_features(rng, players))
    y = X @ theta + beliefs.noise.sample(rng, players)
    worst = np.argsort(-np.abs(X[:, 0]))[:liars]
    y[worst] = beliefs.response_bound * np.sign(X[worst, 0])
    kx, ky = grid_features(X), grid_responses(y, beliefs.response_bound)
    everybody, _ = group_moments(kx, ky, np.zeros(players, dtype=np.uint8))
    answers = [
        fast_answer(rng)(query, query.share * Fraction(epsilon)) for query in estimator.queries(everybody)
    ]
    theta_hat = estimator.estimate(answers, players, epsilon).theta
    return float(np.sum((theta_hat - theta) ** 2))


def asked() -> Iterator[str]:
    """20,000 players and 5,000 USD."""
    yield (
        "| payments | d | guaranteed MSE | first search | simulated, truthful | simulated, worst liars | "
        "the paper's mechanism | simulated, truthful | ratio |"
    )
    yield "|---|---|---|---|---|---|---|---|---|"
    for (payments, d), required in REQUIRED.items():
        study = ball(d)
        plan, theirs = planned(study, PLAYERS, BUDGET, payments), paper(study, PLAYERS, BUDGET)
        assert isinstance(plan, Plan)
        error = plan.guarantees.accuracy.mean_squared_error or math.inf
        estimator, epsilon = (
            plan.mechanism.public_estimator(study.beliefs),
            float(plan.mechanism.epsilon_public),
        )
        liars = round(plan.absent_share * PLAYERS)
        ours = [simulated(study, estimator, epsilon, PLAYERS, k) for k in (0, liars)]
        other = simulated(study, *paper_estimator(theirs), PLAYERS, 0)
        yield (
            f"| `{payments}` | {d} | {error:.3g} | {required:.3g} | {ours[0]} | {ours[1]} | {theirs.error:.3g} | "
            f"{other} | {theirs.error / error:,.0f} |"
        )


def panels() -> Iterator[str]:
    """25 cents a head, for panels of four sizes."""
    yield "| players | d | `expected`: MSE | ε | `never-negative`: MSE | ε | the paper's mechanism: MSE | prior mean |"
    yield "|---|---|---|---|---|---|---|---|"
    for players in (2_000, 20_000, 200_000, 2_000_000):
        for d in (2, 5, 10, 20):
            study = ball(d)
            plans = (planned(study, players, EACH * players, kind) for kind in ("expected", "never-negative"))
            cells = " | ".join(_cells(plan) for plan in plans)
            theirs = paper(study, players, EACH * players).error
            shown = f"{theirs:.3g}" if math.isfinite(theirs) else "–"
            yield f"| {players:,} | {d} | {cells} | {shown} | {model(study).prior_square:.3g} |"


def noisy() -> Iterator[str]:
    """The same with observed features."""
    yield "| players | d | estimators | MSE | ε | prior mean |"
    yield "|---|---|---|---|---|---|"
    for players in (2_000, 20_000, 200_000, 2_000_000):
        for d in (2, 5, 10):
            study = observed(d)
            plan = planned(study, players, EACH * players, "never-negative")
            name = f"`{plan.mechanism.estimator}`" if isinstance(plan, Plan) else "–"
            yield f"| {players:,} | {d} | {name} | {_cells(plan)} | {model(study).prior_square:.3g} |"


def _cells(plan: Plan | Infeasible) -> str:
    if isinstance(plan, Plan):
        return f"{plan.guarantees.accuracy.mean_squared_error:.3g} | {plan.mechanism.epsilon:.3g}"
    needs = next((remedy.words for remedy in plan.remedies if remedy.goal == "budget"), "more players")
    return f"nothing better than the prior mean: needs {needs} | –"


def main() -> None:
    """Print the tables, and write them where asked to."""
    text = PAGE.read_text(encoding="utf-8") if PAGE.exists() else ""
    for table in (asked, panels, noisy):
        lines = "\n".join(table())
        print(f"\n{table.__doc__}\n\n{lines}", flush=True)
        begin, end = f"<!-- {table.__name__} -->\n", f"<!-- end of {table.__name__} -->\n"
        if "--write" in sys.argv:
            head, _, rest = text.partition(begin)
            text = f"{head}{begin}{lines}\n{end}{rest.partition(end)[2]}"
    if "--write" in sys.argv:
        PAGE.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
