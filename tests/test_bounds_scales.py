"""The closed forms of the bounds are the sensitivities and noise scales of the estimators that make releases."""

import math

import numpy as np
import pytest
from oracles_bounds import setting, world

from truthful.bounds.scales import FLOOR_POWER, gram_scale, peer_scale, public_scale, sensitivity
from truthful.estimators import NoisyStatistics
from truthful.mechanism import Mechanism

ESTIMATORS = ("known-design", "noisy-statistics", "ridge-ball", "ridge-free")


def mechanism(name: str, estimator: str) -> Mechanism:
    study = world(name).study
    return Mechanism(
        epsilon=0.7,
        base_payment=1.0,
        score_weight=0.0,
        estimator=estimator,
        public_share=0.8,
        regularization=40.0,
        peer_regularization=15.0,
        gram_share=0.3,
        design=study.second_moments,
    )


@pytest.mark.parametrize("name", ["ball 1", "ball 5", "uniform"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("n", [5, 4000, 10**6])
def test_scales_are_those_of_the_released_vectors(name: str, estimator: str, n: int) -> None:
    where, m = world(name), mechanism(name, estimator)
    s = setting(
        where,
        n=n,
        epsilon=0.7,
        public_share=0.8,
        gamma=40.0,
        peer_gamma=15.0,
        gram_share=0.3,
        estimator=estimator,
        peer_estimator=m.peers,
    )
    public, half = m.public_estimator(where.beliefs), m.half_estimator(where.beliefs)
    # Y in grid units is rounded up to a whole number of 2^-20, and a lattice widens by 1e-9.
    assert sensitivity(estimator, s.model, n, 40.0) == pytest.approx(public.sensitivity(n), rel=1e-5)
    assert public_scale(s) == pytest.approx(public.noise_scale(n, m.epsilon_public), rel=1e-5)
    assert peer_scale(s, n / 2) == pytest.approx(half.noise_scale(math.ceil(n / 2), m.epsilon_peer), rel=0.2)
    assert peer_scale(s, n) == pytest.approx(half.noise_scale(n, m.epsilon_peer), rel=1e-5)


def test_the_noise_in_the_second_moments_and_their_floor_are_those_of_the_estimator() -> None:
    where = world("observed")
    estimator = NoisyStatistics(3, where.beliefs.response_bound, 0.3)
    s = setting(where, n=1000, epsilon=0.7, gram_share=0.3)
    stated = float(gram_scale(s, 1000, 0.35))
    assert stated == pytest.approx(estimator.gram_scale(1000, 0.35), rel=1e-5)
    assert stated * 3**FLOOR_POWER == pytest.approx(estimator.eigenvalue_floor(1000, 0.35), rel=1e-5)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_sensitivities_of_many_sizes_are_those_of_each(estimator: str) -> None:
    model, counts, gammas = world("ball 2").model, np.array([[3.0], [1e4]]), np.array([1.0, 200.0])
    grid = np.broadcast_to(sensitivity(estimator, model, counts, gammas), (2, 2))
    for i, count in enumerate(counts[:, 0]):
        for j, gamma in enumerate(gammas):
            one = float(sensitivity(estimator, model, float(count), float(gamma)))
            assert grid[i, j] == pytest.approx(one, rel=1e-14)
