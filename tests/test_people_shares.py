"""Invented people who answer yes or no, or with ratings: as the study believes people do.

Statistics are compared at five standard errors of fixed seeds: a false alarm has a probability of 6e-7 each.
"""

from __future__ import annotations

import numpy as np
import pytest
from support.laboratory import NUMBER, study_of

from truthful.people import answers, draw_shares, invent
from truthful.plan import design
from truthful.settlement import settle
from truthful.study import Study
from truthful.study.credibility import expected_shares

THREE = '[[features]]\nname = "region"\nlevels = ["north", "south", "west"]\n'
STUDIES = {
    "no features": study_of(),
    "levels and a number": study_of(columns=1, share=(0.2, 0.5), more=NUMBER + THREE),
    "effects expected": study_of(
        share=(0.3, 0.5), more=NUMBER + THREE, beliefs='expected = { age = 0.05, "region=north" = 0.03 }\n'
    ),
    "ratings": study_of(levels=5, share=(0.2, 0.6)),
}


def people_of(study: Study, count: int, seed: int = 0) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Normalised features."""
    rng = np.random.default_rng(seed)
    return np.asarray(study.normalise(study.sample_features(rng, count) if study.features else {}, count))


@pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)
def test_shares_have_the_moments_and_the_range_that_are_declared(study: Study) -> None:
    """Of 20,000 studies, for ten people."""
    rng, beliefs = np.random.default_rng(1), study.shares
    assert beliefs is not None
    x, draws = people_of(study, 10), 20_000
    theta = np.array([draw_shares(study, beliefs, rng) for _ in range(draws)])
    m, believed = (1 + theta @ x.T) / 2, beliefs.expects(x)
    deviation = m.std(axis=0)
    assert np.abs(m.mean(axis=0) - believed.mean).max() < 5 * deviation.max() / np.sqrt(draws)
    # Z = K'/(K' + μ(1−μ)/v − 1), solved for v.
    parts = (beliefs.levels - 1) / (1 + (beliefs.levels - 2) * beliefs.agreement)
    mean = believed.mean
    variance = mean * (1 - mean) / (1 + parts * (1 / believed.credibility - 1))
    # A fourth moment is at most three times the square of the second: uniform numbers have less.
    assert np.abs(m.var(axis=0) / variance - 1).max() < 5 * np.sqrt(2 / draws)
    assert (m.min(axis=0) >= believed.low - 1e-12).all()
    assert (m.max(axis=0) <= believed.high + 1e-12).all()
    assert (m.max(axis=0) > mean + 0.8 * (believed.high - mean)).any()


@pytest.mark.parametrize("levels", [2, 3, 5])
def test_effects_of_levels_sum_to_zero_and_each_is_uniform(levels: int) -> None:
    names = ", ".join(f'"l{k}"' for k in range(levels))
    study = study_of(share=(0.3, 0.5), more=f'[[features]]\nname = "f"\nlevels = [{names}]\n')
    rng, beliefs = np.random.default_rng(2), study.shares
    assert beliefs is not None
    theta = np.array([draw_shares(study, beliefs, rng) for _ in range(4_000)])
    x = study.normalise({"f": [f"l{k}" for k in range(levels)]}, levels)
    effects = (theta @ x.T - theta[:, [0]] * x[0, 0]) / 2
    assert np.abs(effects.sum(axis=1)).max() < 1e-12
    assert np.abs(effects).max() <= 0.05 + 1e-12
    # Kolmogorov and Smirnov: 2.7/√n is exceeded with probability 1e-6.
    ranks = (np.sort(effects, axis=0) + 0.05) / 0.1
    even = np.arange(1, 4_001)[:, None] / 4_000
    assert np.abs(ranks - even).max() < 2.7 / np.sqrt(4_000) + 1 / 4_000


@pytest.mark.parametrize("agreement", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("levels", [2, 3, 5])
def test_answers_have_the_share_as_their_mean_and_parts_that_agree(levels: int, agreement: float) -> None:
    """Variance m(1 − m)(1 + (K − 2)ρ)/(K − 1): of y from 0 to 1, over 100,000 people."""
    beliefs = study_of(levels=levels, beliefs="" if levels == 2 else f"agreement = {agreement}\n").shares
    assert beliefs is not None
    n, share = 100_000, 0.3
    said = answers(beliefs, np.full(n, 2 * share - 1), np.random.default_rng(3))
    assert np.isin(said, np.linspace(-1, 1, levels)).all()
    y = (1 + said) / 2
    variance = share * (1 - share) * (1 + (levels - 2) * beliefs.agreement) / (levels - 1)
    assert abs(y.mean() - share) < 5 * np.sqrt(variance / n)
    assert y.var() == pytest.approx(variance, rel=5 * 2 / np.sqrt(n))


def test_shares_of_zero_and_one_leave_no_doubt() -> None:
    beliefs = study_of(levels=5, share=(0.0, 1.0)).shares
    assert beliefs is not None
    said = answers(beliefs, np.array([-1.0, 1.0, -1.0 - 1e-12, 1.0 + 1e-12]), np.random.default_rng(0))
    assert said.tolist() == [-1.0, 1.0, -1.0, 1.0]


@pytest.mark.parametrize(
    "study",
    [
        study_of(levels=4, share=(0.2, 0.5), columns=1, more=NUMBER),
        study_of(levels=5, share=(0.05, 0.4)),
        study_of(levels=3, share=(0.2, 0.5), beliefs="agreement = 0.0\n"),
    ],
)
def test_what_answers_say_of_shares_is_what_studies_show(study: Study) -> None:
    """E[m | x, answer], over 100,000 studies, to five standard errors."""
    rng, beliefs = np.random.default_rng(4), study.shares
    assert beliefs is not None
    x = people_of(study, 1, seed=5)
    predicted = np.array([draw_shares(study, beliefs, rng) for _ in range(100_000)]) @ x[0]
    said, m = answers(beliefs, predicted, rng), (1 + predicted) / 2
    for answer, mean in zip(np.linspace(-1, 1, beliefs.levels), expected_shares(beliefs, x)[0], strict=True):
        seen = m[np.isclose(said, answer)]
        assert abs(seen.mean() - mean) < 5 * seen.std() / np.sqrt(len(seen))


@pytest.mark.parametrize("study", [STUDIES["no features"], STUDIES["effects expected"]])
def test_of_yes_and_no_it_is_what_is_declared(study: Study) -> None:
    beliefs = study.shares
    assert beliefs is not None
    x = people_of(study, 50)
    believed = beliefs.expects(x)
    declared = [believed.switch - believed.advantage, believed.switch + believed.advantage]
    np.testing.assert_allclose(expected_shares(beliefs, x), np.stack(declared, axis=1), rtol=1e-12)


def test_of_ratings_with_a_conjugate_prior_too() -> None:
    """Any share at all, and parts that do not agree: uniform is a Beta law."""
    beliefs = study_of(levels=6, share=(0.0, 1.0), beliefs="agreement = 0.0\n").shares
    assert beliefs is not None
    believed = beliefs.expects(np.ones((1, 1)))
    declared = believed.switch + believed.advantage * np.linspace(-1, 1, 6)
    np.testing.assert_allclose(expected_shares(beliefs, np.ones((1, 1)))[0], declared, rtol=1e-9)


@pytest.mark.parametrize("levels", [2, 3, 4, 7, 10])
def test_invented_reports_can_be_settled(levels: int) -> None:
    """All levels are such as people can give, whatever they are divided by."""
    study = study_of(columns=1, share=(0.2, 0.5), levels=levels)
    people = invent(study, 400, np.random.default_rng(6))
    raw = people.reports[study.response.name].to_numpy()
    allowed = {0.0, 1.0} if levels == 2 else set(range(1, levels + 1))
    assert set(raw.tolist()) <= allowed
    assert people.reports.num_rows == 400
    plan = design(study, players=400, epsilon=1.0, bonus=1.0)
    settled = settle(plan, people.reports, seed=1, accept_less=True)
    assert settled.release.players == 400
