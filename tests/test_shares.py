"""Beliefs about shares, and payments for yes and no and for ratings, against hand-computed numbers and Bayes' rule."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracles_scoring import BitGame
from support.shares import NUMBER, study_of, two_levels

from truthful.errors import InputError
from truthful.share_release import ShareRelease
from truthful.study import Study
from truthful.study.credibility import ShareBeliefs

ONE = np.ones((1, 1))


def beliefs_of(share: tuple[float, float], levels: int = 2, agreement: float = 0.0) -> ShareBeliefs:
    return ShareBeliefs(*share, levels, agreement, (0.0,), (0.0,), (), 1.0)


def release(
    flat: float = 0.0, bonus: float = 0.25, margin: float = 0.0, tolerance: float = math.inf
) -> ShareRelease:
    return ShareRelease(
        epsilon=0.1, transform=((1024,),), flat=flat, bonus=bonus, margin=margin, tolerance=tolerance
    )


def test_what_two_shares_lead_to() -> None:
    expected = beliefs_of((0.05, 0.40)).expects(ONE)
    assert expected.mean[0] == pytest.approx(0.225)
    assert expected.switch[0] == pytest.approx(0.2410991637, abs=1e-10)
    assert (expected.switch + expected.advantage)[0] == pytest.approx(0.2703703704, abs=1e-10)
    assert (expected.switch - expected.advantage)[0] == pytest.approx(0.2118279570, abs=1e-10)
    assert expected.width(0.0)[0] == pytest.approx(0.1910991637, abs=1e-10)
    assert (expected.advantage / expected.width(0.0))[0] == pytest.approx(0.1531728665, abs=1e-10)
    assert expected.width(0.02)[0] == pytest.approx(0.2110991637, abs=1e-10)


@pytest.mark.parametrize(
    ("count", "switch", "width"), [(2, 0.3560439560, 0.2560439560), (4, 0.3571428571, 0.3571428571)]
)
def test_what_effects_lead_to(count: int, switch: float, width: float) -> None:
    study = study_of((0.2, 0.5), two_levels(count), "uniform", effect=0.1)
    x = study.normalise({f"f{j}": np.array(["a", "b"])[[j % 2]] for j in range(count)}, 1)
    assert study.shares is not None
    expected = study.shares.expects(x)
    assert expected.switch[0] == pytest.approx(switch, abs=1e-10)
    assert expected.width(0.0)[0] == pytest.approx(width, abs=1e-10)


def test_a_numbers_place_in_its_range_decides_how_much_it_may_do() -> None:
    study = study_of((0.2, 0.5), NUMBER, effect=0.1, expected="{ age = 0.06 }")
    assert study.shares is not None
    middle, end = (study.shares.expects(study.normalise({"age": np.array([age])}, 1)) for age in (49.0, 80.0))
    assert middle.mean[0] == pytest.approx(0.35)
    assert (middle.low[0], middle.high[0]) == pytest.approx((0.2, 0.5))
    assert end.mean[0] == pytest.approx(0.38)
    assert (end.low[0], end.high[0]) == pytest.approx((0.18, 0.58))


@pytest.mark.parametrize(
    ("p", "yes", "no"),
    [(0.30, 0.163527, 0.086472), (0.10, 0.032705, 0.217294), (0.4322, 0.25, 0.0), (0.9, 0.25, 0.0)],
)
def test_what_yes_and_no_are_paid(p: float, yes: float, no: float) -> None:
    mechanism, beliefs = release(), beliefs_of((0.05, 0.40))
    for y, paid in ((1.0, yes), (-1.0, no)):
        assert mechanism.steps(beliefs, ONE, np.array([y]), np.array([p]))[2][0] == pytest.approx(
            paid, abs=1e-12
        )


def test_a_flat_fee_comes_on_top_and_implausible_shares_pay_everybody_alike() -> None:
    beliefs, shares = beliefs_of((0.05, 0.40)), np.array([0.029, 0.031, 0.419, 0.421])
    mechanism = release(flat=0.5, tolerance=0.02)
    for y in (1.0, -1.0):
        phi, _, paid = mechanism.steps(beliefs, np.ones((4, 1)), np.full(4, y), shares)
        assert paid[[0, 3]].tolist() == [0.625, 0.625]
        assert phi[[0, 3]].tolist() == [0.0, 0.0]
        assert np.all(paid[1:3] != 0.625)


priors = st.lists(
    st.tuples(st.floats(0.01, 0.99), st.floats(0.05, 1.0)),
    min_size=2,
    max_size=6,
    unique_by=lambda pair: pair[0],
)


@given(priors)
def test_what_an_answer_expects_needs_two_moments_only(prior: list[tuple[float, float]]) -> None:
    shares, weights = (np.array(part) for part in zip(*prior, strict=True))
    weights /= weights.sum()
    mean = float(weights @ shares)
    variance = float(weights @ (shares - mean) ** 2)
    if variance < 1e-8:
        return
    # Beliefs of the same two moments: a uniform share of this variance, about this mean.
    half = np.sqrt(3 * variance)
    found = ShareBeliefs(mean - half, mean + half, 2, 0.0, (0.0,), (0.0,), (), 1.0).expects(ONE)
    yes = float(weights @ (shares * shares) / mean)
    no = float(weights @ (shares * (1 - shares)) / (1 - mean))
    assert (found.switch + found.advantage)[0] == pytest.approx(yes, rel=1e-9)
    assert (found.switch - found.advantage)[0] == pytest.approx(no, rel=1e-9)


def test_a_beta_prior_expects_what_the_papers_bit_game_has() -> None:
    game = BitGame(2.0, 6.0)
    mean, variance = 0.25, 2 * 6 / (8**2 * 9)
    half = np.sqrt(3 * variance)
    found = ShareBeliefs(mean - half, mean + half, 2, 0.0, (0.0,), (0.0,), (), 1.0).expects(ONE)
    assert (found.switch + found.advantage)[0] == pytest.approx(game.belief(1))
    assert (found.switch - found.advantage)[0] == pytest.approx(game.belief(0))


def test_a_rating_of_two_levels_is_yes_and_no() -> None:
    two = ShareBeliefs(0.2, 0.6, 2, 0.3, (0.0,), (0.0,), (), 1.0).expects(ONE)
    plain = beliefs_of((0.2, 0.6)).expects(ONE)
    assert two.switch == plain.switch
    assert two.credibility == plain.credibility


@given(
    st.integers(2, 10),
    st.floats(0, 1),
    st.floats(-0.5, 1.5),
    st.floats(0, 2),
    st.floats(0, 1),
    st.floats(0.01, 0.45),
    st.floats(0.5, 0.99),
)
def test_every_payment_lies_between_the_flat_fee_and_the_bonus_above_it(
    levels: int, agreement: float, p: float, flat: float, bonus: float, low: float, high: float
) -> None:
    beliefs, mechanism = beliefs_of((low, high), levels, agreement), release(flat, bonus, margin=0.01)
    y = 2 * np.arange(levels) / (levels - 1) - 1
    paid = mechanism.steps(beliefs, np.ones((levels, 1)), y, np.full(levels, p))[2]
    assert np.all(paid >= np.floor(flat * 1e6) / 1e6)
    assert np.all(paid <= flat + bonus)


@pytest.mark.parametrize("levels", [2, 3, 5, 10])
@pytest.mark.parametrize("y", [0, -1])
def test_on_average_no_answer_pays_more_than_the_own(levels: int, y: int) -> None:
    """At the share that somebody expects, her own answer is paid best: the rule is proper."""
    beliefs, mechanism = beliefs_of((0.2, 0.6), levels, 0.3), release(bonus=1000.0)
    answers = 2 * np.arange(levels) / (levels - 1) - 1
    expected = beliefs.expects(ONE)
    q = float((expected.switch + expected.advantage * answers[y])[0])
    paid = mechanism.steps(beliefs, np.ones((levels, 1)), answers, np.full(levels, q))[2]
    assert np.argmax(paid) == np.arange(levels)[y]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"share": (0.4, 0.05)}, r"share is \[0.4, 0.05\]. Give the least and the largest share"),
        ({"share": (0.0, 1.2)}, "between 0 and 1"),
        (
            {"share": (0.05, 0.2), "features": two_levels(4), "effect": 0.2},
            "with 4 features and these effects a share",
        ),
        ({"features": two_levels(1)}, "effect is missing"),
        ({"effect": 0.1}, "there are no features"),
        ({"features": two_levels(1), "effect": "{ g = 0.1 }"}, "effect names 'g', which is no feature"),
        ({"features": two_levels(1), "effect": 0.1, "expected": '{ "f0=c" = 0.1 }'}, "expected names 'f0=c'"),
        ({"signal": 0.5}, "signal goes with answers that are numbers"),
        ({"levels": 11}, "levels is 11. A rating needs from 3 to 10 levels"),
        ({"agreement": 0.2}, "agreement goes with kind = 'rating'"),
    ],
)
def test_what_is_wrong_with_beliefs_is_told(given: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        study_of(**given)


def test_a_number_of_few_values_is_refused_as_a_number() -> None:
    text = "\n".join(
        [
            'name = "x"',
            'currency = "USD"',
            "[response]",
            'name = "y"',
            "low = 1",
            "high = 5",
            "step = 1",
            "[design]",
            'kind = "observed"',
            "[beliefs]",
            "signal = 0.5",
            "[costs]",
            'kind = "pareto"',
            "tail = 2.0",
            "scale = 0.05",
        ]
    )
    with pytest.raises(InputError, match=r"people choose from 5 values only.*kind = 'rating' and levels = 5"):
        Study.parse(text)
    assert Study.parse(text.replace("step = 1", "step = 0.1")).kind == "number"


def test_studies_of_numbers_have_no_shares_and_those_of_shares_no_numbers() -> None:
    study = study_of()
    assert study.shares is not None
    assert study.half_range == 1.0
    with pytest.raises(InputError, match="of which shares are believed and no numbers"):
        _ = study.beliefs
