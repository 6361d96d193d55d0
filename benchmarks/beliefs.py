"""Beliefs that are declared, and beliefs that are asked for: what is left of a study where everybody maximises money.

    python benchmarks/beliefs.py

Prints four tables in Markdown. Answers are numbers from 0 to 100 with a standard deviation of 15 about an average of
which people are unsure by 10, or yes and no; ε is 0.2 and there are no features. Everybody gives the answer that pays
her most by her own beliefs, expecting the others to tell the truth. People's centres scatter by 3; `aware` people know
what the others expect, the others take all to think as they do.

Where beliefs are declared the best answer is y + (σ²/v)(her centre − the declared one), in closed form, and the average
has the noise of one sum; of yes and no it is the answer on whose side of the switch point she is. Where they are asked
for, answers and predictions are settled by the code that settles real studies.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from truthful.agents import AskedGame, asked_game, share_game
from truthful.check import Floats
from truthful.noise import L2Laplace
from truthful.plan import Plan, design
from truthful.simulation.runs import settle_predictions
from truthful.study import Study

EPSILON, SIGMA, SURE, SCATTER = 0.2, 15.0, 10.0, 3.0
PLAYERS, RUNS = (500, 2_000, 20_000), (400, 400, 100)
#: How far the declared centre is off, in points: up to a third of the range.
OFF = (0.0, 3.0, 10.0, 33.0)
TEXT = """
name = "Beliefs"
currency = "USD"
[response]
{response}
[design]
kind = "observed"
[privacy]
protects = "answers"
[beliefs]
{beliefs}
[costs]
kind = "pareto"
tail = 2.0
scale = 0.05
"""
NUMBER, YES_NO = 'name = "units"\nlow = 0\nhigh = 100', 'kind = "yes-no"\nname = "evaded"'
ASKED = 'centre = "predictions"\nsure = {sure}\nspread = 15\n'
Rng = np.random.Generator


@dataclass(frozen=True)
class People:
    """Who maximises: how far centres scatter, whether she knows what others expect, and slopes that differ.

    A share of all is careless: they tell the truth and predict the middle of the scale. Others `know` it, or not.
    """

    scatter: float = SCATTER
    aware: float = 1.0
    steeper: float = 1.0
    careless: float = 0.0
    known: bool = False


@cache
def asked_plan(players: int, sure: float = SURE) -> Plan:
    """The plan that buys most with this ε."""
    study = Study.parse(TEXT.format(response=NUMBER, beliefs=ASKED.format(sure=sure)))
    return design(study, players=players, epsilon=EPSILON)


@cache
def yes_no_plan(players: int, asked: bool) -> Plan:
    beliefs = (
        'share = [0.05, 0.60]\ncentre = "predictions"\nsure = 0.1\n' if asked else "share = [0.05, 0.40]\n"
    )
    study = Study.parse(TEXT.format(response=YES_NO, beliefs=beliefs))
    if asked:
        return design(study, players=players, epsilon=EPSILON)
    return design(study, players=players, epsilon=EPSILON, bonus=1.0)


def rmse(errors: Floats) -> float:
    return float(np.sqrt(np.mean(errors**2)))


# Numbers


def declared_errors(players: int, off: float, runs: int, rng: Rng, scatter: float = SCATTER) -> Floats:
    """Of the average where the declared centre is off by so much: best answers, cut to the range, and noise."""
    found = []
    for _ in range(runs):
        average = 40 + SURE * rng.standard_normal()
        y = np.clip(average + SIGMA * rng.standard_normal(players), 0, 100)
        lie = (SIGMA / SURE) ** 2 * (scatter * rng.standard_normal(players) - off)
        noise = 100 / EPSILON * rng.laplace() / players
        found.append(np.clip(y + lie, 0, 100).mean() + noise - average)
    return np.array(found)


def asked_errors(players: int, people: People, runs: int, rng: Rng) -> Floats:
    """Of the average where people are asked, wherever their centre is; it does not matter to anybody."""
    plan, found = asked_plan(players), []
    game = asked_game(plan, np.ones((10, 1))).of(40 / 50 - 1, np.ones(1))
    x = np.ones((players, 1))
    for _ in range(runs):
        average = game.centre + SURE / 50 * rng.standard_normal()
        y = np.clip(average + SIGMA / 50 * rng.standard_normal(players), -1, 1)
        told, predicted = said(game, x, y, people, rng)
        settled = settle_predictions(game, x, told, predicted, rng)
        found.append(50 * (float(settled.estimate.theta[0]) - average))
    return np.array(found)


def said(game: AskedGame, x: Floats, y: Floats, people: People, rng: Rng) -> tuple[Floats, Floats]:
    """Best answers and honest predictions, but for the careless."""
    off = people.scatter / 50 * rng.standard_normal(len(y))
    foreseen = game.expectations(x, y, off, people.aware, people.steeper)
    predicted = foreseen.prediction.copy()
    few = round(people.careless * len(y))
    predicted[:few] = 0.0
    if people.known:
        others = (1 - people.careless) * foreseen.others
        foreseen = replace(foreseen, others=others)
    told = game.best_answers(x, y, foreseen)
    told[:few] = y[:few]
    return told, predicted


# Skewed answers: gamma of shape 1.6, of which people expect 18 ± 6


def skewed_best(players: int, y: float, runs: int, rng: Rng) -> tuple[float, float]:
    """The best answer less the truth, in points, and its standard error, on average over studies of truthful others."""
    plan, shape = asked_plan(players, 6.0), 1.6
    game = asked_game(plan, np.ones((10, 1))).of(18 / 50 - 1, np.ones(1))
    k = shape / (10 + shape)
    x, found, mean = np.ones((players, 1)), [], 18 + k * (y - 18)
    for average in ((180 + shape * y) / rng.gamma(11 + shape, size=runs)).tolist():
        others = np.minimum(rng.gamma(shape, average / shape, players - 1), 100)
        answers = np.append(others, y) / 50 - 1
        settled = settle_predictions(game, x, answers, game.centre + k * (answers - game.centre), rng)
        compared = (1 - k) * settled.surprise[-1] + k * float(np.clip(settled.p[-1], -1, 1))
        # The luck of the average is 0 on average.
        found.append(50 * (compared / k + 1) - y - (average - mean) / k)
    return float(np.mean(found)), float(np.std(found) / math.sqrt(runs))


def skewed_declared(y: float) -> float:
    """The same where 50 ± 16.7 is declared, not cut to the range."""
    slope = 16.7**2 / (16.7**2 + SIGMA**2)
    expected = 18 + 1.6 / 11.6 * (y - 18)
    return 50 + (expected - 50) / slope - y


# Yes and no


def yes_no_declared(players: int, off: float, runs: int, rng: Rng, scatter: float = SCATTER) -> Floats:
    """Errors of the share of yes, in points, where people's mean share is so far above the declared one."""
    plan, found = yes_no_plan(players, False), []
    game, x = share_game(plan, np.ones((10, 1))), np.ones((players, 1))
    middle = float(game.beliefs.expects(x[:1]).mean[0])
    for _ in range(runs):
        own = off / 100 + scatter / 100 * rng.standard_normal(players)
        share = float(np.clip(middle + off / 100 + 0.1 * rng.uniform(-1, 1), 0.01, 0.99))
        y = np.where(rng.random(players) < share, 1.0, -1.0)
        expected = game.expected_share(x, y, own)
        switch = float(game.beliefs.expects(x[:1]).switch[0])
        told = (expected > switch).mean() + rng.laplace() / (players * EPSILON)
        found.append(100 * (told - share))
    return np.array(found)


def yes_no_asked(players: int, people: People, centre: float, runs: int, rng: Rng) -> Floats:
    """The same where people are asked."""
    plan, found = yes_no_plan(players, True), []
    game = asked_game(plan, np.ones((10, 1))).of(2 * centre - 1, np.ones(1))
    x = np.ones((players, 1))
    for _ in range(runs):
        share = centre + 0.1 * rng.uniform(-1, 1)
        y = np.where(rng.random(players) < share, 1.0, -1.0)
        told, predicted = said(game, x, y, people, rng)
        settled = settle_predictions(game, x, told, predicted, rng)
        found.append(100 * ((1 + float(settled.estimate.theta[0])) / 2 - share))
    return np.array(found)


# Tables


def row(name: str, cells: list[str]) -> str:
    return f"| {name} | {' | '.join(cells)} |"


def numbers_table() -> Iterator[str]:
    yield row("numbers, root mean square error of the average, points", [f"n = {n:,}" for n in PLAYERS])
    yield "|---|" + "---|" * len(PLAYERS)
    for off in OFF:
        yield row(
            f"declared, centre off by {off:g}",
            [_told(declared_errors(n, off, r, np.random.default_rng(1))) for n, r in _sizes()],
        )
    for name, people in (
        ("asked, all truthful", People(0.0)),
        ("asked, others taken to think alike", People(aware=0.0)),
        ("asked, others' centre known", People()),
        ("asked, slope 1.5 times the declared", People(0.0, steeper=1.5)),
        ("asked, 10 % leave the middle, nobody knows", People(careless=0.1)),
        ("asked, 10 % leave the middle, all know", People(careless=0.1, known=True)),
    ):
        yield row(name, [_told(asked_errors(n, people, r, np.random.default_rng(2))) for n, r in _sizes()])


def skewed_table() -> Iterator[str]:
    yield row("best answer less the truth, people expect 18 ± 6", ["31", "55"])
    yield "|---|---|---|"
    yield row("declared 50 ± 16.7", [f"{skewed_declared(y):.0f}" for y in (31.0, 55.0)])
    for n, runs in zip(PLAYERS, (4_000, 4_000, 400), strict=True):
        found = [skewed_best(n, y, runs, np.random.default_rng(3)) for y in (31.0, 55.0)]
        yield row(f"asked, n = {n:,}", [f"{value:.1f} ± {error:.1f}" for value, error in found])


def noise_table() -> Iterator[str]:
    yield row("variance of noise, times that of one question", ["d = 1", "d = 5"])
    yield "|---|---|---|"
    yield row("ρ = 0.3", [f"{noise_factor(d, 0.3):.2f}" for d in (1, 5)])
    for n in PLAYERS:
        mechanism = asked_plan(n).asked_mechanism
        assert mechanism is not None
        ratio = mechanism.ratio
        yield row(
            f"ρ = {ratio:.2g}, as planned for n = {n:,}", [f"{noise_factor(d, ratio):.2f}" for d in (1, 5)]
        )


def noise_factor(d: int, ratio: float) -> float:
    """Of one coordinate: that of L2 noise in d + 1 dimensions at √(1 + ρ²) times the scale, against d dimensions."""
    both = L2Laplace(d + 1, math.sqrt(1 + ratio**2)).marginal_variance
    return float(both / L2Laplace(d, 1.0).marginal_variance)


def yes_no_table() -> Iterator[str]:
    yield row("yes and no, root mean square error of the share, points", [f"n = {n:,}" for n in PLAYERS])
    yield "|---|" + "---|" * len(PLAYERS)
    for off in OFF:
        yield row(
            f"declared 5–40 %, off by {off:g}",
            [_told(yes_no_declared(n, off, r, np.random.default_rng(4))) for n, r in _sizes()],
        )
    for name, people in (
        ("asked, all agree", People(0.0)),
        ("asked, others taken to think alike", People(aware=0.0)),
        ("asked, others' centre half known", People(aware=0.5)),
        ("asked, others' centre known", People()),
        ("asked, 10 % leave the middle, nobody knows", People(0.0, careless=0.1)),
        ("asked, 10 % leave the middle, all know", People(0.0, careless=0.1, known=True)),
    ):
        yield row(
            name, [_told(yes_no_asked(n, people, 0.25, r, np.random.default_rng(5))) for n, r in _sizes()]
        )


def _sizes() -> Iterator[tuple[int, int]]:
    return zip(PLAYERS, RUNS, strict=True)


def _told(errors: Floats) -> str:
    return f"{rmse(errors):.2g}"


def main() -> None:
    for table in (numbers_table, skewed_table, noise_table, yes_no_table):
        print("\n".join(table()), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
