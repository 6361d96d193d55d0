"""What is said where the result contradicts the declared beliefs: of numbers, in units of the answer."""

import html
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from support.plans import solved
from support.studies import DESIGNED, UNIT_BALL, planned

from truthful.guarantees import Guarantees
from truthful.noise import L2Laplace
from truthful.one_release import LeaveOneOut
from truthful.plan import Plan, design
from truthful.promises import released_promises, wrong_beliefs
from truthful.release import Release
from truthful.release.publication import WITHDRAWN, contradictions
from truthful.report import report
from truthful.settlement import settle
from truthful.study import Study

AVERAGE = DESIGNED[: DESIGNED.index("[[features]]")] + DESIGNED[DESIGNED.index("[design]") :]
#: People's idea of the average is said to be 100 of 200.
SURE = AVERAGE.replace("signal = 0.6", "signal = 0.5\nnoise_sd = 0.2\ncentre = 100\nsure = 12")


def estimate_of(plan: Plan, theta: np.ndarray, players: int = 2000) -> LeaveOneOut:
    """A release with these coefficients, of people with features of the same weight in all directions."""
    d, mechanism = plan.study.dimension, plan.number_mechanism
    return LeaveOneOut(
        theta=theta,
        inverse=np.eye(d) * d / players,
        scale=mechanism.scale(plan.study.beliefs),
        transform=None,
        kept=None,
        matrix=None,
        vector=(0,) * d,
    )


@pytest.mark.parametrize("text", [SURE, DESIGNED, UNIT_BALL])
def test_beliefs_that_hold_are_contradicted_in_one_study_of_a_hundred(text: str) -> None:
    """100 draws of what beliefs and noise give: an alarm on average, and 6 or more in fewer than one of 1,000 seeds."""
    plan, rng = planned(Study.parse(text), 2000), np.random.default_rng(5)
    beliefs, found = plan.study.beliefs, plan.guarantees
    d, exact = plan.study.dimension, estimate_of(plan, np.zeros(plan.study.dimension))
    # As far off as noise and sampling make it: no lies, which the guarantee allows for besides.
    noise = L2Laplace(d, exact.scale).sample(rng, 100) @ exact.inverse.T
    sampled = rng.standard_normal((100, d)) * np.sqrt(beliefs.noise_variance * d / 2000)
    thetas = beliefs.prior.sample(rng, d, 100) + noise + sampled
    alarms = [contradictions(plan.study, replace(exact, theta=theta), found) for theta in thetas]
    assert sum(map(bool, alarms)) <= 5


def test_coefficients_three_times_as_long_as_declared_withdraw_promises_in_units_of_the_answer() -> None:
    """A length of 1.62 where 0.5 is declared."""
    plan = planned(Study.parse(DESIGNED.replace("signal = 0.6", "signal = 0.5")), 2000)
    (words,) = contradictions(plan.study, estimate_of(plan, np.array([1.62, 0, 0, 0])), plan.guarantees)
    assert words.startswith(
        f"{WITHDRAWN}: the average answer at the middle of all features is 181, not between "
    )
    assert "the coefficients have the length 1.62, not below 0." in words
    assert "(declared is 0.5 at most)" in words
    assert "in fewer than 1% of studies" in words
    # In other directions the average is as declared.
    (words,) = contradictions(plan.study, estimate_of(plan, np.array([0, 1.62, 0, 0])), plan.guarantees)
    assert "average" not in words


def answered(share: float, players: int = 2000) -> pa.Table:
    rng = np.random.default_rng(3)
    answers = np.clip(200 * share + rng.normal(0, 15, players), 0, 200)
    return pa.table({"player": np.arange(players), "spend": answers})


def test_an_average_that_people_cannot_have_expected_withdraws_truthfulness_and_accuracy(
    tmp_path: Path,
) -> None:
    study = Study.parse(SURE)
    plan = design(study, players=2000, budget=1000)
    calm, loud = (settle(plan, answered(share), out=tmp_path / str(share), seed=1) for share in (0.5, 0.15))
    for settlement, withdrawn in ((calm, False), (loud, True)):
        release = settlement.release
        assert isinstance(release, Release)
        assert bool(release.warnings) == withdrawn
        words = {promise.name: promise.words for promise in released_promises(release, plan)}
        for name in ("truthfulness", "accuracy"):
            assert words[name].startswith("nothing is promised: the result contradicts") == withdrawn
        page = report(release, plan)
        assert (WITHDRAWN in page) == withdrawn
        assert ("If people believed otherwise" in page) != withdrawn
    (warning,) = loud.release.warnings
    assert "the average answer is 30" in warning
    assert "normalised" not in warning


def test_a_report_says_how_wrong_beliefs_might_have_been_for_those_who_answered(tmp_path: Path) -> None:
    plan = design(Study.parse(SURE), players=2000, budget=1000)
    settlement = settle(plan, answered(0.5, 1500), out=tmp_path / "less", seed=1, accept_less=True)
    release = settlement.release
    assert isinstance(release, Release)
    now = wrong_beliefs(plan, Guarantees.from_record(release.guarantees))
    assert now != wrong_beliefs(plan)
    page = html.unescape((tmp_path / "less" / "report.html").read_text())
    assert now[0] in page
    assert "people are sure of the average answer to 12" in page


# Words


def test_a_plan_says_in_units_of_the_answer_how_far_people_may_be_off_and_what_that_does() -> None:
    plan = design(Study.parse(SURE), players=2000, budget=1000)
    truth = plan.guarantees.truthfulness
    first, second, third = wrong_beliefs(plan)
    assert truth.centre_tolerance is not None
    assert 2 < truth.centre_tolerance < 40
    assert f"average answer may be {truth.centre_tolerance:.3g} off what is declared" in first
    assert "no lie that moves a prediction by more than" in first
    assert f"by {truth.centre_amplification:.3g}." in second
    assert "how far one answer moves the average" in third
    tolerant = design(
        Study.parse(SURE.replace("sure = 12", "sure = 12\ntolerance = 5")), players=2000, budget=1000
    )
    assert wrong_beliefs(tolerant)[0].startswith(
        "People's idea of the average answer may be 5.00 off what is declared (beliefs.tolerance)"
    )


def test_where_some_answers_move_no_prediction_a_wrong_centre_is_said_to_move_the_best_one_far() -> None:
    flat = AVERAGE.replace("signal = 0.6", 'signal = 0.3\nnoise = "uniform"')
    plan = solved(flat, players=20_000, budget=5000)
    assert "Some answers move no prediction" in " ".join(wrong_beliefs(plan))
