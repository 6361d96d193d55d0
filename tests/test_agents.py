"""Simulated people: one harness for all kinds, and what each is there for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import brentq
from support.laboratory import RELEASES, plan_of, planned_like
from support.studies import UNIT_BALL

from truthful.agents import (
    KINDS,
    WORST,
    Agent,
    BestResponder,
    Coordinated,
    CostThreshold,
    Exaggerator,
    Game,
    Honest,
    Influential,
    OptOut,
    Players,
    PrivacySeeker,
    Targeting,
    agent,
    best_reports,
    game,
)
from truthful.beliefs import IDENTITY, Beliefs, Clipped, Curve, Shrunk, TruncatedNormal, UniformBall
from truthful.check import Floats
from truthful.errata import find
from truthful.errors import InputError
from truthful.moments import GRID, grid_features
from truthful.plan import Plan
from truthful.regression import shrinkage_factor
from truthful.simulation.predictors import predictor_of
from truthful.study import Study

N = 300
ALL = {**KINDS, **WORST}
PAGE = Path(__file__).resolve().parents[1] / "docs" / "laboratory.md"


@pytest.fixture(scope="module")
def plan() -> Plan:
    return plan_of(players=2000, epsilon=1.0)


@pytest.fixture(scope="module")
def the_game(plan: Plan) -> Game:
    return game(plan, predictor_of(plan, 10**6))


def curve_of(plan: Plan) -> Curve:
    """ψ of this plan's peers."""
    return plan.number_mechanism.curve(plan.study.beliefs)


@pytest.fixture(scope="module")
def players() -> Players:
    rng, study = np.random.default_rng(3), Study.parse(UNIT_BALL)
    x = study.normalise(study.sample_features(rng, N), N)
    y = x @ study.beliefs.prior.sample(rng, 2, 1)[0] + study.beliefs.noise.sample(rng, N)
    return Players(x, y, study.costs.sample(rng, N))


def reports(who: Agent, players: Players, the_game: Game, seed: int = 0) -> Floats:
    return who.reports(players, the_game, np.random.default_rng(seed))


# All kinds


@pytest.mark.parametrize("name", ALL)
def test_every_kind_reports_something_possible_for_everybody(
    name: str, players: Players, the_game: Game
) -> None:
    said = reports(agent(name), players, the_game)
    assert said.shape == (N,)
    assert said.dtype == np.float64
    present = said[~np.isnan(said)]
    assert np.all(np.abs(present) <= the_game.beliefs.response_bound)
    assert len(present) == N or name in ("best-responder", "opt-out")


@pytest.mark.parametrize("name", ALL)
def test_every_kind_repeats_itself_and_leaves_the_truth_as_it_is(
    name: str, players: Players, the_game: Game
) -> None:
    before = players.y.copy()
    first, again = (reports(agent(name), players, the_game, seed=5) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(players.y, before)


@pytest.mark.parametrize("name", ALL)
def test_every_kind_answers_alone_as_in_company(name: str, players: Players, the_game: Game) -> None:
    together = reports(agent(name), players, the_game)
    apart = np.concatenate(
        [reports(agent(name), players[part], the_game) for part in (slice(0, 1), slice(1, 90), slice(90, N))]
    )
    np.testing.assert_array_equal(together, apart)


@pytest.mark.parametrize("name", ALL)
def test_nobody_at_all_says_nothing(name: str, players: Players, the_game: Game) -> None:
    assert reports(agent(name), players[slice(0, 0)], the_game).shape == (0,)


@pytest.mark.parametrize(("name", "kind"), ALL.items())
def test_every_kind_has_its_name_and_its_paragraph(name: str, kind: type[Agent]) -> None:
    assert kind.name == name
    assert kind.__doc__ is not None
    assert len(kind.__doc__.split()) > 10
    assert f"| `{name}` |" in PAGE.read_text(encoding="utf-8")


def test_an_unknown_kind_is_named_with_all_there_are() -> None:
    with pytest.raises(InputError, match=r"no agent 'saint'; the agents are honest, cost-threshold"):
        agent("saint")


# Each kind


def test_the_honest_tell_the_truth(players: Players, the_game: Game) -> None:
    np.testing.assert_array_equal(reports(Honest(), players, the_game), players.y)


def test_only_those_above_the_threshold_lie_and_as_far_as_can_be(players: Players, the_game: Game) -> None:
    costs = np.where(np.arange(N) % 3 == 0, the_game.threshold * 1.01, the_game.threshold)
    said = reports(CostThreshold(), Players(players.x, players.y, costs), the_game)
    lied = said != players.y
    np.testing.assert_array_equal(np.flatnonzero(lied), np.arange(0, N, 3))
    Y = the_game.beliefs.response_bound
    np.testing.assert_array_equal(np.abs(said[lied] - players.y[lied]), Y + np.abs(players.y[lied]))


def test_privacy_seekers_say_nothing_of_themselves(players: Players, the_game: Game) -> None:
    assert not reports(PrivacySeeker(), players, the_game).any()


def test_exaggerators_overstate_as_far_as_the_scale_goes(players: Players, the_game: Game) -> None:
    said, Y = reports(Exaggerator(factor=3.0), players, the_game), the_game.beliefs.response_bound
    inside = np.abs(3 * players.y) <= Y
    np.testing.assert_allclose(said[inside], 3 * players.y[inside])
    np.testing.assert_array_equal(said[~inside], Y * np.sign(players.y[~inside]))
    assert 0 < inside.sum() < N


def test_no_other_reports_push_a_coefficient_further_than_the_coordinated(
    players: Players, the_game: Game
) -> None:
    said, Y = reports(Coordinated(coefficient=1), players, the_game), the_game.beliefs.response_bound
    assert players.x[:, 1] @ said == pytest.approx(Y * np.abs(players.x[:, 1]).sum())
    assert set(np.abs(said)) == {Y}


def test_people_stay_away_exactly_when_taking_part_does_not_pay(players: Players, the_game: Game) -> None:
    worth = the_game.expected_utility(Players(players.x, players.y, np.zeros(N)))
    q = the_game.own_prediction(players.x, players.y)
    mechanism = the_game.mechanism
    np.testing.assert_allclose(worth, the_game.base(players.x) + mechanism.score_weight * q**2)
    assert np.all(the_game.base(players.x) >= mechanism.base_payment)
    side = np.where(np.arange(N) % 2 == 0, 1 - 1e-9, 1 + 1e-9)
    costs = worth / the_game.privacy_cost * side
    said = reports(OptOut(), Players(players.x, players.y, costs), the_game)
    np.testing.assert_array_equal(np.isnan(said), side > 1)
    np.testing.assert_array_equal(said[side < 1], players.y[side < 1])


# The worst liars


@pytest.mark.parametrize("kind", [Influential, Targeting])
def test_the_worst_lie_only_if_their_costs_are_above_the_threshold_or_they_are_so_many(
    kind: type[Influential], players: Players, the_game: Game
) -> None:
    costs = np.where(np.arange(N) % 3 == 0, the_game.threshold * 1.01, the_game.threshold)
    said = reports(kind(), Players(players.x, players.y, costs), the_game)
    np.testing.assert_array_equal(np.flatnonzero(said != players.y), np.arange(0, N, 3))
    said = reports(kind(liars=7), players, the_game)
    weights = kind().weights(players.x, the_game)
    assert weights is not None
    lied = np.flatnonzero(said != players.y)
    np.testing.assert_array_equal(lied, np.sort(np.argsort(-weights)[:7]))
    assert set(np.abs(said[lied])) == {the_game.beliefs.response_bound}


@pytest.mark.parametrize("name", RELEASES)
def test_no_others_push_the_estimate_further_than_the_worst(name: str) -> None:
    """M⁻¹ζ by plain matrices, as far as it is foreseen: their direction is that of most influence, and signs add."""
    plan = planned_like(name, 400)
    study = plan.study
    x = grid_features(study.normalise(study.sample_features(np.random.default_rng(1), 400), 400)) / GRID
    played = game(plan, predictor_of(plan, 0), x)
    z = x
    if name == "instruments":
        T = np.array(plan.mechanism.transform) / 1024
        z = x @ T.T / np.maximum(1.0, np.linalg.norm(x @ T.T, axis=1))[:, None]
    B = z @ played.peers.spread.T
    np.testing.assert_allclose(played.influence(x), B, atol=1e-4)
    directions = np.random.default_rng(2).standard_normal((200, study.dimension))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    assert np.all(
        np.square(B @ directions.T).sum(axis=0) <= np.square(B @ played.furthest).sum() * (1 + 1e-6)
    )
    noise = np.linalg.norm(x @ played.peers.spread, axis=1)
    assert np.linalg.norm(played.target @ played.peers.spread) == pytest.approx(noise.max(), rel=1e-12)
    everybody = Players(x, np.zeros(400), np.full(400, np.inf))
    for kind, direction in ((Influential(), played.furthest), (Targeting(), played.target)):
        said = reports(kind, everybody, played)
        others = np.any(x != played.target, axis=1) if direction is played.target else np.ones(400, np.bool_)
        pushed = said[others] @ (B[others] @ direction)
        assert pushed == pytest.approx(
            played.beliefs.response_bound * np.abs(B[others] @ direction).sum(), rel=1e-3
        )
        assert np.all(said[~others] == 0)


# The best response


def free(players: Players) -> Players:
    """The same to whom privacy is worth nothing."""
    return Players(players.x, players.y, np.zeros(len(players.y)))


def moves(said: Floats, players: Players, the_game: Game) -> Floats:
    """How far reports move own predictions."""
    return np.abs(the_game.own_prediction(players.x, said) - the_game.own_prediction(players.x, players.y))


@pytest.mark.parametrize("factor", [1.0, 0.7])
def test_the_best_paid_report_is_the_truth_exactly_if_own_predictions_are_right(
    factor: float, plan: Plan, players: Players, the_game: Game
) -> None:
    """What she expects of her peers is her posterior mean of their curve; a table's q is off that by 1e-5 at most."""

    def own(r: Floats, y: Floats, scale: Floats) -> Floats:
        return factor * the_game.predictor(r, y, scale)

    who = BestResponder(curve_of(plan))
    played = replace(the_game, predictor=own)
    far = moves(reports(who, free(players), played), players, played)
    assert (far.max() < 1e-4) == (factor == 1.0)
    assert factor == 1.0 or far.max() > 0.05


@pytest.mark.parametrize("peers", [None, Shrunk(0.4)])
@pytest.mark.parametrize("saves_all", [1.0, 0.05])
def test_no_report_leaves_more_than_the_best_response(
    peers: Curve | None, saves_all: float, players: Players, the_game: Game
) -> None:
    """Against every report on a fine grid, in money: payment less what the report leaves of her privacy cost."""
    few, Y = players[slice(0, 20)], the_game.beliefs.response_bound
    curve = Clipped(1.0, 2) if peers is None else peers
    length = np.linalg.norm(few.x, axis=1)
    scale = the_game.peers.scale * np.linalg.norm(few.x @ the_game.peers.spread, axis=1) / length
    expected = the_game.beliefs.prediction(length, few.y, curve, scale)

    def left(said: Floats) -> Floats:
        paid = the_game.base(few.x) + the_game.score(expected, the_game.own_prediction(few.x, said))
        saved = np.minimum(np.abs(said - few.y) / (saves_all * Y), 1.0)
        return np.asarray(paid - few.costs * the_game.privacy_cost * (1 - saved))

    said = reports(BestResponder(peers, saves_all), few, the_game)
    best = left(said)
    for report in np.linspace(-Y, Y, 801):
        assert np.all(left(np.full(20, report)) <= best + 1e-5)
    assert np.all(left(few.y) < best)
    assert np.abs(said - few.y).max() > 0.05


@pytest.mark.parametrize("saves_all", [2.0, 1.0, 0.3, 0.05])
@pytest.mark.parametrize("score_weight", [0.2, 20.0, 500.0])
def test_privacy_moves_people_but_nobody_up_to_the_threshold_beyond_d(
    saves_all: float, score_weight: float, players: Players
) -> None:
    plan = plan_of(players=2000, epsilon=1.0, score_weight=score_weight)
    played, D = game(plan, predictor_of(plan, 10**6)), plan.guarantees.truthfulness.lie
    costs = np.where(np.arange(N) % 2, played.threshold, np.minimum(players.costs, played.threshold))
    those = Players(players.x, players.y, costs)
    said = reports(BestResponder(saves_all=saves_all), those, played)
    # Some stay out: the base payment does not cover τ at the smallest weight.
    far = moves(np.where(np.isnan(said), players.y, said), those, played)
    assert D is not None
    assert far.max() <= D
    assert np.mean(far[~np.isnan(said)] > 1e-5) > 0.9
    # What she gives up in payment is less than all that her privacy is worth.
    assert np.all(score_weight * far**2 <= costs * played.privacy_cost)


def test_best_responders_stay_out_exactly_when_even_their_best_report_leaves_nothing(
    players: Players, the_game: Game
) -> None:
    """The lie that says least of her costs nothing, so that only the payment can keep her away."""
    b = the_game.mechanism.score_weight
    unpaid = replace(the_game, mechanism=replace(the_game.mechanism, payments="expected", base_payment=0.0))
    dear = Players(players.x, players.y, np.full(N, 1e6))
    who = BestResponder(saves_all=100.0)
    assert not np.isnan(reports(BestResponder(), dear, the_game)).any()
    assert np.isnan(reports(who, dear, unpaid)).all()
    worth = the_game.base(players.x) + b * the_game.own_prediction(players.x, players.y) ** 2
    just = Players(players.x, players.y, 0.99 * worth / the_game.privacy_cost)
    assert not np.isnan(reports(who, just, the_game)).any()


def test_under_the_papers_rule_she_is_far_off_and_beyond_d(players: Players) -> None:
    """Peers shrink as the paper's ridge does, and she is scored as if they did not, with privacy worth nothing."""
    plan = plan_of(players=2000, epsilon=1.0, score_weight=500.0)
    beliefs, D = plan.study.beliefs, plan.guarantees.truthfulness.lie
    papers = game(plan, lambda r, y, scale: beliefs.prediction(r, y, IDENTITY))
    kept = shrinkage_factor(1000, 2000 ** (7 / 8), 2)
    few = free(players[slice(0, 40)])
    said = reports(BestResponder(Shrunk(kept)), few, papers)
    assert D is not None
    assert moves(said, few, papers).max() > 2 * D
    assert np.abs(said - few.y).max() > 0.5


def test_under_the_papers_ridge_the_best_report_is_far_from_the_truth() -> None:
    """E21 by search: its root by bisection, and the number that the errata print."""
    n, beliefs = 1000, Beliefs(2, UniformBall(1.0), TruncatedNormal(1.0, 0.5))
    kept = shrinkage_factor(n // 2, n ** (7 / 8), 2)

    def own(said: Floats) -> Floats:
        return beliefs.prediction(1.0, said, IDENTITY)

    truth = np.array([1.0])
    found = best_reports(own, kept * own(truth), truth, beliefs.response_bound)
    root = brentq(lambda y: float(own(np.array(y)) - kept * own(truth)[0]), -1, 1)
    assert found[0] == pytest.approx(root, abs=1e-7)
    assert found[0] == pytest.approx(find("E21").published, abs=1e-6)
    assert found[0] < 0.2


def test_where_lies_are_free_the_truth_is_told() -> None:
    """With a flat own prediction every report pays the same, and nobody bothers to lie."""
    truth = np.array([-0.3, 0.0, 0.7])
    np.testing.assert_array_equal(best_reports(np.zeros_like, np.ones(3), truth, 2.0), truth)


def test_the_search_leaves_a_lower_peak_for_a_higher_one() -> None:
    """An own prediction that is not monotone: the best report is across the valley."""
    found = best_reports(lambda y: np.sin(4 * y), np.array([1.0]), np.array([1.5]), 2.0)
    assert np.sin(4 * found[0]) == pytest.approx(1.0, abs=1e-12)
