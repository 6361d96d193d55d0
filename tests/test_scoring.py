from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracles_scoring import BitGame, expected_bit_payment, score_extremes

from truthful.errors import InputError
from truthful.scoring import RULES, Rule, basic_brier, binary_score, brier, quadratic

probabilities = st.floats(0, 1)
predictions = st.floats(-3, 3)
pseudo_counts = st.floats(0.1, 20)
rules = st.sampled_from(list(RULES.values()))


def test_brier_is_the_papers_formula() -> None:
    assert brier(0.5, 0.25, a=1.0, b=2.0) == 1 - 2 * (0.5 - 0.25 + 0.0625)


def test_quadratic_drops_only_the_term_no_report_can_change() -> None:
    p, q = np.meshgrid(np.linspace(-1, 1, 9), np.linspace(-1, 1, 9))
    np.testing.assert_allclose(quadratic(p, q, a=2.0, b=0.3) - brier(p, q, a=2.0, b=0.3), 0.3 * p, atol=1e-15)


@given(probabilities, probabilities)
def test_binary_score_is_the_mean_of_basic_brier(p: float, q: float) -> None:
    mean = p * basic_brier(1, q) + (1 - p) * basic_brier(0, q)
    assert binary_score(p, q) == pytest.approx(mean, abs=1e-12)


@given(probabilities, probabilities, st.floats(-5, 5), st.floats(0.01, 5))
def test_brier_is_a_positive_affine_map_of_the_binary_score(p: float, q: float, a: float, b: float) -> None:
    assert brier(p, q, a=a, b=b) == pytest.approx(a - b / 2 + b / 2 * binary_score(p, q), abs=1e-12)


def test_binary_score_is_not_always_positive_although_the_paper_says_so() -> None:
    assert binary_score(1.0, 0.0) == -1.0
    assert score_extremes(binary_score, 1.0, 3)[0] < 0


@given(st.lists(predictions, min_size=1, max_size=6), predictions, rules)
def test_expected_payment_is_largest_exactly_at_the_mean_peer_prediction(
    peers: list[float], q: float, rule: Rule
) -> None:
    mean = float(np.mean(peers))
    best = rule(peers, mean, a=1.0, b=0.5).mean()
    # Strict concavity, exactly: whoever predicts q instead of E[p] loses b(q − E[p])².
    assert best - rule(peers, q, a=1.0, b=0.5).mean() == pytest.approx(0.5 * (q - mean) ** 2, abs=1e-9)


@pytest.mark.parametrize("rule", RULES.values(), ids=list(RULES))
@pytest.mark.parametrize("radius", [0.05, 0.6, 1.0, 3.0])
def test_loss_and_gain_are_the_exact_extremes_of_the_payment(rule: Rule, radius: float) -> None:
    least, most = score_extremes(lambda p, q: rule(p, q, a=0.0, b=1.0), radius, 801)
    assert rule.loss(radius) == pytest.approx(-least, rel=1e-12)
    assert rule.gain(radius) == pytest.approx(most, rel=1e-12)


@given(rules, st.floats(0.01, 4), st.floats(-1, 1), st.floats(-1, 1), st.floats(0.01, 10))
def test_a_base_payment_of_loss_times_weight_is_never_negative(
    rule: Rule, radius: float, p: float, q: float, b: float
) -> None:
    a = b * rule.loss(radius)
    payment = float(rule(radius * p, radius * q, a=a, b=b))
    assert -1e-12 * a <= payment <= (a + b * rule.gain(radius)) * (1 + 1e-12)


def test_losses_and_gains_have_the_published_closed_forms() -> None:
    assert (RULES["quadratic"].loss(0.5), RULES["quadratic"].gain(0.5)) == (0.75, 0.25)
    assert (RULES["brier"].loss(0.5), RULES["brier"].gain(0.5)) == (1.25, 0.75)


def test_a_negative_radius_is_refused() -> None:
    with pytest.raises(InputError, match=r"radius is -1\.0; it must be 0 or above"):
        RULES["brier"].loss(-1.0)


@pytest.mark.parametrize("bit", [0, 1])
@pytest.mark.parametrize("report", [0, 1])
@pytest.mark.parametrize("peers", [1, 2, 5])
def test_expected_bit_payment_is_the_same_for_every_set_of_peers(bit: int, report: int, peers: int) -> None:
    expected = expected_bit_payment(3, 2, report, bit, peers)
    assert BitGame(ones=3, zeros=2).expected_payment(report, bit) == pytest.approx(float(expected), abs=1e-14)


@given(pseudo_counts, pseudo_counts, st.integers(0, 1))
def test_truth_is_the_strict_best_response_to_truthful_peers(ones: float, zeros: float, bit: int) -> None:
    game = BitGame(ones=ones, zeros=zeros)
    assert game.truth_margin(bit) > 0
    assert game.truth_margin(bit) == pytest.approx(2 / (ones + zeros + 1) ** 2, rel=1e-9)


def test_one_bit_game_payment_can_be_negative() -> None:
    game = BitGame(ones=1, zeros=20)
    assert game.payment(report=0, peers=[1]) < -0.5


def test_a_player_is_paid_against_the_mean_of_her_peers() -> None:
    game = BitGame(ones=1, zeros=1)
    assert game.payment(1, [1, 0, 1, 1]) == pytest.approx(float(binary_score(0.75, 2 / 3)))
