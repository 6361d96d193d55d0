"""Simulated studies, next to scikit-learn's Ridge on one such data set in the same run.

    python benchmarks/simulator.py

A settlement draws people, features and answers, sums them with their instruments, makes the private estimate and pays
everybody. A simulated study keeps costs, gains and gaps by kind of people besides, and `simulate` looks once for the
best report against peers that it draws. Tables of own predictions are made by the first simulation of a plan and kept:
its time is a row of its own, the other rows have them.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from measure import Row, interleaved, ratio
from sklearn.linear_model import Ridge

from truthful.plan import Plan, design
from truthful.simulation import simulate
from truthful.simulation.population import assign_roles, features_of
from truthful.simulation.runs import NumberContext, run_study
from truthful.simulation.simulation import in_order, set_up_numbers
from truthful.study import Study

PLAYERS, FEATURES, STUDIES, ROUNDS = 10_000, 5, 1000, 5
HEAD = 'name = "Benchmark"\ncurrency = "USD"\n[costs]\nkind = "pareto"\ntail = 2.0\nscale = 0.05\n'
UNIFORM = HEAD.replace("[costs]", "intercept = false\n[costs]") + (
    '[response]\nname = "y"\nlow = -1\nhigh = 1\n[design]\nkind = "uniform"\n[beliefs]\nsignal = 0.5\n'
)
BALL = HEAD + (
    '[response]\nname = "y"\nlow = -2\nhigh = 2\n[design]\nkind = "unit-ball"\n'
    "[beliefs]\nradius = 1.0\nnoise_bound = 1.0\n"
)


def planned(text: str) -> Plan:
    """A plan for ten thousand people of five features."""
    ends = "low = -1\nhigh = 1\n" if text is UNIFORM else ""
    features = "".join(f'[[features]]\nname = "x{j}"\n{ends}' for j in range(FEATURES))
    return design(
        Study.parse(text + features), players=PLAYERS, epsilon=1.0, score_weight=0.1, absent_share=0.001
    )


def settlement(stage: NumberContext, rng: np.random.Generator) -> object:
    """One, of honest people."""
    *_, everybody = stage.draw(rng)
    return stage.settle(everybody.x, everybody.y[None], rng).paid


def in_turn(work: Callable[[NumberContext, np.random.Generator], object], stage: NumberContext) -> None:
    """So many studies, as `simulate` runs them."""
    for _ in in_order(lambda _, rng: work(stage, rng), PLAYERS, STUDIES, seed=0):
        pass


def measured(text: str) -> tuple[dict[str, list[float]], float]:
    """Seconds of a thousand of each, in rounds; and of the first simulation, of just enough studies for a table."""
    plan = planned(text)
    started = time.perf_counter()
    simulate(plan, runs=5)
    first = time.perf_counter() - started
    stage = set_up_numbers(plan, assign_roles(None, PLAYERS), features_of(plan, None)[0], STUDIES)
    *_, everybody = stage.draw(np.random.default_rng(0))
    X, y = np.ascontiguousarray(everybody.x), everybody.y

    def ridge() -> None:
        for _ in range(STUDIES):
            Ridge(alpha=50.0, fit_intercept=False).fit(X, y)

    works: dict[str, Callable[[], object]] = {
        "ridge": ridge,
        "settlements": lambda: in_turn(settlement, stage),
        "studies": lambda: in_turn(run_study, stage),
        "simulate": lambda: simulate(plan, runs=STUDIES),
    }
    return interleaved(works, ROUNDS), first


def rows() -> list[Row]:
    uniform, first = measured(UNIFORM)
    ball, _ = measured(BALL)
    size = f"{STUDIES:,} × ({PLAYERS:,} × {FEATURES})"
    peer = f"{STUDIES:,} × `Ridge.fit`"
    return [
        Row(f"{size} simulated settlements ÷ {peer}", ratio(uniform, "settlements", "ridge"), "×", 1.5, 1.0),
        Row(
            f"{size} simulated studies ÷ {peer}",
            ratio(uniform, "studies", "ridge"),
            note="with costs, gains and gaps",
        ),
        Row(
            f"`simulate(runs={STUDIES})` ÷ {peer}",
            ratio(uniform, "simulate", "ridge"),
            note="and the search for the best report",
        ),
        Row(
            f"{size} simulated settlements on the unit ball ÷ {peer}",
            ratio(ball, "settlements", "ridge"),
            note="five normal draws a person, which take as long as Ridge",
        ),
        Row(
            "first simulation of a plan", first, "s", note="five studies; builds tables, loads compiled code"
        ),
    ]


if __name__ == "__main__":
    for row in rows():
        print(f"{row.work:80s} {row.found:8.2f} {row.unit}  {row.note}")
