"""Simulate: from a plan and a cast of agents to what whole studies of theirs look like, next to what is guaranteed."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from truthful import check
from truthful.agents import Agent, Game, game
from truthful.agents.games import SumGame, geometry_of, promise
from truthful.bounds import Setting, proved, published
from truthful.check import Floats
from truthful.costs import ParetoCosts
from truthful.errors import InputError
from truthful.guarantees import Guarantees, model
from truthful.plan import Plan
from truthful.random_halves import Mechanism
from truthful.simulation.best_responses import BestResponse, best_responses
from truthful.simulation.measurements import (
    INTERVALS,
    UNKNOWN,
    BestLie,
    Found,
    LevelObserved,
    Lie,
    Paid,
    ShareObserved,
    best_lie,
    best_share_lie,
    guaranteed_shares,
    mean,
    observed_level,
    observed_shares,
    ratio,
    set_up_predictions,
    set_up_shares,
)
from truthful.simulation.population import Brought, Features, Role, cast, features_of, sampler
from truthful.simulation.predictors import predictors
from truthful.simulation.runs import (
    AskedStage,
    Run,
    ShareRun,
    ShareStage,
    Stage,
    run_asked_study,
    run_share_study,
    run_study,
)
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
#: Whose guarantees stand next to what was observed: the plan's, or those for the people of each study, on average.
PLANS, PEOPLES = "plan", "people"
#: Of lies that cost nothing.
NO_LIMIT = Found(math.inf, math.nan)


@dataclass(frozen=True)
class Truthfulness:
    """gap: how far peers' predictions lie from truthful own predictions, where that is furthest (compare g).

    gain: what the best lie found gains in payments. slack and lie: the formulas of η and D with that gap for g, all of
    the privacy cost that a lie may save included; nobody observed them. All four need as many studies as a standard
    error needs. misreports: the share of reports that were lies, and liars how many in a study. beyond: the share of
    studies with more of them than the plan allows for; of those nothing is guaranteed under accuracy.
    """

    gap: Found
    gain: Found
    slack: Found
    lie: Found
    misreports: Found
    liars: Found
    beyond: float


@dataclass(frozen=True)
class Accuracy:
    """mean_squared_error: of the normalised coefficients. rmse: its root, raw. prediction_rmse: of predictions."""

    mean_squared_error: Found
    rmse: float
    prediction_rmse: float


@dataclass(frozen=True)
class Participation:
    """share: of people whom taking part pays, by what truthful people like them were paid on average. Of those whose
    privacy costs are at most the threshold: covered, the same share (all are promised it); covered_paid, of those who
    took part, whom it did pay.
    """

    share: Found
    covered: Found
    covered_paid: Found


@dataclass(frozen=True)
class Budget:
    """total: what a study cost on average. largest: at most. above_likely: the share that cost more than `likely`."""

    total: Found
    largest: float
    above_likely: float | None


@dataclass(frozen=True)
class Observed:
    """The guarantees in their order. Privacy is not seen in answers and payments; an audit measures it."""

    truthfulness: Truthfulness
    accuracy: Accuracy
    participation: Participation
    budget: Budget


@dataclass(frozen=True)
class Earnings:
    """Per player of one kind: how many joined, what they were paid and were left with after their privacy cost, and
    what their lies earned them over the truth.
    """

    agent: str
    players: int
    joined: Found
    payment: Found
    utility: Found
    gain: Found


@dataclass(frozen=True, eq=False)
class Simulation:
    """Whole studies with simulated people. Plan, agents, runs, seed, versions (of numpy too, whose chance it is) and
    the features that were brought make the same one again."""

    plan: Plan
    roles: tuple[Role, ...]
    runs: int
    seed: int
    features: Brought
    observed: Observed
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
            "earnings": [asdict(one) for one in self.earnings],
            "best_response": asdict(self.best_response),
            "papers_best_response": asdict(self.papers_best_response),
        }
        return {name: _known(value) for name, value in record.items()}


@dataclass(frozen=True, eq=False, kw_only=True)
class ShareSimulation(Simulation):
    """The same of yes and no, or of ratings. Of lies counts what the truth earned over them: η and D are not known, and
    nothing is computed of the paper's rule.
    """

    shares: ShareObserved
    best_lie: Lie
    """The lie of any size that paid best, for people who are alike."""

    @property
    def share_studies(self) -> tuple[ShareRun, ...]:
        """What was kept of each study, with what only those of shares have."""
        return tuple(run for run in self.studies if isinstance(run, ShareRun))

    def record(self) -> dict[str, Any]:
        record = super().record()
        for name in ("best_response", "papers_best_response"):
            del record[name]
        return {**record, "shares": _known(asdict(self.shares)), "best_lie": _known(asdict(self.best_lie))}


@dataclass(frozen=True, eq=False, kw_only=True)
class AskedSimulation(Simulation):
    """The same of numbers where people are asked what the others will say. Own predictions are s times an answer, and D
    is so in `observed`; nothing is computed of the paper's rule.
    """

    level: LevelObserved

    def record(self) -> dict[str, Any]:
        record = super().record()
        for name in ("best_response", "papers_best_response"):
            del record[name]
        return {**record, "level": _known(asdict(self.level))}


def _known(record: Any) -> Any:
    """JSON has neither NaN nor infinity."""
    if isinstance(record, dict):
        return {name: _known(value) for name, value in record.items()}
    if isinstance(record, list | tuple):
        return [_known(value) for value in record]
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

    `agents` gives the share of players of each kind, by name or as an Agent; who is left is honest. Coefficients are
    drawn from the prior, features from the design, costs from their law. Where the study does not say how features are
    distributed, `features` does: a function of (rng, n), or an array whose rows are drawn from, normalised. If it is
    the roster that the plan was made for, everybody on it takes part, or as many as are expected to answer.
    Every study has its own random stream, so the first studies of a long simulation are those of a short one.
    """
    runs, seed = check.integer("runs", runs), check.integer("seed", seed, least=0)
    draw, brought = features_of(plan, features)
    people = draw(np.random.default_rng(seed), plan.answering)
    if plan.share_mechanism is not None or plan.asked_mechanism is not None:
        prepare = set_up_shares if plan.asked_mechanism is None else set_up_predictions
        stage_of_sums = prepare(plan, cast(agents, plan.answering), draw, people)
        return _simulate_sums(stage_of_sums, brought, runs, seed, progress)
    stage = set_up(plan, cast(agents, plan.answering), draw, runs, people)
    recomputed = geometry_of(plan, people) is not None and not brought.everybody
    done = []
    for run in in_order(partial(_study, stage, recomputed), plan.answering, runs, seed):
        done.append(run)
        if progress is not None:
            progress("Simulating studies", len(done), runs)
    # Lies of no size are told from the truth by own predictions that are exact.
    exact = replace(stage.game, predictor=predictors(plan, 0, people)(max(1, plan.players // 2)))
    ours, papers = best_responses(plan, exact, draw, np.random.default_rng(seed))
    guaranteed, gap = _guaranteed(stage, done) if recomputed else (plan.guarantees, stage.game.gap)
    return Simulation(
        plan,
        stage.roles,
        runs,
        seed,
        brought,
        observed=_observed(stage, guaranteed, done, _truthfulness(stage, done)),
        guaranteed=guaranteed,
        guaranteed_for=PEOPLES if recomputed else PLANS,
        guaranteed_gap=gap,
        guaranteed_liars=stage.game.liars,
        earnings=_earnings(stage.roles, done),
        best_response=ours,
        papers_best_response=papers,
        studies=tuple(done),
    )


def _simulate_sums(
    stage: ShareStage | AskedStage, brought: Brought, runs: int, seed: int, progress: Progress | None
) -> Simulation:
    """Studies of shares, or that ask for predictions. Without features what is guaranteed is the same for all."""
    plan, levels = stage.plan, stage.game.levels
    recomputed = bool(plan.study.features) and not brought.everybody
    done: list[ShareRun] = []
    for run in in_order(partial(_sum_study, stage, recomputed), plan.answering, runs, seed):
        done.append(run)
        if progress is not None:
            progress("Simulating studies", len(done), runs)
    guaranteed = guaranteed_shares(plan, done) if recomputed else plan.guarantees
    unknown = BestResponse(UNKNOWN, math.nan, UNKNOWN)
    best = best_share_lie(done, levels, 1) if levels else None
    truthfulness = _asked_truthfulness(stage, done) if best is None else _share_truthfulness(plan, done, best)
    known: dict[str, Any] = {
        "plan": plan,
        "roles": stage.roles,
        "runs": runs,
        "seed": seed,
        "features": brought,
        "observed": _observed(stage, guaranteed, done, truthfulness),
        "guaranteed": guaranteed,
        "guaranteed_for": PEOPLES if recomputed else PLANS,
        "guaranteed_gap": stage.game.gap,
        "guaranteed_liars": stage.game.liars,
        "earnings": _earnings(stage.roles, done),
        "best_response": unknown,
        "papers_best_response": unknown,
        "studies": tuple(done),
    }
    if best is None:
        return AskedSimulation(**known, level=observed_level(plan, done))
    return ShareSimulation(**known, shares=observed_shares(plan, guaranteed, done, levels), best_lie=best)


def _sum_study(
    stage: ShareStage | AskedStage, recomputed: bool, place: int, rng: np.random.Generator
) -> ShareRun:
    bounded, intervals = recomputed and place < BOUNDED, place < INTERVALS
    if isinstance(stage, AskedStage):
        return run_asked_study(stage, rng, bounded, intervals)
    return run_share_study(stage, rng, bounded, intervals)


def set_up(
    plan: Plan, roles: tuple[Role, ...], features: Features, runs: int, people: Floats | None = None
) -> Stage:
    """What all studies share; tables of own predictions are built here, once. People are some that can take part."""
    if people is None:
        people = features(np.random.default_rng(0), plan.answering)
    # Each player's is computed when she is paid, besides those that she asks for.
    own = predictors(plan, runs * sum(role.count * (1 + role.agent.looks) for role in roles), people)
    return Stage(
        plan,
        roles,
        game(plan, own(max(1, plan.players // 2)), people),
        own,
        features,
        sampler(plan.study.beliefs.noise),
        cost_threshold=float(proved.joining_threshold(promise(plan, people))),
        typical_answer=math.sqrt(model(plan.study).mean_square + plan.study.beliefs.noise_variance),
    )


def _study(stage: Stage, recomputed: bool, place: int, rng: np.random.Generator) -> Run:
    return run_study(stage, rng, bounded=recomputed and place < BOUNDED)


def in_order(
    study: Callable[[int, np.random.Generator], T], players: int, runs: int, seed: int
) -> Iterator[T]:
    """What each of so many studies gives, in their order. Each has a random stream of its own."""
    streams = map(np.random.default_rng, np.random.SeedSequence(seed).spawn(runs))
    if players < THREADED:
        yield from map(study, range(runs), streams)
        return
    pool = ThreadPoolExecutor(len(os.sched_getaffinity(0)))
    try:
        yield from pool.map(study, range(runs), streams)
    finally:
        pool.shutdown(cancel_futures=True)


def _guaranteed(stage: Stage, runs: Sequence[Run]) -> tuple[Guarantees, float]:
    """What holds for the people of the studies, on average over those for which it was computed; and its gap."""
    plan, bounds = stage.plan, [run.bounds for run in runs if run.bounds is not None]
    means = {name: float(np.mean([getattr(one, name) for one in bounds])) for name in asdict(bounds[0])}
    known = {name: value if math.isfinite(value) else None for name, value in means.items()}
    unit, promised = plan.study.response_unit, plan.guarantees
    rmse, predicted = (
        None if known[name] is None else unit * math.sqrt(means[name])
        for name in ("mean_squared_error", "prediction_error")
    )
    slope, threshold = promised.truthfulness.slope, stage.cost_threshold
    in_answer = means["lie"] / slope * unit if slope > 0 and known["lie"] is not None else None
    return (
        replace(
            promised,
            truthfulness=replace(
                promised.truthfulness, lie=known["lie"], slack=known["slack"], lie_in_answer=in_answer
            ),
            accuracy=replace(
                promised.accuracy,
                mean_squared_error=known["mean_squared_error"],
                rmse=rmse,
                prediction_rmse=predicted,
            ),
            participation=replace(
                promised.participation,
                share=float(plan.study.costs.cdf(threshold)),
                cost_threshold=threshold if math.isfinite(threshold) else None,
            ),
            budget=replace(promised.budget, expected=known["expected"], cap=known["cap"]),
        ),
        means["gap"],
    )


def _column(runs: Sequence[Run], name: str) -> Floats:
    """One number, or one array, of every study."""
    return np.array([getattr(run, name) for run in runs], dtype=np.float64)


def _observed(
    stage: Stage | ShareStage | AskedStage,
    promised: Guarantees,
    runs: Sequence[Run],
    truthfulness: Truthfulness,
) -> Observed:
    plan = stage.plan
    errors, predictions = _column(runs, "squared_error"), _column(runs, "prediction_error")
    paid = Paid(*(_column(runs, f"cell_{name}") for name in ("people", "truthful", "paid")))
    share, covered = paid.worthwhile(plan.study.costs, stage.game.privacy_cost, stage.cost_threshold)
    totals, likely = _column(runs, "total"), promised.budget.likely
    unit = plan.study.response_unit
    return Observed(
        truthfulness,
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
    return _with_formulas(stage.plan, stage.plan.number_mechanism.score_weight, stage.game, runs)


def _asked_truthfulness(stage: ShareStage | AskedStage, runs: Sequence[Run]) -> Truthfulness:
    """The same where people are asked what the others will say."""
    mechanism = stage.plan.asked_mechanism
    return _with_formulas(stage.plan, 0.0 if mechanism is None else mechanism.score_weight, stage.game, runs)


def _with_formulas(plan: Plan, b: float, game: Game | SumGame, runs: Sequence[Run]) -> Truthfulness:
    found, saved = _best_lie(runs), game.threshold * game.privacy_cost
    return Truthfulness(
        gap=found.gap,
        gain=found.gain.times(b),
        slack=_with_gap(found.gap, lambda gap: b * gap**2 + saved),
        lie=_with_gap(found.gap, lambda gap: gap + math.sqrt(gap**2 + saved / b)) if b > 0 else NO_LIMIT,
        **_lies(plan, runs),
    )


def _share_truthfulness(plan: Plan, runs: Sequence[Run], best: Lie) -> Truthfulness:
    """Of shares: η and D are not known, and what the best lie gains is what it was seen to."""
    return Truthfulness(
        gap=_best_lie(runs).gap, gain=best.gain, slack=UNKNOWN, lie=UNKNOWN, **_lies(plan, runs)
    )


def _best_lie(runs: Sequence[Run]) -> BestLie:
    return best_lie(_column(runs, "cell_players"), _column(runs, "cell_surplus"))


def _lies(plan: Plan, runs: Sequence[Run]) -> dict[str, Any]:
    """How many lied."""
    misreports, joined = _column(runs, "misreports"), _column(runs, "joined").sum(axis=1)
    return {
        "misreports": ratio(misreports, joined),
        "liars": mean(misreports),
        "beyond": float(np.mean(misreports > plan.absent_share * joined + 1e-9)),
    }


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


PLAYERS = (1_000, 3_162, 10_000, 31_623, 100_000)


@dataclass(frozen=True)
class Point:
    """At n players: E‖θ̂ − θ‖² and the total of payments, simulated and bounded, and D, the largest lie that can pay.

    The error is averaged over the noise, whose own part of it is known exactly. Bounds and D are the schedule's own:
    published for the paper's, mistakes and all, and proved for ours.
    """

    players: int
    error: Found
    error_bound: float
    lie: float
    budget: Found
    budget_bound: float


@dataclass(frozen=True)
class Exponents:
    """Powers of n."""

    error: float
    lie: float
    budget: float


@dataclass(frozen=True)
class Curve:
    """One schedule: its points, powers of n fitted to what was simulated (D: computed), and those of its theorem."""

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
) -> tuple[Curve, Curve]:
    """The paper's schedule and ours, on a study of its kind: features on the unit ball, costs of Pareto's law."""
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
        Curve("published", *_fitted(_points(study, theirs, published, runs, seed)), stated),
        Curve("proved", *_fitted(_points(study, ours, proved, runs, seed)), holds),
    )


def _points(study: Study, s: Setting, bounds: Any, runs: int, seed: int) -> tuple[Point, ...]:
    lies, errors, bills = (
        np.broadcast_to(bound(s), np.shape(s.n)).tolist()
        for bound in (bounds.lie_size, bounds.accuracy, bounds.budget)
    )
    weights = np.asarray(s.b).tolist()
    seen = [simulate(plan, {"cost-threshold": 1.0}, runs=runs, seed=seed) for plan in _plans(study, s)]
    return tuple(
        Point(
            players=int(n),
            error=mean(np.array([run.mean_squared_error for run in one.studies])),
            error_bound=error,
            lie=lie,
            budget=one.observed.budget.total.times(b),
            budget_bound=bill,
        )
        for n, one, error, lie, bill, b in zip(
            np.asarray(s.n).tolist(), seen, errors, lies, bills, weights, strict=True
        )
    )


def _plans(study: Study, s: Setting) -> list[Plan]:
    """The plan at each n of a schedule, in units of b: real payments of these sizes would be rounded to nothing."""
    numbers = ("n", "epsilon", "alpha", "beta", "a", "b", "gamma")
    rows = zip(*(np.broadcast_to(getattr(s, name), np.shape(s.n)).tolist() for name in numbers), strict=True)
    return [
        Plan(
            study,
            int(n),
            Mechanism(
                epsilon=epsilon,
                base_payment=a / b,
                score_weight=1.0,
                estimator=s.estimator,
                peer_estimator=s.peer_estimator,
                public_share=float(s.public_share),
                regularization=gamma,
                rule=s.rule,
                payments=s.payments,
                design=study.second_moments,
            ),
            absent_share=alpha,
            failure_probability=beta,
        )
        for n, epsilon, alpha, beta, a, b, gamma in rows
    ]


def _fitted(points: tuple[Point, ...]) -> tuple[tuple[Point, ...], Exponents]:
    """The slopes of logarithms over log n, by least squares."""
    n = np.log([point.players for point in points])

    def power(values: list[float]) -> float:
        return float(np.polyfit(n, np.log(values), 1)[0])

    return points, Exponents(
        error=power([point.error.value for point in points]),
        lie=power([point.lie for point in points]),
        budget=power([point.budget.value for point in points]),
    )
