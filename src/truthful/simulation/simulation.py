"""Simulate: from a plan and shares of agents to whole studies, observed next to guaranteed.

`rates` shows how error, lies and cost fall as a study grows, under the paper's schedule of parameters and under ours.
The corollary lets privacy, payments and penalty change with n. Both schedules are run with people of the paper's
strategy σ_τ, who lie as far as they can if their privacy cost is above τ: the paper's by its Algorithm 2, ours by one
release. The paper's ridge is given the noise that protects, which its own does not (E3). Its b = n^(−3/2) deters no
lie: in the limit D grows with n (E22).
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

import numpy as np

from truthful import check
from truthful.agents import Agent, asked_game, game, share_game
from truthful.agents.games import geometry_of, promise
from truthful.bounds import Setting, proved, published
from truthful.check import Floats
from truthful.costs import ParetoCosts
from truthful.errors import InputError
from truthful.formatting import Viewable
from truthful.guarantees import Guarantees, model
from truthful.noise import L2Laplace
from truthful.one_release import OneRelease
from truthful.plan import Plan
from truthful.regression import Mechanism, private_regression
from truthful.simulation.best_responses import BestResponse, best_responses
from truthful.simulation.measurements import (
    UNKNOWN,
    Earnings,
    LevelObserved,
    Lie,
    MeasuredGuarantees,
    Measurement,
    ShareObserved,
    average_guarantees,
    best_share_lie,
    column,
    mean,
    measure,
    measure_earnings,
    measure_level,
    measure_shares,
)
from truthful.simulation.population import (
    Features,
    FeatureSource,
    PopulationRole,
    assign_roles,
    draw_features,
    features_of,
    sampler,
)
from truthful.simulation.predictors import predictor_of
from truthful.simulation.runs import AskedContext, NumberContext, Run, ShareContext, run_study
from truthful.study import Study
from truthful.version import __version__

FORMAT = "truthful/simulation/2"
T = TypeVar("T")

#: Told as a simulation goes on: the stage, studies done, studies in all.
Progress = Callable[[str, int, int | None], None]
#: From so many players on, studies run beside each other; threads of smaller ones mostly wait for their turn in Python.
THREADED = 20_000
#: Of so many studies it is computed what is guaranteed for their own people, where it follows from their features.
BOUNDED = 40
#: Of so many studies the intervals that they would publish are made: each takes longer than all else in a study.
INTERVALS = 200
#: Whose guarantees stand next to what was observed: the plan's, or those for the people of each study, on average.
PLANS, PEOPLES = "plan", "people"


@dataclass(frozen=True, eq=False)
class Simulation(Viewable):
    """Whole studies with simulated people. Plan, agents, runs, seed, given features and versions (also of numpy, the
    source of randomness) determine it."""

    plan: Plan
    roles: tuple[PopulationRole, ...]
    runs: int
    seed: int
    features: FeatureSource
    observed: MeasuredGuarantees
    guaranteed: Guarantees
    """What is guaranteed: the plan's own or, where it follows from people's features and these are others than the
    plan was made for, what holds for the people of each study, on average over the first of them."""
    guaranteed_for: str
    guaranteed_gap: float
    """g, the bound on the gap, from which η and D follow."""
    guaranteed_liars: float
    """That bound, η and D hold if no more than so many lie on average."""
    earnings: tuple[Earnings, ...]
    best_response: BestResponse
    papers_best_response: BestResponse
    studies: tuple[Run, ...] = field(repr=False)
    """What was kept of each study, in order."""

    def record(self) -> dict[str, Any]:
        """As printed by `truthful simulate --json`; numbers that are not known are null."""
        record = {
            "format": FORMAT,
            "version": __version__,
            "numpy": np.__version__,
            "plan": self.plan.record(),
            "agents": [role.record() for role in self.roles],
            "runs": self.runs,
            "seed": self.seed,
            "features": asdict(self.features),
            "observed": asdict(self.observed),
            "guaranteed": self.guaranteed.record(),
            "guaranteed_for": self.guaranteed_for,
            "guaranteed_gap": self.guaranteed_gap,
            "guaranteed_liars": self.guaranteed_liars,
            "earnings": [asdict(row) for row in self.earnings],
            **self._own_fields(),
        }
        return {name: _json_value(value) for name, value in record.items()}

    def _own_fields(self) -> dict[str, Any]:
        """The fields of the record beyond those of all kinds of answers."""
        return {
            "best_response": asdict(self.best_response),
            "papers_best_response": asdict(self.papers_best_response),
        }


@dataclass(frozen=True, eq=False, kw_only=True)
class ShareSimulation(Simulation):
    """A simulation of yes and no, or of ratings. Lies are judged by what the truth earns over them: η and D are not
    known, and nothing is computed by the paper's rule.
    """

    shares: ShareObserved
    best_lie: Lie
    """The lie of any size that paid best, for people who are alike."""

    def _own_fields(self) -> dict[str, Any]:
        return {"shares": asdict(self.shares), "best_lie": asdict(self.best_lie)}


@dataclass(frozen=True, eq=False, kw_only=True)
class AskedSimulation(Simulation):
    """A simulation of numbers where people are asked what the others will say. Own predictions are s times an
    answer, and so is D in `observed`; nothing is computed by the paper's rule.
    """

    level: LevelObserved

    def _own_fields(self) -> dict[str, Any]:
        return {"level": asdict(self.level)}


def _json_value(record: Any) -> Any:
    """JSON has neither NaN nor infinity."""
    if isinstance(record, dict):
        return {name: _json_value(value) for name, value in record.items()}
    if isinstance(record, list | tuple):
        return [_json_value(value) for value in record]
    return None if isinstance(record, float) and not math.isfinite(record) else record


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

    `agents` gives the share of players of each kind, by name or as an Agent; the others are honest. Coefficients are
    drawn from the prior, features from the design, costs from their law. Where the study does not say how features are
    distributed, `features` does: a function of (rng, n), or an array whose rows are drawn from, normalised. If it is
    the roster that the plan was made for, everybody on it takes part, or as many as are expected to answer.
    Every study has its own random stream, so the first studies of a long simulation are those of a short one.
    """
    check.instance("plan", plan, Plan, "Read one with Plan.load(path), or make one with design.")
    check.function("progress", progress)
    runs, seed = check.integer("runs", runs), check.integer("seed", seed, least=0)
    draw, brought = features_of(plan, features)
    people = draw(np.random.default_rng(seed), plan.answering)
    context = set_up(plan, assign_roles(agents, plan.answering), draw, runs, people)
    numbers = isinstance(context, NumberContext)
    # Without features what is guaranteed is the same for all.
    follows = geometry_of(plan, people) is not None if numbers else bool(plan.study.features)
    recomputed = follows and not brought.everybody
    done: list[Run] = []

    def study(place: int, rng: np.random.Generator) -> Run:
        return run_study(context, rng, bounded=recomputed and place < BOUNDED, intervals=place < INTERVALS)

    for run in in_order(study, plan.answering, runs, seed):
        done.append(run)
        if progress is not None:
            progress("Simulating studies", len(done), runs)
    levels = 0 if isinstance(context, NumberContext) else context.game.levels
    best = best_share_lie(done, levels, 1) if levels else None
    guaranteed, gap = average_guarantees(context, done) if recomputed else (plan.guarantees, context.game.gap)
    known: dict[str, Any] = {
        "plan": plan,
        "roles": context.roles,
        "runs": runs,
        "seed": seed,
        "features": brought,
        "observed": measure(context, guaranteed, done, best),
        "guaranteed": guaranteed,
        "guaranteed_for": PEOPLES if recomputed else PLANS,
        "guaranteed_gap": gap,
        "guaranteed_liars": context.game.liars,
        "earnings": measure_earnings(context.roles, done),
        "studies": tuple(done),
    }
    if isinstance(context, NumberContext):
        # Lies of no size are told from the truth by own predictions that are exact.
        exact = replace(context.game, predictor=predictor_of(plan, 0, people))
        ours, papers = best_responses(plan, exact, draw, np.random.default_rng(seed))
        return Simulation(**known, best_response=ours, papers_best_response=papers)
    known |= dict.fromkeys(
        ("best_response", "papers_best_response"), BestResponse(UNKNOWN, math.nan, UNKNOWN)
    )
    if best is None:
        return AskedSimulation(**known, level=measure_level(plan, done))
    return ShareSimulation(**known, shares=measure_shares(plan, guaranteed, done, levels), best_lie=best)


def set_up(
    plan: Plan, roles: tuple[PopulationRole, ...], features: Features, runs: int, people: Floats
) -> NumberContext | ShareContext | AskedContext:
    """The common part of all studies. `people` are some who can take part."""
    threshold = plan.guarantees.participation.cost_threshold
    shared: dict[str, Any] = {
        "plan": plan,
        "roles": roles,
        "features": features,
        "cost_threshold": math.inf if threshold is None else threshold,
    }
    if plan.asked_mechanism is not None:
        return AskedContext(**shared, game=asked_game(plan, people))
    if plan.share_mechanism is not None:
        return ShareContext(**shared, game=share_game(plan, people))
    return set_up_numbers(plan, roles, features, runs, people)


def set_up_numbers(
    plan: Plan, roles: tuple[PopulationRole, ...], features: Features, runs: int, people: Floats | None = None
) -> NumberContext:
    """The common part of studies of numbers; tables of own predictions are built here, once."""
    if people is None:
        people = features(np.random.default_rng(0), plan.answering)
    # Each player's is computed when she is paid, besides those that she asks for.
    own = predictor_of(plan, runs * sum(role.count * (1 + role.agent.looks) for role in roles), people)
    return NumberContext(
        plan=plan,
        roles=roles,
        features=features,
        cost_threshold=float(proved.joining_threshold(promise(plan, people))),
        game=game(plan, own, people),
        noise=sampler(plan.study.beliefs.noise),
        typical_answer=math.sqrt(model(plan.study).mean_square + plan.study.beliefs.noise_variance),
    )


def in_order(
    study: Callable[[int, np.random.Generator], T], players: int, runs: int, seed: int
) -> Iterator[T]:
    """The results of this many studies, in order. Each has a random stream of its own."""
    streams = map(np.random.default_rng, np.random.SeedSequence(seed).spawn(runs))
    if players < THREADED:
        yield from map(study, range(runs), streams)
        return
    pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)))
    try:
        yield from pool.map(study, range(runs), streams)
    finally:
        pool.shutdown(cancel_futures=True)


PLAYERS = (1_000, 3_162, 10_000, 31_623, 100_000)


@dataclass(frozen=True)
class Point:
    """At n players: E‖θ̂ − θ‖² and the total of payments, simulated and bounded, and D, the largest lie that can pay.

    The error is averaged over the noise, whose part of it is known exactly. Bounds and D are published ones for the
    paper's schedule, mistakes included, and proved ones for ours.
    """

    players: int
    error: Measurement
    error_bound: float
    lie: float
    budget: Measurement
    budget_bound: float


@dataclass(frozen=True)
class Exponents:
    """Powers of n."""

    error: float
    lie: float
    budget: float


@dataclass(frozen=True)
class RateCurve:
    """One schedule: its points, powers of n fitted to simulations (D: computed), and those of its theorem."""

    schedule: str
    points: tuple[Point, ...]
    fitted: Exponents
    theorem: Exponents


def rates(
    study: Study,
    *,
    players: Sequence[int] = PLAYERS,
    delta: float = 0.25,
    k: float = 0.1,
    runs: int = 40,
    seed: int = 0,
) -> tuple[RateCurve, RateCurve]:
    """The paper's schedule and ours, on a study of its kind: features on the unit ball, Pareto costs."""
    costs = study.costs
    if study.design.kind != "unit-ball" or not isinstance(costs, ParetoCosts):
        raise InputError(
            f"The study has design {study.design.kind!r} and {type(costs).__name__}; the corollary is for "
            "design.kind = 'unit-ball' and costs.kind = 'pareto'."
        )
    tail, n = costs.tail, np.asarray(players, dtype=np.float64)
    theirs = published.schedule(model(study), costs, n, delta=delta, tail=tail)
    ours = proved.schedule(model(study), costs, n, delta=delta, tail=tail, k=k)
    promised = published.rates(delta)
    # E16: the paper's proof has accuracy n^(−δ/2). D is √(τε²/b) in the end, with its τ = n^(1/2−δ).
    stated = Exponents(promised.accuracy, delta / 2, promised.budget)
    # D is made of g, which falls as α, and of √(τh(ε)/b).
    holds = Exponents(-2 * delta, max(-delta, (delta / tail - 1 + 2 * delta + k) / 2), -k)
    return (
        RateCurve("published", *_fit(_points(study, theirs, published, _run_papers, runs, seed)), stated),
        RateCurve("proved", *_fit(_points(study, ours, proved, _run_ours, runs, seed)), holds),
    )


def _points(
    study: Study,
    s: Setting,
    bounds: Any,
    run: Callable[[Study, Setting, int, int], tuple[Floats, Floats]],
    runs: int,
    seed: int,
) -> tuple[Point, ...]:
    """The point at each n of a schedule."""
    names = ("n", "epsilon", "alpha", "beta", "a", "b", "gamma")
    rows = zip(*(np.broadcast_to(getattr(s, name), np.shape(s.n)).tolist() for name in names), strict=True)
    points = []
    for row in rows:
        at = s.at(**dict(zip(names, row, strict=True)))
        # In units of b: real payments of these sizes would be rounded to nothing.
        errors, bills = run(study, at.at(a=at.a / at.b, b=1.0), runs, seed)
        points.append(
            Point(
                players=int(at.n),
                error=mean(errors),
                error_bound=float(bounds.accuracy(at)),
                lie=float(bounds.lie_size(at)),
                budget=mean(bills).times(float(at.b)),
                budget_bound=float(bounds.budget(at)),
            )
        )
    return tuple(points)


def _run_ours(study: Study, s: Setting, runs: int, seed: int) -> tuple[Floats, Floats]:
    """Squared errors and totals of payments of this many studies with one release."""
    mechanism = OneRelease(
        epsilon=float(s.epsilon),
        estimator=s.estimator,
        design=study.second_moments,
        base_payment=float(s.a),
        score_weight=float(s.b),
        clip=study.beliefs.radius,
        rule=s.rule,
        payments=s.payments,
    )
    plan = Plan(study, int(s.n), mechanism, absent_share=float(s.alpha), failure_probability=float(s.beta))
    seen = simulate(plan, {"cost-threshold": 1.0}, runs=runs, seed=seed).studies
    return column(seen, "mean_squared_error"), column(seen, "total")


def _run_papers(study: Study, s: Setting, runs: int, seed: int) -> tuple[Floats, Floats]:
    """The same for the paper's Algorithm 2, with random halves and ridges."""
    mechanism = Mechanism(
        epsilon=float(s.epsilon),
        base_payment=float(s.a),
        score_weight=float(s.b),
        estimator="ridge-free",
        public_share=0.5,
        regularization=float(s.gamma),
        rule=s.rule,
        payments=s.payments,
    )
    beliefs, n, d = study.beliefs, int(s.n), study.dimension
    noise = sampler(beliefs.noise)
    threshold = float(proved.threshold(s))

    def run_once(place: int, rng: np.random.Generator) -> tuple[float, float]:
        theta, x = beliefs.prior.sample(rng, d, 1)[0], draw_features(study, rng, n)
        y = x @ theta + noise(rng, n)
        lie = -beliefs.response_bound * np.sign(y)
        told = np.where(study.costs.sample(rng, n) <= threshold, y, lie)
        found = private_regression(x, told, beliefs, mechanism, rng=rng)
        off = np.linalg.solve(mechanism.gamma * np.eye(d) + x.T @ x, x.T @ told) - theta
        drawn = L2Laplace(d, found.estimates.public.scale).mean_square_norm
        return float(off @ off) + drawn, float(found.payments.sum())

    errors, bills = np.array(list(in_order(run_once, n, runs, seed))).T
    return errors, bills


def _fit(points: tuple[Point, ...]) -> tuple[tuple[Point, ...], Exponents]:
    """The slopes of logarithms over log n, by least squares."""
    n = np.log([point.players for point in points])

    def power(values: list[float]) -> float:
        return float(np.polyfit(n, np.log(values), 1)[0])

    return points, Exponents(
        error=power([point.error.value for point in points]),
        lie=power([point.lie for point in points]),
        budget=power([point.budget.value for point in points]),
    )
