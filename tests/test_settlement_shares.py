"""Yes and no and ratings from reports to payments: what is released, what is refused, and every payment verified."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.shares import NUMBER, reports, study_of, two_levels

import truthful as tf
from truthful.errors import InputError, Refused, WorseThanPromised
from truthful.intake.rules import BadReports
from truthful.moments import GRID, grid_features, sums
from truthful.one_release import LeaveOneOut
from truthful.share_release import SharePaymaster


def with_features(rng: np.random.Generator, players: int) -> pa.Table:
    """People of all ages and two sexes, of whom more say yes if they are old."""
    age, sex = rng.integers(18, 81, players).astype(float), rng.choice(["a", "b"], players)
    share = 0.35 + 0.04 * (age - 49) / 31 + 0.02 * np.where(sex == "a", -1, 1)
    answers = rng.random(players) < share
    return pa.table({"player": np.arange(players), "f0": sex, "age": age, "evaded": answers})


def settled(plan: tf.Plan, people: Any, **given: Any) -> Any:
    """A settlement; its release is one of everybody, and not of halves."""
    settlement = tf.settle(plan, people, **given)
    assert isinstance(settlement.release, tf.Release)
    return settlement


def survey() -> tf.Study:
    return study_of((0.2, 0.5), two_levels(1) + NUMBER, effect=0.1)


def test_a_share_is_released_with_its_interval_and_everybody_is_paid(tmp_path: Path) -> None:
    plan, people = tf.design(study_of(), players=2_000, budget=500), reports(study_of(), 2_000, 0.2, 1)
    settlement = settled(plan, people, out=tmp_path / "out", seed=1)
    [share] = settlement.release.shares
    assert share.name == "everybody"
    assert share.low < share.value < share.high
    # The noise has a deviation of 0.6 points: twenty of them are a chance of 1e-12.
    assert share.value == pytest.approx(0.2, abs=0.12)
    assert settlement.release.differences == ()
    assert settlement.release.odds_ratios is None
    paid = settlement.payments.column("payment").to_numpy()
    assert len(set(paid.tolist())) == 2
    assert np.all((paid >= 0) & (paid <= 0.25))
    release = tf.Release.load(tmp_path / "out" / "release.json")
    assert release == settlement.release
    for player in ("p-0001", "p-0008", "p-2000"):
        receipt = settlement.receipt(player)
        verdict = tf.verify(release, receipt)
        assert verdict.verified
        assert verdict.recomputed == receipt.payment
        other = receipt.model_copy(update={"report": 1.0 - receipt.report})
        assert not tf.verify(release, other).verified


@pytest.mark.parametrize(("seed", "norm"), [(1, "sup"), (2, "sup"), (2, "l2")])
def test_differences_and_odds_ratios_are_those_of_the_people(seed: int, norm: str) -> None:
    people = with_features(np.random.default_rng(seed), 20_000)
    plan = tf.design(survey(), roster=people, budget=20_000, norm=norm)
    release = settled(plan, people, seed=seed).release
    found = {part.name: part for part in release.differences or ()}
    assert list(found) == ["f0=b", "age"]
    # Five guaranteed errors: by Chebyshev's inequality a false alarm in at most 4 % of seeds, and these are fixed.
    off = 5 * (plan.guarantees.accuracy.effect_rmse or 0.0)
    assert found["f0=b"].value == pytest.approx(0.04, abs=off)
    assert found["age"].value == pytest.approx(0.08, abs=off)
    for ratio, difference in zip(release.odds_ratios or (), found.values(), strict=True):
        assert (ratio.value > 1) == (difference.value > 0)
        assert ratio.low < ratio.value < ratio.high
    assert release.warnings == ()


def test_every_payment_is_verified_with_features_of_all_kinds(tmp_path: Path) -> None:
    people = with_features(np.random.default_rng(3), 3_000)
    for study in (
        survey(),
        study_of((0.3, 0.5), two_levels(1) + NUMBER, effect=0.1, expected="{ age = 0.05 }"),
    ):
        settlement = settled(tf.design(study, roster=people, budget=6_000), people, seed=1)
        for player in range(0, 3_000, 250):
            assert tf.verify(settlement.release, settlement.receipt(player)).verified


def test_ratings_are_settled_and_verified() -> None:
    study = study_of((0.2, 0.6), levels=5)
    people = pa.table({"player": np.arange(2_000), "evaded": np.random.default_rng(0).integers(1, 6, 2_000)})
    settlement = settled(tf.design(study, players=2_000, budget=500), people, seed=1)
    [mean] = settlement.release.shares
    assert mean.low < 3 < mean.high
    for player in range(0, 2_000, 200):
        assert tf.verify(settlement.release, settlement.receipt(player)).verified


def test_no_answer_of_her_own_is_in_what_the_others_predict() -> None:
    """p is the same to the last digit for either answer, the released sum being moved along."""
    study, rng = survey(), np.random.default_rng(5)
    people = with_features(rng, 400)
    plan = tf.design(study, roster=people, epsilon=0.5, bonus=10.0)
    mechanism, shares = plan.share_mechanism, study.shares
    assert mechanism is not None
    assert shares is not None
    kx = grid_features(
        study.normalise({"f0": people["f0"].to_pylist(), "age": people["age"].to_numpy()}, 400)
    )
    ky = np.where(people["evaded"].to_numpy(zero_copy_only=False), GRID, -GRID).astype(float)

    def predicted(answers: np.ndarray, at: int) -> float:
        total = sums(kx, answers, mechanism.transform if mechanism else None)
        noisy = tuple(int(part) + 12_345 for part in total.vector)
        estimate: LeaveOneOut = mechanism.estimate([noisy], 400, shares, total.matrix)
        scored = SharePaymaster(mechanism, shares, estimate).score_players(kx, answers)
        return float(scored.peer_prediction[at])

    for at in (0, 17, 399):
        flipped = ky.copy()
        flipped[at] = -flipped[at]
        assert predicted(ky, at) == pytest.approx(predicted(flipped, at), abs=1e-13)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (["yes", "perhaps"], "Response 'evaded' of player 1 is 'perhaps'; it must be yes or no."),
        ([1.0, 0.5], "is 0.5; it must be yes or no"),
        (["yes", None], "is missing"),
        ([1, 2], "is 2; it must be yes or no"),
    ],
)
def test_what_is_no_answer_is_told_by_name(answers: list[object], message: str) -> None:
    plan = tf.design(study_of(), players=2_000, budget=500)
    people = pa.table({"player": [0, 1], "evaded": answers})
    with pytest.raises(BadReports, match=message):
        tf.settle(plan, people, seed=1)


@pytest.mark.parametrize("words", [["Yes", "no"], ["TRUE", "False"], ["1", "0"], [" yes ", "NO"]])
def test_yes_and_no_can_be_written_in_many_ways(words: list[str]) -> None:
    plan = tf.design(study_of(), players=2_000, budget=500)
    answers = [words[i % 4 == 0] for i in range(2_000)]
    people = pa.table({"player": np.arange(2_000), "evaded": answers})
    plain = pa.table({"player": np.arange(2_000), "evaded": [i % 4 != 0 for i in range(2_000)]})
    one, other = (settled(plan, table, seed=1).release for table in (people, plain))
    assert one.statistics == other.statistics


def test_nothing_is_moved_and_nobody_left_out() -> None:
    plan, people = (
        tf.design(study_of(), players=2_000, budget=500),
        reports(study_of(), 2_000, 0.2, 0),
    )
    with pytest.raises(Refused, match="on_bad='clip' moves numbers into their range"):
        tf.settle(plan, people, seed=1, on_bad="clip")
    with pytest.raises(Refused, match="on_bad='drop'"):
        tf.settle(plan, people, seed=1, on_bad="drop")


def test_fewer_answers_than_promised_are_refused_before_the_draw() -> None:
    plan, people = (
        tf.design(study_of(), players=2_000, budget=500),
        reports(study_of(), 1_000, 0.2, 0),
    )
    with pytest.raises(WorseThanPromised, match="instead of"):
        tf.settle(plan, people, seed=1)
    release = settled(plan, people, seed=1, accept_less=True).release
    assert release.guarantees["accuracy"]["rmse"] > release.promised["accuracy"]["rmse"]


def test_a_result_beyond_what_was_thought_possible_withdraws_promises() -> None:
    plan, people = (
        tf.design(study_of(), players=2_000, budget=500),
        reports(study_of(), 2_000, 0.6, 0),
    )
    settlement = settled(plan, people, seed=1)
    [warning] = settlement.release.warnings
    assert warning.startswith("The result contradicts the declared beliefs: the share of everybody is")
    # Beyond the tolerance everybody is paid alike, and nothing is won by saying yes together.
    [paid] = set(settlement.payments.column("payment").to_pylist())
    assert paid == pytest.approx(0.125, abs=2e-6)


def test_kept_back_sums_leave_a_payment_that_can_still_be_checked() -> None:
    people = with_features(np.random.default_rng(3), 3_000)
    text = survey().declaration()
    text["privacy"] = {**text["privacy"], "publish_matrix": False}
    study = tf.Study.from_declaration(text)
    settlement = settled(tf.design(study, roster=people, budget=6_000), people, seed=1)
    assert settlement.release.inverse is None
    assert tf.verify(settlement.release, settlement.receipt(5)).verified


def test_records_cannot_be_protected_yet() -> None:
    text = study_of((0.2, 0.5), two_levels(1), "uniform", effect=0.1).declaration()
    text["privacy"] = {"protects": "records"}
    with pytest.raises(InputError, match="protected as answers"):
        tf.design(tf.Study.from_declaration(text), players=2_000, budget=500)
