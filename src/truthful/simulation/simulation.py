"""Simulate: from a plan and a cast of agents to what whole studies of theirs look like."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

import numpy as np

from truthful import check
from truthful.agents import Agent, game
from truthful.check import Floats
from truthful.guarantees import model
from truthful.plan import Plan
from truthful.simulation.answers import sampler
from truthful.simulation.cast import Role, cast
from truthful.simulation.drawing import Drawing
from truthful.simulation.features import Features, features_of
from truthful.simulation.found import Found, mean, ratio
from truthful.simulation.joining import whom_it_pays
from truthful.simulation.lies import best_lie
from truthful.simulation.predictors import predictors
from truthful.simulation.record import (
    Accuracy,
    Budget,
    Earnings,
    Observed,
    Participation,
    Simulation,
    Truthfulness,
)
from truthful.simulation.responses import best_responses
from truthful.simulation.run import Run, run_study
from truthful.simulation.stage import Stage

T = TypeVar("T")

#: Told as a simulation goes on: the stage, studies done, studies in all.
Progress = Callable[[str, int, int | None], None]
#: From so many players on, studies run beside each other; threads of smaller ones mostly wait for their turn in Python.
THREADED = 20_000
#: Of lies that cost nothing.
NO_LIMIT = Found(math.inf, math.nan)


def simulate(
    plan: Plan,
    agents: Mapping[str | Agent, float] | None = None,
    *,
    runs: int = 500,
    seed: int = 0,
    features: Features | Floats | None = None,
    progress: Progress | None = None,
) -> Simulation:
    """Run a plan's study many times with simulated people.

    `agents` gives the share of players of each kind, by name or as an Agent; who is left is honest. Coefficients are
    drawn from the prior, features from the design, costs from their law. Where the study does not say how features are
    distributed, `features` does: a function of (rng, n), or an array whose rows are drawn from, normalised.
    Every study has its own random stream, so the first studies of a long simulation are those of a short one.
    """
    runs, seed = check.integer("runs", runs), check.integer("seed", seed, least=0)
    draw, brought = features_of(plan.study, features)
    stage = set_up(plan, cast(agents, plan.players), draw, runs)
    done = []
    for run in in_order(partial(run_study, stage), plan.players, runs, seed):
        done.append(run)
        if progress is not None:
            progress("Simulating studies", len(done), runs)
    ours, papers = best_responses(plan, stage.game, draw, np.random.default_rng(seed))
    return Simulation(
        plan,
        stage.roles,
        runs,
        seed,
        brought,
        observed=_observed(stage, done),
        guaranteed_gap=stage.game.gap,
        earnings=_earnings(stage.roles, done),
        best_response=ours,
        papers_best_response=papers,
        studies=tuple(done),
    )


def set_up(plan: Plan, roles: tuple[Role, ...], features: Features, runs: int) -> Stage:
    """What all studies share; tables of own predictions are built here, once."""
    # Each player's is computed when she is paid, besides those that she asks for.
    own = predictors(plan, runs * sum(role.count * (1 + role.agent.looks) for role in roles))
    threshold = plan.guarantees.participation.cost_threshold
    return Stage(
        plan,
        roles,
        game(plan, own(max(1, plan.players // 2))),
        own,
        features,
        sampler(plan.study.beliefs.noise),
        Drawing.of(plan),
        cost_threshold=math.inf if threshold is None else threshold,
        typical_answer=math.sqrt(model(plan.study).mean_square + plan.study.beliefs.noise_variance),
    )


def in_order(study: Callable[[np.random.Generator], T], players: int, runs: int, seed: int) -> Iterator[T]:
    """What each of so many studies gives, in their order. Each has a random stream of its own."""
    streams = map(np.random.default_rng, np.random.SeedSequence(seed).spawn(runs))
    if players < THREADED:
        yield from map(study, streams)
        return
    pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)))
    try:
        yield from pool.map(study, streams)
    finally:
        pool.shutdown(cancel_futures=True)


def _column(runs: Sequence[Run], name: str) -> Floats:
    """One number, or one array, of every study."""
    return np.array([getattr(run, name) for run in runs], dtype=np.float64)


def _observed(stage: Stage, runs: Sequence[Run]) -> Observed:
    plan, promised = stage.plan, stage.plan.guarantees
    errors, predictions = _column(runs, "squared_error"), _column(runs, "prediction_error")
    share, covered = whom_it_pays(stage, runs)
    totals, likely = _column(runs, "total"), promised.budget.likely
    unit = plan.study.response_unit
    return Observed(
        _truthfulness(stage, runs),
        Accuracy(
            mean(errors),
            rmse=unit * math.sqrt(mean(errors).value),
            prediction_rmse=unit * math.sqrt(mean(predictions).value),
        ),
        Participation(
            share,
            covered,
            covered_paid=ratio(_column(runs, "covered_paid"), _column(runs, "covered_joined")),
        ),
        Budget(
            mean(totals),
            largest=float(totals.max()),
            above_likely=None if likely is None else float(np.mean(totals > likely)),
        ),
    )


def _truthfulness(stage: Stage, runs: Sequence[Run]) -> Truthfulness:
    """The best lie, and η and D with its gap: bδ² + τh(ε) and δ + √(δ² + τh(ε)/b)."""
    found, b = best_lie(runs), stage.plan.mechanism.score_weight
    saved = stage.game.threshold * stage.game.privacy_cost
    misreports, joined = _column(runs, "misreports"), _column(runs, "joined").sum(axis=1)
    return Truthfulness(
        gap=found.gap,
        gain=found.gain.times(b),
        slack=_with_gap(found.gap, lambda gap: b * gap**2 + saved),
        lie=_with_gap(found.gap, lambda gap: gap + math.sqrt(gap**2 + saved / b)) if b > 0 else NO_LIMIT,
        misreports=ratio(misreports, joined),
        beyond=float(np.mean(misreports > stage.plan.absent_share * joined + 1e-9)),
    )


def _with_gap(gap: Found, formula: Callable[[float], float]) -> Found:
    """A formula of the gap, and how much more it would be with one of a standard error more."""
    value = formula(max(gap.value, 0.0))
    return Found(value, formula(max(gap.value, 0.0) + gap.error) - value)


def _earnings(roles: Sequence[Role], runs: Sequence[Run]) -> tuple[Earnings, ...]:
    joined, paid, utility, gain = (_column(runs, name) for name in ("joined", "paid", "utility", "gain"))
    return tuple(
        Earnings(
            agent=role.agent.name,
            players=role.count,
            joined=mean(joined[:, k]),
            payment=ratio(paid[:, k], joined[:, k]),
            utility=ratio(utility[:, k], joined[:, k]),
            gain=ratio(gain[:, k], joined[:, k]),
        )
        for k, role in enumerate(roles)
    )
