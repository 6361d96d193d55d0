"""What a bound depends on: the model of a study, and the numbers of a mechanism."""

import math

import numpy as np
import pytest
from support.oracles_bounds import BALLS, COSTS, DESIGNS, world
from support.oracles_bounds import setting as everyday

from truthful.bounds import Model, Setting, proved, unit_ball
from truthful.errors import InputError
from truthful.scoring import RULES


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


@pytest.mark.parametrize("rule", RULES)
def test_losses_and_gains_are_the_rules_own(rule: str) -> None:
    s = everyday(world("ball 5"), rule=rule, clip=np.array([0.3, 1.0, 2.0]))
    np.testing.assert_array_equal(s.loss, [RULES[rule].loss(c) for c in (0.3, 1.0, 2.0)])
    np.testing.assert_array_equal(s.gain, [RULES[rule].gain(c) for c in (0.3, 1.0, 2.0)])


def test_clip_levels_and_privacy_levels_are_tried_at_once() -> None:
    s = everyday(
        world("ball 2"),
        n=10_000,
        alpha=np.array([0.001, 0.01])[:, None, None],
        epsilon=np.array([1.0, 3.0, 9.0])[:, None],
        clip=np.array([0.25, 0.5, 0.75, 1.0]),
        b=np.full((2, 3, 4), 0.5),
    )
    one = s.at(alpha=0.01, epsilon=3.0, clip=0.5, b=0.5)
    names = ("gap", "lie_size", "truthfulness", "participation", "budget", "likely_budget", "budget_cap")
    for estimator in ("known-design", "noisy-statistics"):
        for name in names:
            function = getattr(proved, name)
            table = np.broadcast_to(function(s.at(estimator=estimator)), (2, 3, 4))
            assert table[1, 1, 1] == pytest.approx(float(function(one.at(estimator=estimator))), rel=1e-12), (
                name
            )


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
        ({"clip": 0.0}, "clip is 0.0; it must be above 0 and at most the radius 1"),
        ({"clip": 1.1}, "clip is 1.1"),
        ({"clip": math.nan}, "clip is nan"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(numbers: dict[str, float], message: str) -> None:
    usual: dict[str, float] = {"n": 10, "epsilon": 1.0, "alpha": 0.1}
    with pytest.raises(InputError, match=message):
        Setting(model=world("ball 2").model, costs=COSTS, **{**usual, **numbers})  # type: ignore[arg-type]
