"""What a bound depends on: the model of a study, and the numbers of a mechanism."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.oracles_bounds import BALLS, COSTS, DESIGNS, world
from support.oracles_bounds import setting as everyday

from truthful.bounds import Model, Setting, unit_ball
from truthful.errors import InputError


@pytest.mark.parametrize("name", BALLS)
def test_the_model_of_a_study_on_the_ball_is_its_closed_form(name: str) -> None:
    study = world(name).study
    beliefs, stated = study.beliefs, world(name).model
    closed = unit_ball(
        study.dimension,
        radius=beliefs.radius,
        noise_bound=beliefs.noise_bound,
        noise_variance=beliefs.noise_variance,
        prior_variance=beliefs.prior.variance(study.dimension),
    )
    for field in Model.__dataclass_fields__:
        assert getattr(stated, field) == pytest.approx(getattr(closed, field), rel=1e-9), field


def test_by_default_coefficients_are_uniform_on_their_ball() -> None:
    model = unit_ball(3, radius=2.0, noise_bound=1.0, noise_variance=0.3)
    assert model.mean_square == pytest.approx(2.0**2 / 5 * 3 / 5)
    assert model.response_bound == 3.0


@pytest.mark.parametrize("name", DESIGNS)
def test_the_variances_of_a_model_are_no_less_than_those_of_samples(name: str) -> None:
    """Variances of Σ⁻¹xy over 200,000 draws, at the worst θ: 5 % off has probability below 1e-9 (bounded terms)."""
    where, rng = world(name), np.random.default_rng(1)
    theta = where.worst_theta()
    X, y = where.people(rng, 1, 200_000, theta)
    terms = (X[0] * y[0][:, None]) @ where.inverse
    covariance = np.atleast_2d(np.cov(terms.T))
    assert np.trace(covariance) <= 1.05 * where.model.sampling_variance
    assert np.linalg.eigvalsh(covariance)[-1] <= 1.05 * where.model.direction_variance
    if name != "covariance":  # there E[(w·x)² x xᵀ] itself is only bounded
        assert np.trace(covariance) >= 0.95 * where.model.sampling_variance


@given(st.floats(0.01, 10), st.floats(0.01, 0.99))
def test_what_the_public_and_the_peers_spend_adds_up(epsilon: float, share: float) -> None:
    s = everyday(world("ball 2"), epsilon=epsilon, public_share=share)
    assert s.epsilon_public + s.epsilon_peer == pytest.approx(epsilon)
    assert s.epsilon_public == pytest.approx(share * epsilon)


def test_the_halves_have_the_penalty_of_everybody_unless_they_have_their_own() -> None:
    s = everyday(world("ball 2"), gamma=7.0)
    assert s.half_gamma == 7.0
    assert s.at(peer_gamma=3.0).half_gamma == 3.0
    assert s.at(peer_gamma=3.0).gamma == 7.0


def test_privacy_is_charged_at_the_total_level() -> None:
    s = everyday(world("ball 2"), epsilon=0.3)
    assert s.privacy_cost == pytest.approx(0.09)
    assert s.at(privacy="linear").privacy_cost == 0.3


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"n": 0}, "n is 0"),
        ({"n": math.nan}, "n is nan"),
        ({"epsilon": np.array([1.0, -1.0])}, "epsilon is"),
        ({"beta": 0.0}, "beta is 0.0; a probability must lie between 0 and 1"),
        ({"beta": 1.0}, "beta is 1.0"),
        ({"xi": 2.0}, "xi is 2"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(numbers: dict[str, float], message: str) -> None:
    usual: dict[str, float] = {"n": 10, "epsilon": 1.0, "alpha": 0.1}
    with pytest.raises(InputError, match=message):
        Setting(model=world("ball 2").model, costs=COSTS, **{**usual, **numbers})  # type: ignore[arg-type]
