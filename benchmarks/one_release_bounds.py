"""What is guaranteed of one release that protects answers, next to what is observed: six studies, the worst liars.

    python benchmarks/one_release_bounds.py [STUDIES]

Plans are the planner's own, for the money named and lies of its usual size; rosters are of `rosters.py`, and of the
unit ball. θ is at the edge of its ball. Prints a table in Markdown. Of the gap and of lies that pay twelve people are
looked at: the six of largest g_i, and six others. "Furthest lie that paid" lets every lie save the whole privacy cost
τh(ε), the most that is assumed. Liars are those of greatest influence on θ̂ and, for the gap, of greatest weight on the
person's prediction, κ of them on average, who say ±Y.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np
from rosters import features, survey

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests"))

from support.oracles_answers import Crowd, errors, furthest_paying, pushed  # noqa: E402

from truthful.check import Floats  # noqa: E402
from truthful.moments import GRID, grid_features, grid_responses, sums  # noqa: E402
from truthful.one_release import OneRelease  # noqa: E402
from truthful.plan import Plan, design  # noqa: E402
from truthful.regression import fast_answer  # noqa: E402
from truthful.release.coefficients import released_coefficients  # noqa: E402
from truthful.simulation.population import assign_roles, features_of  # noqa: E402
from truthful.simulation.simulation import set_up_numbers  # noqa: E402
from truthful.study import Study  # noqa: E402

STUDIES, DRAWS, PAID = 300, 4_000, 30
SHARES = (0.0, 0.5, 0.9)
#: Roster, players, coefficients, and currency units a head.
ASKED = (
    ("survey", 500, 3, 5.0),
    ("survey", 2_000, 5, 1.0),
    ("survey", 6_000, 10, 1.0),
    ("survey", 20_000, 5, 0.25),
    ("ball", 2_000, 5, 1.0),
    ("ball", 20_000, 10, 0.25),
)
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
HEAD = (
    "roster",
    "n × d, USD a head",
    "ε, c/R",
    "bound on the mean squared error",
    "observed, truthful (formula)",
    "observed, k worst liars",
    "observed ÷ guaranteed",
    "g: bound / worst observed",
    "D: bound / furthest lie that paid",
    "coverage of 95 %",
    "payments between",
)


@dataclass(frozen=True)
class Line:
    """What is promised and what was seen of one study. Numbers are normalised, payments in currency."""

    plan: Plan
    roster: str
    budget: float
    liars: int
    formula: float
    truthful: Floats
    lied: Floats
    gap: float
    furthest: float
    coverage: float
    paid: tuple[float, float]
    guaranteed_gap: float


def ball(players: int, d: int, seed: int = 0) -> tuple[Study, Floats]:
    """People spread evenly over the unit ball, and their study."""
    study = Study.parse(BALL.format(features="".join(f'[[features]]\nname = "x{k}"\n' for k in range(d))))
    return study, study.normalise(study.sample_features(np.random.default_rng(seed), players), players)


def measured(roster: str, n: int, d: int, each: float, studies: int) -> Line:
    """One line of the table."""
    study, X = (survey(d), features(n, d)) if roster == "survey" else ball(n, d)
    plan = design(study, roster=X, budget=each * n)
    assert isinstance(plan.mechanism, OneRelease)
    rng, x = np.random.default_rng(1), grid_features(X) / GRID
    those = Crowd(study, plan.mechanism, x, plan.absent_share, plan.failure_probability)
    liars = math.floor(plan.absent_share * n + 1e-9)
    truthful, lied = errors(those, rng, studies), errors(those, rng, studies, liars)
    worst = np.argsort(-those.gaps)[:6]
    looked_at = np.concatenate([worst, rng.choice(n, 6, replace=False)])
    found = pushed(those, looked_at, SHARES, rng, DRAWS)
    rows, _ = study.coefficient_map
    return Line(
        plan,
        roster,
        each * n,
        liars,
        those.truthful_error,
        np.square(truthful).sum(axis=1),
        np.square(lied).sum(axis=1),
        max(one.gap for one in found),
        furthest_paying(those, plan.mechanism.score_weight, found),
        float(np.mean(np.abs(truthful @ rows.T) <= half_widths(those))),
        payments(plan, X),
        float(those.gaps.max()),
    )


def half_widths(crowd: Crowd) -> Floats:
    """Of the published intervals: given features they are the same in every study."""
    beliefs, mechanism = crowd.study.beliefs, crowd.mechanism
    added = sums(
        crowd.x * GRID, grid_responses(np.zeros(crowd.n), beliefs.response_bound), mechanism.transform
    )
    [query] = mechanism.queries(added, beliefs)
    answers = [fast_answer(np.random.default_rng(0))(query, Fraction(mechanism.epsilon))]
    estimate = mechanism.estimate(answers, crowd.n, beliefs, added.matrix)
    return np.array(
        [(one.high - one.low) / 2 for one in released_coefficients(crowd.study, mechanism, estimate, added)]
    )


def payments(plan: Plan, X: Floats) -> tuple[float, float]:
    """The least and the most that anybody was paid, in some studies of truthful people."""
    stage = set_up_numbers(plan, assign_roles(None, plan.players), features_of(plan, X)[0], PAID, X)
    ends = []
    for seed in range(PAID):
        rng = np.random.default_rng(seed)
        *_, everybody = stage.draw(rng)
        paid = stage.settle(everybody.x, everybody.y[None], rng).paid
        ends.append((paid.min(), paid.max()))
    return float(np.min(ends)), float(np.max(ends))


def cells(line: Line) -> tuple[str, ...]:
    """A line as it is printed."""
    plan, promised = line.plan, line.plan.guarantees
    bound, lie = promised.accuracy.mean_squared_error or math.inf, promised.truthfulness.lie or math.inf
    luck = line.lied.std() / math.sqrt(len(line.lied))
    clip = getattr(plan.mechanism, "clip", math.nan) / plan.study.beliefs.radius
    return (
        line.roster,
        f"{plan.players:,} × {plan.study.dimension}, {line.budget / plan.players:g}",
        f"{plan.mechanism.epsilon:.3g}, {clip:.2g}",
        f"{bound:.3g}",
        f"{line.truthful.mean():.3g} ({line.formula:.3g})",
        f"{line.lied.mean():.3g} (k = {line.liars})",
        f"{line.lied.mean() / bound:.2f} ± {luck / bound:.2f}",
        f"{line.guaranteed_gap:.2g} / {line.gap:.2g}",
        f"{lie:.3f} / {line.furthest:.3f}",
        f"{100 * line.coverage:.1f} %",
        f"{line.paid[0]:.3g}–{line.paid[1]:.3g}",
    )


def table(studies: int) -> Iterator[str]:
    """The lines of the table, one after the other."""
    yield f"| {' | '.join(HEAD)} |"
    yield f"|{'---|' * len(HEAD)}"
    for asked in ASKED:
        yield f"| {' | '.join(cells(measured(*asked, studies)))} |"


if __name__ == "__main__":
    for row in table(int(sys.argv[1]) if len(sys.argv) > 1 else STUDIES):
        print(row, flush=True)
