"""Intervals cover the truth as often as they say, through the mechanism that settles."""

import numpy as np
import pytest
from studies import CASES, people, planned

from truthful.mechanism import private_estimates
from truthful.moments import grid_features, grid_responses, group_moments
from truthful.regression import fast_answer
from truthful.release.coefficients import coefficients
from truthful.study import Study

RUNS, PLAYERS = 400, 3000


@pytest.mark.slow
@pytest.mark.parametrize("estimator", CASES)
def test_an_interval_covers_the_truth_at_least_as_often_as_it_says(estimator: str) -> None:
    """400 studies: the coverage of a 95 % interval falls below 0.89 with probability below 1e-6 (binomial)."""
    text, parameters = CASES[estimator]
    study = Study.parse(text)
    plan = planned(study, PLAYERS, estimator, **{"epsilon": 1.0, **parameters})
    rng = np.random.default_rng(2)
    covered = []
    for run in range(RUNS):
        invented = people(study, PLAYERS, seed=run)
        columns = {name: invented.reports.column(name).to_numpy() for name in invented.reports.column_names}
        X = study.normalise(columns)
        y = study.normalise_response(columns[study.response.name], X)
        kx, ky = grid_features(X), grid_responses(y, study.beliefs.response_bound)
        halves = group_moments(kx, ky, rng.integers(0, 2, PLAYERS).astype(np.uint8))
        estimates = private_estimates(halves, plan.mechanism, study.beliefs, fast_answer(rng))
        published = coefficients(study, plan.mechanism, estimates.public, PLAYERS)
        truth = study.raw_coefficients(invented.theta)
        covered.append(
            [row.low <= value <= row.high for row, (_, value) in zip(published, truth, strict=True)]
        )
    coverage = np.mean(covered, axis=0)
    assert coverage.min() > 0.89
    if estimator == "known-design":
        # Its error law is exact, not a bound: it must not cover too often either (same false-alarm probability).
        assert coverage.max() < 0.995
