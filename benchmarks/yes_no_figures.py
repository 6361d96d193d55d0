"""Yes and no against what was set out for: guaranteed errors, smallest panels, coverage, and how tight promises are.

    python benchmarks/yes_no_figures.py

Prints a table in Markdown; takes some minutes. People cost 0.25 USD each. Without features a share between 5 and 40 %
is believed, with d coefficients one between 20 and 50 %, of which each of d − 1 features of two levels, assigned by
lot, changes at most 10 points. Rosters have every combination of levels equally often.

Coverage is that of 2,000 intervals, of 400 simulated settlements with features and of 2,000 without: chance moves it by
half a point. (Of 400 settlements without features it would by 1.1.) The advantage of the truth over the lie, as a part
of the bonus, is computed from many draws of shares, answers and noise, and divided by what is guaranteed; the
worst-placed person counts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from truthful.agents.games import share_mechanism, share_promise, sum_geometry
from truthful.bounds.share_bounds import gain
from truthful.check import Floats
from truthful.moments import GRID, grid_features, instruments_on_grid
from truthful.noise import laplace
from truthful.people import draw_shares
from truthful.plan import Plan, design
from truthful.planner import Infeasible
from truthful.simulation.population import assign_roles, features_of
from truthful.simulation.runs import run_study
from truthful.simulation.simulation import set_up
from truthful.study import Study

EACH = 0.25
#: Each settlement has d intervals that are looked at: the share of everybody, and d − 1 differences.
INTERVALS = 2_000
#: Panels whose intervals are looked at, and ε as plans have it there, or a little more.
COVERED = ((200, 0.5), (2_000, 0.1), (20_000, 0.07))
#: Studies from which an advantage is computed.
DRAWS = 100_000
STUDY = """
name = "Undeclared income"
currency = "USD"
[response]
kind = "yes-no"
name = "evaded"
{features}
[design]
kind = "uniform"
[beliefs]
{beliefs}
[costs]
kind = "pareto"
tail = 2.0
scale = 0.05
"""


@dataclass(frozen=True)
class Figure:
    """One line: what was found, and the range that was set out for and hoped for."""

    what: str
    found: float
    at_most: tuple[float, float]
    aim: tuple[float, float]
    digits: int

    @property
    def reached(self) -> bool:
        return self.at_most[0] <= self.found <= self.at_most[1]

    def line(self) -> str:
        limits = (_range(ends, self.digits) for ends in (self.at_most, self.aim))
        missed = "" if self.reached else " (missed)"
        return f"| {self.what} | {self.found:,.{self.digits}f}{missed} | {' | '.join(limits)} |"


def _range(ends: tuple[float, float], digits: int) -> str:
    low, high = ends
    return f"{high:,.{digits}f}" if low == 0 else f"{low:,.{digits}f}–{high:,.{digits}f}"


@cache
def study(d: int) -> Study:
    """So many coefficients; one is the share alone."""
    features = "".join(f'[[features]]\nname = "f{j}"\nlevels = ["a", "b"]\n' for j in range(1, d))
    beliefs = "share = [0.05, 0.40]" if d == 1 else "share = [0.2, 0.5]\neffect = 0.1"
    return Study.parse(STUDY.format(features=features, beliefs=beliefs))


def roster(players: int, d: int) -> dict[str, Any]:
    """Every combination of levels as often, one person more or less."""
    cells = np.array(list(product("ab", repeat=d - 1)))
    people = np.random.default_rng(0).permutation(cells[np.arange(players) % len(cells)])
    return {f"f{j}": people[:, j - 1] for j in range(1, d)}


def planned(players: int, d: int, from_roster: bool = False) -> Plan:
    """The most accurate plan that the money buys."""
    people = roster(players, d) if from_roster else None
    return design(study(d), players=players, budget=EACH * players, roster=people)


def points(plan: Plan) -> float:
    """The error that is guaranteed, of the share, or of the worst effect."""
    accuracy = plan.guarantees.accuracy
    found = accuracy.effect_rmse if plan.study.features else accuracy.rmse
    assert found is not None
    return 100 * found


def smallest_panel(d: int, low: int, high: int) -> int:
    """About the fewest who are better asked than not, from a design, to 1 %."""
    while high - low > max(1, high // 100):
        middle = (low + high) // 2
        try:
            planned(middle, d)
            high = middle
        except Infeasible:
            low = middle
    return high


def coverage(players: int, epsilon: float, d: int) -> float:
    """The share of all published intervals that cover the truth, in percent, if people are honest."""
    plan = design(study(d), players=players, epsilon=epsilon, bonus=1.0)
    draw, _ = features_of(plan, None)
    stage = set_up(plan, assign_roles(None, players), draw, 1, draw(np.random.default_rng(0), players))
    streams = np.random.default_rng(players).spawn(INTERVALS // d)
    covered = [run_study(stage, rng).covered for rng in streams]
    return 100 * float(np.mean([one for one in covered if one is not None]))


def tightness(plan: Plan) -> float:
    """What the truth really earns over the lie, by what is guaranteed; of the person of whom it is least."""
    study, (mechanism, beliefs) = plan.study, share_mechanism(plan)
    people = roster(plan.players, study.dimension)
    X = grid_features(study.normalise(people, plan.players)) / GRID
    guaranteed = float(gain(share_promise(plan, sum_geometry(plan, X), plan.players))[0, 0])
    cells, counts = np.unique(X, axis=0, return_counts=True)
    Z = instruments_on_grid(cells * GRID, mechanism.transform, mechanism.norm) / GRID
    M = (Z * counts[:, None]).T @ cells
    rng = np.random.default_rng(1)
    theta = np.array([draw_shares(study, beliefs, rng) for _ in range(DRAWS)])
    shares = np.clip((1 + theta @ cells.T) / 2, 0.0, 1.0)
    noise = laplace(mechanism.norm, study.dimension, 2 / mechanism.epsilon).sample(rng, DRAWS)
    believed = beliefs.expects(cells)
    width = believed.width(mechanism.margin)
    least = math.inf
    for i, (x, z) in enumerate(zip(cells, Z, strict=True)):
        others = counts - (np.arange(len(cells)) == i)
        yes = rng.binomial(others, shares)
        w = np.linalg.solve((M - np.outer(z, x)).T, x)
        p = (1 + ((2 * yes - others) @ Z + noise) @ w) / 2
        for truth, weight in ((1.0, shares[:, i]), (-1.0, 1 - shares[:, i])):
            told, lie = (_paid(plan, x, said, p) for said in (truth, -truth))
            # (m − t)/w has a known mean: only what is off it is left to chance.
            ideal = (shares[:, i] - believed.switch[i]) / width[i] * truth
            off = (told - lie) / mechanism.bonus - ideal
            least = min(least, float(believed.advantage[i] / width[i] + weight @ off / weight.sum()))
    return least / guaranteed


def _paid(plan: Plan, x: Floats, said: float, p: Floats) -> Floats:
    """What an answer pays somebody with these features, for each share of the others."""
    mechanism, beliefs = share_mechanism(plan)
    return mechanism.steps(beliefs, np.tile(x, (len(p), 1)), np.full(len(p), said), p)[2]


def figures() -> Iterator[Figure]:
    """All of them, in the order of what was set out for."""
    for players, at_most, aim in ((2_000, 1.45, 1.38), (20_000, 0.40, 0.38)):
        found = points(planned(players, 1))
        yield Figure(
            f"share of yes, {players:,} people: guaranteed, points", found, (0, at_most), (0, aim), 3
        )
    for words, from_roster in (("a roster", True), ("the design", False)):
        found = points(planned(20_000, 5, from_roster))
        yield Figure(f"effect, d = 5, 20,000 people, from {words}, points", found, (0, 1.1), (0, 0.97), 3)
    for d, low, high, at_most, aim in (
        (1, 50, 400, 220, 189),
        (3, 500, 2_500, 1_600, 1_406),
        (5, 1_000, 3_500, 2_300, 2_006),
    ):
        found = smallest_panel(d, low, high)
        yield Figure(f"smallest panel worth asking, d = {d}", found, (0, at_most), (0, aim), 0)
    for d, (players, epsilon) in product((1, 5), COVERED):
        found = coverage(players, epsilon, d)
        yield Figure(
            f"coverage of 95 % intervals, d = {d}, {players:,} people, %", found, (93.5, 97), (94, 96), 1
        )
    for d, players in ((1, 2_000), (3, 20_000), (5, 20_000)):
        found = tightness(planned(players, d, from_roster=d > 1))
        yield Figure(f"advantage, exact ÷ guaranteed, d = {d}", found, (1.0, 1.6), (1.0, 1.2), 3)


def main() -> None:
    print("| what | found | at most | aim |\n|---|---|---|---|")
    for figure in figures():
        print(figure.line(), flush=True)


if __name__ == "__main__":
    main()
