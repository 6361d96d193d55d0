"""Intervals cover the truth as often as they say, through the mechanism that settles."""

import math

import numpy as np
import pyarrow as pa
import pytest
from studies import CASES, DESIGNED, OBSERVED, people, planned

from truthful.mechanism import private_estimates
from truthful.moments import grid_features, grid_responses, group_moments
from truthful.people import invent
from truthful.regression import fast_answer
from truthful.release import verify
from truthful.release.coefficients import coefficients
from truthful.settlement import settle
from truthful.study import Study

RUNS, PLAYERS = 400, 3000


@pytest.mark.slow
@pytest.mark.parametrize("estimator", CASES)
def test_an_interval_covers_the_truth_at_least_as_often_as_it_says(estimator: str) -> None:
    """400 studies, at most 5 intervals each. P(Bin(400, 0.05) ≥ 46) = 1.9e-7: below 1e-6 for the lowest coverage."""
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
    assert coverage.min() > 0.885
    if estimator == "known-design":
        # Its error law is exact, not a bound: it must not cover too often either. P(Bin(400, 0.05) ≤ 2) = 3e-7.
        assert coverage.max() < 0.995


RANGES = [(-1e50, 1e50), (0.0, 1e-50), (1e50 - 1e36, 1e50), (-1.0, math.nextafter(-1.0, 0.0))]


@pytest.mark.parametrize("estimator", ["known-design", "noisy-statistics", "ridge-ball"])
@pytest.mark.parametrize("response", RANGES)
@pytest.mark.parametrize("price", RANGES)
def test_ranges_as_wide_and_as_narrow_as_may_be_declared_are_settled(
    estimator: str, response: tuple[float, float], price: tuple[float, float]
) -> None:
    text = OBSERVED if estimator == "noisy-statistics" else DESIGNED
    for old, (low, high) in (("low = 0\nhigh = 200", response), ("low = 1\nhigh = 5", price)):
        text = text.replace(old, f"low = {low!r}\nhigh = {high!r}")
    ridge: dict[str, float | str] = {}
    if estimator == "ridge-ball":
        ridge = {"regularization": 40.0, "peer_estimator": "known-design"}
    rng, n = np.random.default_rng(1), 40
    answers = {
        "player": [f"p{i}" for i in range(n)],
        "price": rng.choice(price, n),
        "region": rng.choice(["north", "south", "east"], n),
        "spend": rng.choice(response, n),
    }
    settlement = settle(planned(Study.parse(text), n, estimator, **ridge), pa.table(answers), seed=1)
    published = [(row.low, row.value, row.high) for row in settlement.release.coefficients]
    assert np.isfinite(published).all()
    assert verify(settlement.release, settlement.receipt("p3")).verified


@pytest.mark.parametrize("estimator", ["known-design", "noisy-statistics"])
def test_a_study_without_features_publishes_the_mean(estimator: str) -> None:
    """Noise of scale 2Y/(nε) = 2/(3000·50) on the normalised mean, 1 of which is 100: off by 0.2 with chance e^-150."""
    start, end = DESIGNED.index("[[features]]"), DESIGNED.index("[design]")
    study = Study.parse(DESIGNED[:start] + DESIGNED[end:])
    invented = invent(study, 3000, np.random.default_rng(1))
    settlement = settle(planned(study, 3000, estimator, epsilon=100.0), invented.reports, seed=3)
    (intercept,) = settlement.release.coefficients
    assert intercept.name == "intercept"
    assert intercept.value == pytest.approx(invented.reports.column("spend").to_numpy().mean(), abs=0.2)
    assert intercept.low < intercept.value < intercept.high
    assert verify(settlement.release, settlement.receipt("p-0003")).verified


@pytest.mark.parametrize("outliers", [0, 1, 9, 39])
def test_answers_far_from_every_prediction_are_settled(outliers: int) -> None:
    """The narrowest noise a study may declare, and answers fifty standard deviations from any prediction."""
    start, end = DESIGNED.index('[[features]]\nname = "region"'), DESIGNED.index("[design]")
    text = (DESIGNED[:start] + DESIGNED[end:]).replace("signal = 0.6", "signal = 0.6\nnoise_sd = 0.0004")
    rest = 40 - outliers
    answers = {
        "player": [f"p{i}" for i in range(40)],
        "price": [3.548] * outliers + [3.0] * rest,
        "spend": [54.0] * outliers + [100.0] * rest,
    }
    settlement = settle(planned(Study.parse(text), 40), pa.table(answers), seed=1)
    assert all(verify(settlement.release, settlement.receipt(f"p{i}")).verified for i in (0, 9, 39))
