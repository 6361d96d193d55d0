"""The kinds of simulated people. Each has a name, a docstring that says where it comes from, and one method.

A new kind is a frozen dataclass with these three, listed in KINDS; the worst cases of the proofs are listed in WORST.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, cast

import numpy as np

from truthful import check
from truthful.agents.games import LOOKS, AnyGame, AskedGame, Game, Players, ShareGame, least
from truthful.asked_release import SCALE
from truthful.beliefs.laws import Curve
from truthful.check import Floats
from truthful.errors import InputError
from truthful.moments import lengths


class Agent(ABC):
    """A way to answer."""

    name: ClassVar[str]
    looks: ClassVar[int] = 0
    """How many own predictions a player computes before she answers."""

    @abstractmethod
    def reports(self, players: Players, game: Game, rng: np.random.Generator) -> Floats:
        """What each of these players reports, in [−Y, Y]; NaN if she stays out of the study."""

    def answers(self, players: Players, game: ShareGame, rng: np.random.Generator) -> Floats:
        """The same for yes and no and ratings: one of the possible answers, from −1 to 1, or NaN."""
        raise InputError(
            f"People of the kind {self.name!r} answer with numbers only. For yes and no, and for ratings, choose among "
            f"{', '.join((*KINDS, *WORST, *SHARES))}."
        )

    def respond(self, players: Players, game: AskedGame, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Answers, NaN where somebody stays away, and predictions of the others' average answer, where asked for.

        By default a prediction is honest, whatever the answer is.
        """
        told = self.answers if game.levels else self.reports
        foreseen = game.expectations(players.x, players.y)
        return told(players, cast(Any, game), rng), foreseen.prediction

    def weights(self, x: Floats, game: AnyGame) -> Floats | None:
        """Weights by which privacy costs are assigned: the largest cost goes to the largest weight.

        None if costs do not depend on features.
        """
        return None


@dataclass(frozen=True)
class Honest(Agent):
    """Tells the truth. The behaviour that the mechanism is to make best, and that most people show anyhow."""

    name: ClassVar[str] = "honest"

    def reports(self, players: Players, game: AnyGame, rng: np.random.Generator) -> Floats:
        return players.y

    answers = reports


@dataclass(frozen=True)
class CostThreshold(Agent):
    """The paper's σ_τ: truth if the privacy cost is at most τ, and any lie above it.

    The equilibrium of its Theorem 3. The lie here is the furthest from her answer that a report can be, ±Y against
    its sign.
    """

    name: ClassVar[str] = "cost-threshold"

    def reports(self, players: Players, game: AnyGame, rng: np.random.Generator) -> Floats:
        Y = game.beliefs.response_bound
        return np.where(players.costs <= game.threshold, players.y, np.where(players.y > 0, -Y, Y))

    answers = reports


@dataclass(frozen=True)
class PrivacySeeker(Agent):
    """Says what anybody would expect of her: what the prior mean predicts, which is 0 in normalised units.

    The report that reveals nothing, as in surveys where people tick the middle of the scale. Where every answer reveals
    something, as yes and no do, chance decides.
    """

    name: ClassVar[str] = "privacy-seeker"

    def reports(self, players: Players, game: Game, rng: np.random.Generator) -> Floats:
        return np.zeros_like(players.y)

    def answers(self, players: Players, game: ShareGame, rng: np.random.Generator) -> Floats:
        return rng.choice(game.answers, size=len(players.y))


@dataclass(frozen=True)
class Exaggerator(Agent):
    """Answers `factor` times the truth, as far as the scale goes: boasting, or making a point."""

    factor: float = 2.0
    name: ClassVar[str] = "exaggerator"

    def reports(self, players: Players, game: Game, rng: np.random.Generator) -> Floats:
        Y = game.beliefs.response_bound
        return np.clip(self.factor * players.y, -Y, Y)

    def answers(self, players: Players, game: ShareGame, rng: np.random.Generator) -> Floats:
        return game.nearest(self.factor * players.y)


@dataclass(frozen=True)
class Coordinated(Agent):
    """All push one coefficient up: ±Y by the sign of that feature, whatever the truth is.

    A campaign. Among lies that do not depend on what others say, it moves that coefficient furthest.
    """

    coefficient: int = 0
    name: ClassVar[str] = "coordinated"

    def reports(self, players: Players, game: Game, rng: np.random.Generator) -> Floats:
        return game.beliefs.response_bound * np.sign(players.x[:, self.coefficient])

    def answers(self, players: Players, game: ShareGame, rng: np.random.Generator) -> Floats:
        return np.where(players.x[:, self.coefficient] >= 0, 1.0, -1.0)


@dataclass(frozen=True)
class BestResponder(Agent):
    """Reports whatever leaves her most, payment less privacy cost, as she expects if her peers are truthful.

    The rational player of the paper's equilibrium. The truth costs her c·h(ε) of privacy. The theorem leaves open how
    much of that a lie saves: anything up to all of it. Here the saving is proportional to the lie, and complete at
    `saves_all` times Y; near 0 that is the theorem's worst case, in which any lie saves everything. She stays out if
    even her best report leaves her less than nothing.

    `peers` is the curve that she expects her peers' predictions to follow; by default the one by which the mechanism
    scores her. Where the two differ, as in the paper's mechanism, whose peers shrink and which scores as if they did
    not, she lies for the payment too.
    """

    peers: Curve | None = None
    saves_all: float = 1.0
    name: ClassVar[str] = "best-responder"
    looks: ClassVar[int] = 2 * LOOKS + 4

    def __post_init__(self) -> None:
        check.positive("saves_all", self.saves_all)

    def reports(self, players: Players, game: Game, rng: np.random.Generator) -> Floats:
        truth, Y = players.y, game.beliefs.response_bound
        at_stake, base = players.costs * game.privacy_cost, game.base(players.x)
        if self.peers is None:
            expected = game.own_prediction(players.x, truth)
        else:
            r = lengths(players.x)
            expected = game.beliefs.prediction(r, truth, self.peers, game.peers.noise_along(players.x, r))

        def loss(reports: Floats) -> Floats:
            told = np.maximum(1 - np.abs(reports - truth) / (self.saves_all * Y), 0.0)
            scored = game.score(expected, game.own_prediction(players.x, reports))
            return np.asarray(at_stake * told - base - scored)

        # The truth is a kink: a search on each side of it.
        ends = np.full(len(truth), -Y), truth, np.full(len(truth), Y)
        best = truth
        for found in (least(loss, *ends[:2]), least(loss, *ends[1:])):
            best = np.where(loss(found) < loss(best), found, best)
        return np.where(loss(best) <= 0, best, np.nan)

    def answers(self, players: Players, game: ShareGame, rng: np.random.Generator) -> Floats:
        if self.peers is not None:
            raise InputError("peers is given, a curve that only predictions of numbers follow. Leave it out.")
        moved = np.abs(game.answers - players.y[:, None])
        told = np.maximum(1 - moved / self.saves_all, 0.0)
        paid = game.expected_payments(players.x, game.expected_share(players.x, players.y))
        left = paid - (players.costs * game.privacy_cost)[:, None] * told
        return np.where(left.max(axis=1, initial=-np.inf) >= 0, best_answers(game, left, players.y), np.nan)


@dataclass(frozen=True)
class OptOut(Agent):
    """Tells the truth, or stays away if taking part does not pay.

    It does not if a + b(2p̄q − q²) < c·h(ε), with p̄ = q. The paper's individual rationality, seen by the people who
    decide.
    """

    name: ClassVar[str] = "opt-out"
    looks: ClassVar[int] = 1

    def reports(self, players: Players, game: Game | ShareGame, rng: np.random.Generator) -> Floats:
        return np.where(game.expected_utility(players) >= 0, players.y, np.nan)

    answers = reports


@dataclass(frozen=True)
class Influential(Agent):
    """Those who can move the coefficients furthest lie, all in one direction: ±Y by how their answers move them.

    The worst liars in the proof of the bounds on the error: the people with privacy costs above the threshold, as costs
    may depend on a person's features. Or just `liars` of them, whatever their costs are.
    """

    liars: int | None = None
    name: ClassVar[str] = "influential"

    def direction(self, game: AnyGame) -> Floats:
        """The direction in which θ̂ is to be moved."""
        return game.furthest

    def reports(self, players: Players, game: AnyGame, rng: np.random.Generator) -> Floats:
        moved = self._influence(players.x, game)
        lies = players.costs > game.threshold
        if self.liars is not None:
            lies = np.zeros(len(moved), dtype=np.bool_)
            lies[np.argsort(-np.abs(moved), kind="stable")[: self.liars]] = True
        # Only people without features have no influence, and the target herself.
        return np.where(lies & (moved != 0), game.beliefs.response_bound * np.sign(moved), players.y)

    answers = reports

    def weights(self, x: Floats, game: AnyGame) -> Floats | None:
        return np.abs(self._influence(x, game))

    def _influence(self, x: Floats, game: AnyGame) -> Floats:
        return np.asarray(game.influence(x) @ self.direction(game))


@dataclass(frozen=True)
class Targeting(Influential):
    """Those whose answers count most in what is predicted of one person lie, all in one direction: ±Y.

    The worst liars in the proof of the bound on the gap; she is the person for whom it is largest, the player whose
    prediction has the most noise. Costs or `liars` as for the influential.
    """

    name: ClassVar[str] = "targeting"

    def direction(self, game: AnyGame) -> Floats:
        return game.target

    def _influence(self, x: Floats, game: AnyGame) -> Floats:
        return np.where((x == game.target).all(axis=1), 0.0, super()._influence(x, game))


class _OfShares(Agent):
    """A kind for yes and no and ratings only."""

    def reports(self, players: Players, game: Game, rng: np.random.Generator) -> Floats:
        raise InputError(
            f"People of the kind {self.name!r} answer yes or no, or with a rating, and this study asks for numbers. "
            f"Choose among {', '.join((*KINDS, *WORST))}."
        )


@dataclass(frozen=True)
class Denier(_OfShares):
    """Says no, or gives the lowest rating, whatever is true.

    Typical of people who are ashamed, or who trust no promise of privacy.
    """

    name: ClassVar[str] = "denier"

    def answers(self, players: Players, game: ShareGame, rng: np.random.Generator) -> Floats:
        return np.full(len(players.y), -1.0)

    def respond(self, players: Players, game: AskedGame, rng: np.random.Generator) -> tuple[Floats, Floats]:
        return np.full(len(players.y), -1.0), game.expectations(players.x, players.y).prediction


@dataclass(frozen=True)
class Misbeliever(_OfShares):
    """Gives the answer that pays best by beliefs of her own: her mean share scatters by `scatter` about the declared
    one, and an answer moves it as declared.

    Looks to her payment alone, and expects the others to be truthful. Whoever would say yes and expects less than the
    switch point denies; whoever would say no and expects more says yes.

    Where people are asked what the others will say, no mean is declared, and hers scatters about what others expect by
    `scatter` of the scale. aware: 1, she knows what they expect; 0, she believes that they think as she does. Her
    answer moves her expectation `steeper` times as much as declared.
    """

    scatter: float = 0.05
    aware: float = 1.0
    steeper: float = 1.0
    name: ClassVar[str] = "misbeliever"

    def __post_init__(self) -> None:
        check.nonnegative("scatter", self.scatter)
        check.positive("steeper", self.steeper)
        if not 0 <= check.finite("aware", self.aware) <= 1:
            raise InputError(f"aware is {self.aware!r}; it must lie between 0 and 1.")

    def answers(self, players: Players, game: ShareGame, rng: np.random.Generator) -> Floats:
        off = self.scatter * rng.standard_normal(len(players.y))
        paid = game.expected_payments(players.x, game.expected_share(players.x, players.y, off))
        return best_answers(game, paid, players.y)

    def respond(self, players: Players, game: AskedGame, rng: np.random.Generator) -> tuple[Floats, Floats]:
        off = SCALE * self.scatter * rng.standard_normal(len(players.y))
        foreseen = game.expectations(players.x, players.y, off, self.aware, self.steeper)
        return game.best_answers(players.x, players.y, foreseen), foreseen.prediction


class _OfPredictions(Agent):
    """A kind for studies that ask people what the others will say."""

    def reports(self, players: Players, game: AnyGame, rng: np.random.Generator) -> Floats:
        raise InputError(
            f"People of the kind {self.name!r} say what the others will say, and this study does not ask for it. "
            f"Choose among {', '.join((*KINDS, *WORST))}."
        )

    answers = reports


@dataclass(frozen=True)
class Careless(_OfPredictions):
    """Tells the truth, and predicts one number whatever she thinks: by default the middle of the scale.

    Typical of people who ignore the second question, or find a preset slider.
    """

    predicts: float = 0.5
    name: ClassVar[str] = "careless"

    def respond(self, players: Players, game: AskedGame, rng: np.random.Generator) -> tuple[Floats, Floats]:
        return players.y, np.full(len(players.y), SCALE * self.predicts - 1)


@dataclass(frozen=True)
class Colluder(_OfPredictions):
    """Says one number on which all have agreed, whatever is true, and predicts it: by default three quarters up.

    The agreement that no declared centre prevents.
    """

    says: float = 0.75
    name: ClassVar[str] = "colluder"

    def respond(self, players: Players, game: AskedGame, rng: np.random.Generator) -> tuple[Floats, Floats]:
        said = np.full(len(players.y), SCALE * self.says - 1)
        said = game.nearest(said) if game.levels else said
        return said, said


def best_answers(game: ShareGame, left: Floats, truth: Floats) -> Floats:
    """For each player the best answer, from the utility of each answer (a column); the truth if it is as good.

    Differences by rounding alone do not count.
    """
    told = left[np.arange(len(truth)), game.places(truth)]
    best = left.max(axis=1, initial=-np.inf)
    lies = best > told + 1e-12 * np.abs(best)
    return np.where(lies, game.answers[left.argmax(axis=1)], truth)


def _by_name(*kinds: type[Agent]) -> Mapping[str, type[Agent]]:
    return MappingProxyType({kind.name: kind for kind in kinds})


KINDS = _by_name(Honest, CostThreshold, PrivacySeeker, Exaggerator, Coordinated, BestResponder, OptOut)
#: Liars that guarantees hold against.
WORST = _by_name(Influential, Targeting)
#: Those whom only yes and no, and ratings, have.
SHARES = _by_name(Denier, Misbeliever)
#: Those whom only studies have which ask people what the others will say.
ASKED = _by_name(Careless, Colluder)


def all_kinds() -> dict[str, type[Agent]]:
    """All kinds, by their names."""
    return {**KINDS, **WORST, **SHARES, **ASKED}


def agent(name: str) -> Agent:
    """The agent of this name, with its usual parameters."""
    kinds = all_kinds()
    if name not in kinds:
        raise InputError(f"There is no agent {name!r}; the agents are {', '.join(kinds)}.")
    return kinds[name]()
