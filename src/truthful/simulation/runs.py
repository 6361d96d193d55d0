"""One simulated study: people are drawn, answer and are paid; kept are their earnings and the errors of estimates.

`run_study` is the same for all kinds of answers. Their contexts hold the differences: how people are drawn, how answers
are settled, which cells group similar people, and what an answer would earn on average over the luck of the draw.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from truthful.agents import AskedGame, Game, Players, ShareGame
from truthful.agents.games import AnyGame, SumGame, share_promise, sum_geometry
from truthful.asked_release import SERUM, AskedPaymaster, level_of
from truthful.bounds import proved
from truthful.bounds.share_bounds import gain as share_gain
from truthful.check import Floats
from truthful.errors import Refused
from truthful.geometry import Geometry, measure
from truthful.guarantees import guarantees, setting
from truthful.moments import (
    GRID,
    PRODUCT,
    Sums,
    along,
    grid_features,
    grid_responses,
    instruments_on_grid,
    sums,
)
from truthful.noise import L2Laplace
from truthful.one_release import LeaveOneOut, payable, peer_predictions, require_invertible
from truthful.people import answers, draw_answers, draw_centre, draw_level, draw_shares
from truthful.plan import Plan
from truthful.regression import fast_answer
from truthful.release.coefficients import everybody_row, released_numbers
from truthful.release.release import Coefficient
from truthful.share_release import SharePaymaster
from truthful.simulation.population import Features, PopulationRole, Sampler
from truthful.study.credibility import REACH, expected_shares

Indices = npt.NDArray[np.int64]

#: So finely is the distribution of payments kept, by so many people for each share of them.
SHARES, ENOUGH = 50, 40
#: So many people of a study are looked at in cells. Their peers are the same, so that more would say little more.
LOOKED_AT = 2_000
#: Cells of people are told apart by the signs of so many features at most.
SIGNS = 4
#: Answers that are numbers are told apart by how many standard deviations they are from what was expected.
EDGES = (-1.0, 0.0, 1.0)
#: The probability with which published intervals are to cover the truth.
LEVEL = 0.95


@dataclass(frozen=True, eq=False, kw_only=True)
class Run:
    """The record of one study. Arrays have an entry for each role, or each cell."""

    squared_error: float
    mean_squared_error: float
    """The same on average over the noise in the published estimate, all else being as it is, where that is known."""
    prediction_error: float
    misreports: int
    covered_joined: int
    covered_paid: int
    joined: Floats
    paid: Floats
    utility: Floats
    gain: Floats
    cell_people: Floats
    """Of those who were looked at; players are those of them who came, and cell_surplus is Σ(p̄ − q) over these."""
    cell_players: Floats
    cell_surplus: Floats
    cell_truthful: Floats
    cell_paid: Floats
    """What the truthful of each cell were paid, together."""
    cell_lost: Floats
    """By cell, and by what is said there: what the truth earns over it, added up over those who were looked at."""
    cell_earned: Floats
    """The same, of what is paid for it; both have no columns where answers are numbers."""
    payments: Floats
    """Quantiles of what people were paid, at the middles of SHARES equal shares of them."""
    bounds: dict[str, float] | None = None
    """What is guaranteed for just those who came, where that was computed."""
    share_error: float = math.nan
    """Of shares and with predictions, in raw units: how far the average of everybody is off, and each difference."""
    effect_errors: Floats = field(default_factory=lambda: np.zeros(0))
    covered: Floats | None = None
    """Of these numbers in the same order, whether the interval covers the truth; None where no intervals were made."""

    @property
    def total(self) -> float:
        """The total of all payments."""
        return float(self.paid.sum())


def run_study(
    context: Context, rng: np.random.Generator, bounded: bool = False, intervals: bool = True
) -> Run:
    """Draw coefficients, people and their costs, let them answer, and run the mechanism.

    bounded: also compute the guarantees for exactly these people. intervals: also compute the published intervals.
    """
    context, theta, everybody = context.draw(rng)
    told = context.ask(everybody, rng)
    looked_at = context.look_at(everybody.x)
    cells = context.cells_of(everybody[looked_at])
    cell_people = np.bincount(cells, minlength=context.cells).astype(np.float64)
    joined, roles, here = everybody, context.role_of, ~np.isnan(told[0])
    if not here.all():
        came, seen = np.flatnonzero(here), here[looked_at]
        cells, looked_at = cells[seen], np.searchsorted(came, looked_at[seen])
        joined, roles, told = everybody[came], roles[came], told[:, came]
    outcome = context.settle(joined.x, told, rng)
    lied = np.flatnonzero(np.abs(told[0] - joined.y) > 1 / GRID)
    off, exact = outcome.theta - theta, outcome.exact - theta
    return Run(
        squared_error=float(off @ off),
        mean_squared_error=float(exact @ exact) + outcome.noise_error,
        prediction_error=float(np.mean(np.square(along(everybody.x, off)))),
        misreports=len(lied),
        **_by_role(context, outcome, roles, joined, lied),
        cell_people=cell_people,
        **_by_cell(context, outcome, cells, looked_at, joined, lied, theta),
        payments=quantiles(outcome.paid),
        bounds=context.bounds(joined.x) if bounded else None,
        **context.errors(outcome, theta, intervals),
    )


def _by_role(
    context: Context, outcome: SimulatedSettlement, roles: Indices, joined: Players, lied: Indices
) -> dict[str, Any]:
    """By role: participants, their pay, and what their answers earned over the truth, given their peers' predictions.

    And of those who are promised that taking part pays: how many came, and for how many it did pay.
    """
    count, covered = len(context.roles), joined.costs <= context.cost_threshold
    utility, gain = outcome.paid - joined.costs * context.game.privacy_cost, np.zeros(len(roles))
    if len(lied):
        gain[lied] = outcome.paid[lied] - outcome.pay(lied, joined.y[lied])
    return {
        "covered_joined": int(np.count_nonzero(covered)),
        "covered_paid": int(np.count_nonzero(covered & (utility >= 0))),
        "joined": np.bincount(roles, minlength=count).astype(np.float64),
        **{
            name: np.bincount(roles, weights=values, minlength=count)
            for name, values in (("paid", outcome.paid), ("utility", utility), ("gain", gain))
        },
    }


def _by_cell(
    context: Context,
    outcome: SimulatedSettlement,
    cells: Indices,
    indices: Indices,
    joined: Players,
    lied: Indices,
    theta: Floats,
) -> dict[str, Any]:
    """Sums over cells of similar players, for the observed ones."""
    truthful = np.ones(len(joined.y))
    truthful[lied] = 0.0
    truthful = truthful[indices]
    surplus, lost, earned = context.compare(outcome, indices, joined[indices], truthful == 0, theta)

    def add_up(values: Floats | None = None) -> Floats:
        return np.bincount(cells, weights=values, minlength=context.cells).astype(np.float64)

    def by_answer(columns: list[Floats]) -> Floats:
        return (
            np.stack([add_up(each) for each in columns], axis=1) if columns else np.zeros((context.cells, 0))
        )

    return {
        "cell_players": add_up(),
        "cell_surplus": add_up(surplus),
        "cell_truthful": add_up(truthful),
        "cell_paid": add_up(truthful * outcome.paid[indices]),
        "cell_lost": by_answer(lost),
        "cell_earned": by_answer(earned),
    }


def quantiles(values: Floats) -> Floats:
    """Quantiles at the middles of SHARES equal shares, as np.quantile gives them, by one sort of enough values."""
    values = values[:: max(1, len(values) // (ENOUGH * SHARES))]
    place = (np.arange(SHARES) + 0.5) / SHARES * (len(values) - 1)
    return np.asarray(np.interp(place, np.arange(len(values)), np.sort(values)))


@dataclass(frozen=True, eq=False, kw_only=True)
class SimulatedSettlement:
    """A settlement of the participants: θ̂, peers' predictions, and payments.

    `pay` gives the payments of some of them for other reports: peers' predictions do not change with these.
    """

    theta: Floats
    p: Floats
    paid: Floats
    pay: Callable[[Indices, Floats], Floats]
    exact: Floats
    """θ̂ as it would be without noise, if the law of that is known; else as it is."""
    noise_error: float = 0.0
    """E‖θ̂ − exact‖²; NaN for `noisy-statistics`, whose matrix is random too."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Context(ABC):
    """The common part of all studies of a simulation."""

    plan: Plan
    roles: tuple[PopulationRole, ...]
    features: Features
    cost_threshold: float
    """The cost up to which it is promised that taking part pays."""
    game: Game | SumGame
    asks: ClassVar[str]
    """The method of agents that answers."""

    @cached_property
    def role_of(self) -> Indices:
        """The place of each player's role among the roles."""
        return np.repeat(np.arange(len(self.roles)), [role.count for role in self.roles])

    def costs(self, x: Floats, rng: np.random.Generator) -> Floats:
        """Privacy costs of people with these features. The worst liars get the largest costs."""
        costs = self.plan.study.costs.sample(rng, len(x))
        for role in self.roles:
            weights = role.agent.weights(x[role.players], self.game)
            if weights is not None:
                mine = costs[role.players].copy()
                costs[role.players][np.argsort(-weights, kind="stable")] = np.sort(mine)[::-1]
        return costs

    def ask(self, everybody: Players, rng: np.random.Generator) -> Floats:
        """Everybody's answer (NaN: she stays away) and, in a second row, her prediction where it is asked for."""
        told = (
            getattr(role.agent, self.asks)(everybody[role.players], self.game, rng) for role in self.roles
        )
        return np.concatenate([np.atleast_2d(part) for part in told], axis=1)

    def look_at(self, x: Floats) -> Indices:
        """The people to observe, in their order."""
        return np.arange(0, len(x), max(1, len(x) // LOOKED_AT))

    def errors(self, outcome: Any, theta: Floats, intervals: bool) -> dict[str, Any]:
        """Errors of single published numbers, and whether their intervals cover the truth."""
        return {}

    @property
    @abstractmethod
    def cells(self) -> int:
        """The number of cells of similar people, in which lies that pay are sought."""

    @abstractmethod
    def cells_of(self, players: Players) -> Indices:
        """The cell of each person."""

    @abstractmethod
    def draw(self, rng: np.random.Generator) -> tuple[Self, Floats, Players]:
        """Draw θ by the beliefs, and people whose answers follow it; also return the context of these people."""

    @abstractmethod
    def settle(self, x: Floats, told: Floats, rng: np.random.Generator) -> SimulatedSettlement:
        """A settlement of people with these features and answers, by the code for real studies with fast noise."""

    @abstractmethod
    def compare(
        self, outcome: Any, indices: Indices, people: Players, lies: npt.NDArray[np.bool_], theta: Floats
    ) -> tuple[Floats, list[Floats], list[Floats]]:
        """Of those who are looked at: what q of the truth is compared with, less q; and for every answer what the truth
        earns over it, and what is paid for it."""

    @abstractmethod
    def bounds(self, x: Floats) -> dict[str, float]:
        """The guarantees for people with these features, by name as in `Guarantees`; NaN where there is none."""


def release(
    game: AnyGame, x: Floats, told: Floats, rng: np.random.Generator
) -> tuple[Floats, list[Floats], Sums, LeaveOneOut]:
    """Features and answers on the grid, their sums, and the estimate, by the code for real studies with fast noise.

    It refuses too few people to determine the coefficients.
    """
    (n, d), mechanism, beliefs = x.shape, game.mechanism, game.beliefs
    if n < 2 * d + 1 + len(told):
        raise Refused(
            f"{n} people come to a simulated study, too few to tell {d} coefficients. Plan for more players, or let "
            "fewer of them opt out."
        )
    kx, on_grid = grid_features(x), [grid_responses(row, beliefs.response_bound) for row in told]
    added = sums(kx, on_grid[0], mechanism.transform, mechanism.norm)
    if len(told) > 1:
        added = replace(added, predictions=int(on_grid[1].sum()))
    if mechanism.estimator == "instruments":
        require_invertible(added.matrix)
    return kx, on_grid, added, mechanism.release(added, beliefs, fast_answer(rng))


# Numbers


@dataclass(frozen=True, eq=False, kw_only=True)
class SettledNumbers(SimulatedSettlement):
    """A settlement of numbers.

    q is what her own report predicts. own: q of some players for other reports. expected: p of some players, on average
    over the noise, if its law is known.
    """

    q: Floats
    own: Callable[[Indices, Floats], Floats]
    expected: Callable[[Indices], Floats]


@dataclass(frozen=True, eq=False, kw_only=True)
class NumberContext(Context):
    """The common part of studies of numbers."""

    game: Game
    asks: ClassVar[str] = "reports"
    noise: Sampler
    typical_answer: float
    """√E[y²]."""

    @property
    def cells(self) -> int:
        """8 for each feature, and one for the target of the worst liars."""
        return 8 * self.plan.study.dimension + 1

    def cells_of(self, players: Players) -> Indices:
        """Cells by main feature and its sign, and by sign and size of the answer; the last is the target's."""
        # An intercept is the same for all, and would be everybody's main feature.
        start = int(self.plan.study.declared.encoding.intercept and players.x.shape[1] > 1)
        varying = players.x[:, start:]
        main = np.abs(varying).argmax(axis=1)
        positive = varying[np.arange(len(main)), main] > 0
        size = np.abs(players.y) > self.typical_answer
        cells: Indices = 8 * main + 4 * positive + 2 * (players.y > 0) + size
        cells[self._nearest(players.x)] = self.cells - 1
        return cells

    def _nearest(self, x: Floats) -> int:
        """The person with features nearest to those of the worst liars' target."""
        return int((2 * along(x, self.game.target) - np.einsum("ij,ij->i", x, x)).argmax())

    def look_at(self, x: Floats) -> Indices:
        """The people to observe, in their order, and the one nearest to the worst liars' target."""
        some, target = super().look_at(x), self._nearest(x)
        at = int(np.searchsorted(some, target))
        return some if at < len(some) and some[at] == target else np.insert(some, at, target)

    def draw(self, rng: np.random.Generator) -> tuple[Self, Floats, Players]:
        """Draw θ by the prior, and people whose answers follow it: y = θ·x + z."""
        study, n = self.plan.study, self.plan.answering
        theta = study.beliefs.prior.sample(rng, study.dimension, 1)[0]
        x = self.features(rng, n)
        y = along(x, theta)
        y += self.noise(rng, n)
        return self, theta, Players(x, y, self.costs(x, rng))

    def settle(self, x: Floats, told: Floats, rng: np.random.Generator) -> SettledNumbers:
        """One noisy vector, and everybody else as peers."""
        mechanism, predictor, beliefs = self.game.mechanism, self.game.predictor, self.game.beliefs
        kx, (ky,), added, estimate = release(self.game, x, told, rng)
        exact = estimate.inverse @ (added.vector / PRODUCT).astype(np.float64)
        r, y, _, p, _, noise = peer_predictions(estimate, kx, ky, mechanism.reach)
        q = predictor(r, y, noise)

        def own(indices: Indices, said: Floats) -> Floats:
            return predictor(r[indices], grid_responses(said, beliefs.response_bound) / GRID, noise[indices])

        def expected(indices: Indices) -> Floats:
            peers = peer_predictions(replace(estimate, theta=exact), kx[indices], ky[indices])
            along_x = peers.prediction / np.where(peers.length > 0, peers.length, 1.0)
            return np.asarray(peers.length * mechanism.curve(beliefs)(along_x, noise[indices]))

        # (d+1)s²‖M⁻¹‖²_F
        variance = L2Laplace(len(exact), estimate.scale).marginal_variance * np.sum(estimate.inverse**2)
        return SettledNumbers(
            theta=estimate.theta,
            p=p,
            paid=payable(mechanism, r, p, q),
            pay=lambda indices, said: payable(mechanism, r[indices], p[indices], own(indices, said)),
            exact=exact,
            noise_error=float(variance) if estimate.matrix_scale is None else math.nan,
            q=q,
            own=own,
            expected=expected,
        )

    def compare(
        self,
        outcome: SettledNumbers,
        indices: Indices,
        people: Players,
        lies: npt.NDArray[np.bool_],
        theta: Floats,
    ) -> tuple[Floats, list[Floats], list[Floats]]:
        """p̄ − q of the truth: where its mean is δ the best lie moves q by δ, and none pays that moves it by over 2δ."""
        meant = outcome.q[indices]
        if lies.any():
            meant[lies] = outcome.own(indices[lies], people.y[lies])
        return outcome.expected(indices) - meant, [], []

    def bounds(self, x: Floats) -> dict[str, float]:
        """The guarantees, for plans that protect answers; with g, the bound on the gap."""
        plan, kx = self.plan, grid_features(x)
        mechanism = plan.number_mechanism
        known = measure(kx, instruments_on_grid(kx, mechanism.transform))
        s = setting(plan.study, mechanism, len(x), plan.absent_share, plan.failure_probability, known)
        return {
            "gap": float(proved.gap(s)),
            "slack": float(proved.truthfulness(s)),
            "lie": float(proved.lie_size(s)),
            "mean_squared_error": float(proved.accuracy(s)),
            "prediction_rmse": plan.study.response_unit * math.sqrt(proved.prediction_error(s)),
            "expected": float(proved.budget(s)),
            "cap": float(proved.budget_cap(s)),
        }


# Yes and no, ratings, and whatever asks people what the others will say


@dataclass(frozen=True, eq=False, kw_only=True)
class SettledSums(SimulatedSettlement):
    """A settlement of shares, or with predictions; p is what the others' answers say about people like her.

    surprise is Δ, where people are asked for predictions.
    """

    sums: Sums
    estimate: LeaveOneOut
    surprise: Floats = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True, eq=False, kw_only=True)
class SumContext(Context):
    """The common part of studies of shares and of those with predictions."""

    game: ShareGame | AskedGame

    @property
    def signs(self) -> int:
        """The columns of x whose signs distinguish people: all but the intercept's."""
        return min(SIGNS, self.plan.study.dimension - 1)

    @property
    def kinds(self) -> int:
        """The number of kinds of answers to distinguish."""
        return self.game.levels or len(EDGES) + 1

    @property
    def cells(self) -> int:
        """The number of cells: by signs of features, and by the true answer."""
        return int(2**self.signs * self.kinds)

    def cells_of(self, players: Players) -> Indices:
        """The cell of each person: answers of people with the same signs are neighbours."""
        columns = slice(1, 1 + self.signs)
        signs = (players.x[:, columns] > self.game.mean[columns]) @ (1 << np.arange(self.signs))
        return np.asarray(signs * self.kinds + self.kinds_of(players), dtype=np.int64)

    def kinds_of(self, players: Players) -> Indices:
        """The kind of each answer."""
        return self.game.places(players.y)

    def compare(
        self,
        outcome: SettledSums,
        indices: Indices,
        people: Players,
        lies: npt.NDArray[np.bool_],
        theta: Floats,
    ) -> tuple[Floats, list[Floats], list[Floats]]:
        """As in `Context`, less the luck of the draw, which is 0 on average over studies and moves earnings."""
        surplus, luck, weight = self.surplus(outcome, indices, people, theta)
        told, said = outcome.pay(indices, people.y), self.game.answers.tolist()
        paid = [outcome.pay(indices, np.full(len(indices), answer)) for answer in said]
        lost = [
            told - each - weight * luck * (people.y - answer) for each, answer in zip(paid, said, strict=True)
        ]
        return surplus - luck, lost, paid

    @abstractmethod
    def surplus(
        self, outcome: SettledSums, indices: Indices, people: Players, theta: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """What q of the truth is compared with, less q; its luck, the distance of the truth about people like her from
        its expectation; and the worth of a unit of that luck, per unit of the answer."""

    def bounds(self, x: Floats) -> dict[str, float]:
        return self.bounds_of(sum_geometry(self.plan, x))

    def bounds_of(self, people: Geometry) -> dict[str, float]:
        """The guarantees for people of this geometry."""
        plan, n = self.plan, people.players
        alpha, beta = plan.absent_share, plan.failure_probability
        found = guarantees(plan.study, plan.mechanism, n, alpha, beta, people, precise=False)
        names = ("mean_squared_error", "prediction_rmse", "effect_rmse")
        known = {"gain": found.truthfulness.gain} | {name: getattr(found.accuracy, name) for name in names}
        return {name: math.nan if value is None else value for name, value in known.items()}

    def errors(self, outcome: SettledSums, theta: Floats, intervals: bool) -> dict[str, Any]:
        study, estimate, mechanism = self.plan.study, outcome.estimate, self.game.mechanism
        row, constant = everybody_row(study, outcome.sums)
        rows = np.array([row, *(difference for _, difference in study.differences)])
        off, covered = rows @ (estimate.theta - theta), None
        if intervals:
            numbers = released_numbers(study, mechanism, estimate, outcome.sums, level=LEVEL)
            found: tuple[Coefficient, ...] = numbers["coefficients"]
            if study.shares is None:
                truth = np.array([value for _, value in study.raw_coefficients(theta)])
            else:
                found, truth = (*numbers["shares"], *numbers["differences"]), rows @ theta
                truth[0] += constant
            within = [
                interval.low <= value <= interval.high
                for interval, value in zip(found, truth.tolist(), strict=True)
            ]
            covered = np.array(within, dtype=np.float64)
        return {"share_error": float(off[0]), "effect_errors": off[1:], "covered": covered}


@dataclass(frozen=True, eq=False, kw_only=True)
class ShareContext(SumContext):
    """The common part of studies of yes and no, and of ratings."""

    game: ShareGame
    asks: ClassVar[str] = "answers"

    def draw(self, rng: np.random.Generator) -> tuple[Self, Floats, Players]:
        theta = draw_shares(self.plan.study, self.game.beliefs, rng)
        x = self.features(rng, self.plan.answering)
        y = answers(self.game.beliefs, along(x, theta), rng)
        return self, theta, Players(x, y, self.costs(x, rng))

    def settle(self, x: Floats, told: Floats, rng: np.random.Generator) -> SettledSums:
        mechanism, beliefs = self.game.mechanism, self.game.beliefs
        kx, (ky,), added, estimate = release(self.game, x, told, rng)
        scored = SharePaymaster(mechanism, beliefs, estimate).score_players(kx, ky)

        def pay(indices: Indices, said: Floats) -> Floats:
            y = grid_responses(said, beliefs.response_bound) / GRID
            return mechanism.steps(beliefs, kx[indices] / GRID, y, scored.peer_prediction[indices])[2]

        return SettledSums(
            theta=estimate.theta,
            exact=estimate.theta,
            p=scored.peer_prediction,
            paid=scored.payment,
            sums=added,
            estimate=estimate,
            pay=pay,
        )

    def bounds_of(self, people: Geometry) -> dict[str, float]:
        """The truth's gain over a lie of the plan's number of steps, if beliefs are as declared."""
        plan, steps = self.plan, self.plan.guarantees.truthfulness.steps
        if steps is None:
            return super().bounds_of(people)
        earned = share_gain(share_promise(plan, people, people.players), steps)
        return {**super().bounds_of(people), "gain": self.game.mechanism.bonus * float(earned.item())}

    def surplus(
        self, outcome: SettledSums, indices: Indices, people: Players, theta: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """p − q; the luck is m − E[m | x, y], m being the true share of people like her."""
        game = self.game
        mean = expected_shares(game.beliefs, people.x)[np.arange(len(indices)), game.places(people.y)]
        slope = game.mechanism.bonus / 2 / game.beliefs.expects(people.x).width(game.mechanism.margin)
        surplus = outcome.p[indices] - game.expected_share(people.x, people.y)
        return surplus, (1 + along(people.x, theta)) / 2 - mean, slope


@dataclass(frozen=True, eq=False, kw_only=True)
class AskedContext(SumContext):
    """The common part of studies that ask people what the others will say."""

    game: AskedGame
    asks: ClassVar[str] = "respond"

    def kinds_of(self, players: Players) -> Indices:
        game, beliefs = self.game, self.game.beliefs
        if game.levels:
            return game.places(players.y)
        sd = np.sqrt(beliefs.variances(players.x, game.mean) + beliefs.variance)
        off = players.y - game.centre - beliefs.offsets(players.x, game.mean)
        return np.searchsorted(EDGES, off / sd).astype(np.int64)

    def draw(self, rng: np.random.Generator) -> tuple[Self, Floats, Players]:
        """Draw people's centre, θ by their beliefs, and people whose answers follow it."""
        beliefs, x = self.game.beliefs, self.features(rng, self.plan.answering)
        game = self.game.of(draw_centre(beliefs, rng), x.mean(axis=0))
        theta = draw_level(self.plan.study, beliefs, game.centre, game.mean, rng)
        y = draw_answers(beliefs, along(x, theta), rng)
        return replace(self, game=game), theta, Players(x, y, self.costs(x, rng))

    def settle(self, x: Floats, told: Floats, rng: np.random.Generator) -> SettledSums:
        return settle_predictions(self.game, x, told[0], told[1], rng)

    def surplus(
        self, outcome: SettledSums, indices: Indices, people: Players, theta: Floats
    ) -> tuple[Floats, Floats, Floats]:
        """For yes and no, the surprise less its expectation. The luck is x·θ − E[x·θ | x, y]."""
        game, mechanism, surprise = self.game, self.game.mechanism, outcome.surprise
        luck = along(people.x, theta) - expected_alike(game, people)
        if mechanism.rule == SERUM:
            surplus = surprise[indices] - game.surprise(people.x, game.expectations(people.x, people.y))
            return surplus, luck, np.full(len(indices), mechanism.score_weight / mechanism.clip)
        s, p = game.beliefs.slopes(people.x, game.mean), np.clip(outcome.p[indices], -1.0, 1.0)
        return (1 - s) * surprise[indices] + s * (p - people.y), luck, 2 * mechanism.score_weight * s


def settle_predictions(
    game: AskedGame, x: Floats, reports: Floats, predictions: Floats, rng: np.random.Generator
) -> SettledSums:
    """A settlement of these answers and predictions, by the code for real studies with fast noise."""
    kx, (ky, km), added, estimate = release(game, x, np.stack([reports, predictions]), rng)
    bound = game.beliefs.response_bound
    master = AskedPaymaster(game.mechanism, game.beliefs, estimate, level_of(game.beliefs, added, [kx]))
    scored = master.score_players(kx, ky, km)

    def pay(indices: Indices, said: Floats) -> Floats:
        others = scored.peer_prediction[indices], scored.others_answer[indices], scored.surprise[indices]
        return master.pay_amounts(
            kx[indices], grid_responses(said, bound) / GRID, km[indices] / GRID, *others
        )

    return SettledSums(
        theta=estimate.theta,
        exact=estimate.theta,
        p=scored.peer_prediction,
        paid=scored.payment,
        sums=added,
        estimate=estimate,
        pay=pay,
        surprise=scored.surprise,
    )


def expected_alike(game: AskedGame, people: Players) -> Floats:
    """E[x·θ | x, y] for people as they are drawn: for ratings the exact expectation, not the line."""
    shares = game.beliefs.shares
    if shares is None or shares.levels == 2:
        return game.expectations(people.x, people.y).alike
    middle, reach = (1 + game.centre) / 2, REACH * game.beliefs.sure / 2
    around = replace(shares, low=middle - reach, high=middle + reach)
    x = people.x - game.mean
    x[:, 0] = people.x[:, 0]
    found = expected_shares(around, x)[np.arange(len(x)), game.places(people.y)]
    return np.asarray(2 * found - 1)
