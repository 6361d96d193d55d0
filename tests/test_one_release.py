"""Studies settled with one release: planned from the roster, checked for those who answered, verified by anyone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.surveys import answered, features, roster, saved, survey

from truthful.bounds import proved
from truthful.errors import InputError, Refused, WorseThanPromised
from truthful.geometry import geometry
from truthful.guarantees import setting
from truthful.one_release import OneRelease
from truthful.plan import Plan, design
from truthful.release import Receipt, Release, read_receipt, read_release, verify
from truthful.release.publication import WITHDRAWN
from truthful.settlement import settle
from truthful.study import Study

PLAYERS = 600


def text_of(study: Study) -> str:
    """The survey's file, as benchmarks write it."""
    import rosters

    d = study.dimension
    lines = "".join(f'[[features]]\nname = "{name}"\n{rosters.FEATURES[name]}\n' for name in rosters.SETS[d])
    return str(rosters.STUDY.format(features=lines, protects="answers", design='kind = "observed"'))


@pytest.fixture
def panel(tmp_path: Path) -> tuple[Study, Any, Plan]:
    """A survey of 600 people at 5 USD each, planned from their features."""
    study = saved(text_of(survey(3)), tmp_path)
    people = roster(PLAYERS, 3)
    return study, people, design(study, roster=people, budget=5 * PLAYERS)


def test_a_plan_from_the_roster_is_the_bounds_of_that_roster(panel: tuple[Study, Any, Plan]) -> None:
    study, _, plan = panel
    mechanism = plan.mechanism
    assert isinstance(mechanism, OneRelease)
    found = geometry(features(PLAYERS, 3), mechanism.transform)
    s = setting(study, mechanism, PLAYERS, plan.absent_share, plan.failure_probability, found)
    assert plan.guarantees.accuracy.mean_squared_error == pytest.approx(float(proved.accuracy(s)), rel=1e-9)
    assert plan.guarantees.truthfulness.lie == pytest.approx(float(proved.lie_size(s)), rel=1e-9)
    assert plan.guarantees.budget.cap == pytest.approx(float(proved.budget_cap(s)), rel=1e-9)
    assert plan.guarantees.budget.cap is not None
    assert plan.guarantees.budget.cap <= 5 * PLAYERS
    assert plan.roster is not None
    assert plan.roster.players == PLAYERS


def test_a_plan_is_read_as_it_was_written_and_nothing_is_planned_again(
    panel: tuple[Study, Any, Plan], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, _, plan = panel
    plan.save(tmp_path / "plan.json")
    monkeypatch.setattr("truthful.plan.solve_numbers", None)
    monkeypatch.setattr("truthful.plan.guarantees", None)
    read = Plan.load(tmp_path / "plan.json")
    assert read.sha256 == plan.sha256
    assert read.guarantees == plan.guarantees
    assert read.record()["guarantees"] == plan.record()["guarantees"]


@pytest.mark.parametrize("part", ["epsilon", "transform", "rmse", "roster"])
def test_a_plan_changed_by_hand_is_refused(panel: tuple[Study, Any, Plan], tmp_path: Path, part: str) -> None:
    path = tmp_path / "plan.json"
    panel[2].save(path)
    record = json.loads(path.read_text())
    match part:
        case "epsilon":
            record["parameters"]["epsilon"] *= 1.01
        case "transform":
            record["instruments"]["transform"][0][0] += 1
        case "rmse":
            record["guarantees"]["accuracy"]["rmse"] /= 2
        case _:
            record["roster"]["players"] += 1
    path.write_text(json.dumps(record))
    with pytest.raises(InputError, match="changed by hand"):
        Plan.load(path)


def test_everybody_can_verify_her_payment_from_the_release_and_her_own_record(
    panel: tuple[Study, Any, Plan], tmp_path: Path
) -> None:
    study, people, plan = panel
    settlement = settle(plan, answered(study, people), out=tmp_path / "settled")
    release = read_release(tmp_path / "settled" / "release.json")
    assert isinstance(release, Release)
    assert release == settlement.release
    assert release.epsilon.answers == plan.mechanism.epsilon
    assert release.epsilon.records is None
    assert release.guarantees == release.promised
    for player in ("p-0", "p-17", "p-599"):
        receipt = read_receipt(tmp_path / "settled" / "receipts.parquet", player)
        verdict = verify(release, receipt)
        assert verdict.verified
        assert verdict.peer_prediction == pytest.approx(receipt.peer_prediction, abs=1e-12)
        assert verdict.own_prediction == pytest.approx(receipt.own_prediction, abs=1e-9)
        assert not verify(release, receipt.model_copy(update={"payment": receipt.payment + 2e-6})).verified
        assert not verify(release, receipt.model_copy(update={"report": -receipt.report})).verified
    theta = np.array(release.inverse) @ [int(k) * release.statistics.unit for k in release.statistics.vector]
    np.testing.assert_allclose(theta, release.theta, rtol=1e-12)
    matrix = np.array(
        [[int(k) * release.statistics.unit for k in row] for row in release.statistics.matrix or ()]
    )
    np.testing.assert_allclose(matrix @ np.array(release.inverse), np.eye(3), atol=1e-9)
    assert settlement.summary["total_paid"] <= (plan.guarantees.budget.cap or 0.0)
    ledger = json.loads((tmp_path / "ledger.json").read_text())["releases"]
    assert [(entry["epsilon"], entry["protects"]) for entry in ledger] == [
        (plan.mechanism.epsilon, "answers")
    ]


def test_who_knows_all_other_features_learns_hers_and_nothing_of_her_answer(
    panel: tuple[Study, Any, Plan],
) -> None:
    """What is not protected, shown: M less what n − 1 people add to it is ζxᵀ of the one who is left, exactly."""
    from truthful.moments import GRID, grid_features, instruments_on_grid

    study, people, plan = panel
    release = settle(plan, answered(study, people), seed=1).release
    assert isinstance(release, Release)
    kx = grid_features(features(PLAYERS, 3))
    kz = instruments_on_grid(kx, release.instruments.transform if release.instruments else None)
    matrix = np.array([[int(k) for k in row] for row in release.statistics.matrix or ()], dtype=object)
    others = kz[1:].astype(object).T.dot(kx[1:].astype(np.int64).astype(object))
    left = matrix - np.array([[int(v) for v in row] for row in others], dtype=object)
    victim = [int(k) for k in kx[0]]
    # The intercept is 1/√d for everybody, so that the first column gives ζ and then each x.
    zeta = [int(left[i][0]) // victim[0] for i in range(3)]
    row = int(np.argmax(np.abs(zeta)))
    assert [int(left[row][j]) // zeta[row] for j in range(3)] == victim
    assert GRID * release.theta[0] != 0


def test_fewer_than_promised_are_refused_and_nothing_is_lost_unless_less_is_accepted(
    panel: tuple[Study, Any, Plan], tmp_path: Path
) -> None:
    study, people, plan = panel
    half = answered(study, people).slice(0, PLAYERS // 2)
    with pytest.raises(WorseThanPromised, match="Nothing was drawn") as refused:
        settle(plan, half, out=tmp_path / "settled")
    assert refused.value.promised == plan.guarantees
    assert not (tmp_path / "settled").exists()
    assert not (tmp_path / "ledger.json").exists()
    assert [path.name for path in tmp_path.iterdir() if "unfinished" in path.name] == []
    release = settle(plan, half, out=tmp_path / "settled", accept_less=True).release
    assert isinstance(release, Release)
    assert release.promised == plan.guarantees.record()
    found = geometry(features(PLAYERS, 3)[: PLAYERS // 2], plan.mechanism.transform)
    held = plan.guarantees_for(PLAYERS // 2, found)
    assert release.guarantees["accuracy"]["rmse"] == pytest.approx(held.accuracy.rmse, rel=1e-9)
    assert release.guarantees["accuracy"]["rmse"] > release.promised["accuracy"]["rmse"]
    assert release.guarantees["budget"]["cap"] < release.promised["budget"]["cap"]


def test_a_response_share_promises_what_a_random_part_of_the_roster_keeps(tmp_path: Path) -> None:
    study, people = saved(text_of(survey(3)), tmp_path), roster(PLAYERS, 3)
    plan = design(study, roster=people, budget=5 * PLAYERS, response_share=0.5)
    assert plan.answering == PLAYERS // 2
    full = design(study, roster=people, budget=5 * PLAYERS)
    assert (plan.guarantees.accuracy.rmse or 0) > (full.guarantees.accuracy.rmse or 0)
    rng, reports = np.random.default_rng(5), answered(study, people)
    for seed in range(10):  # each keeps it with 99 % probability, and all ten with more than 90 %
        some = reports.take(np.sort(rng.choice(PLAYERS, PLAYERS // 2, replace=False)))
        release = settle(plan, some, seed=seed).release
        assert release.guarantees["accuracy"]["rmse"] <= release.promised["accuracy"]["rmse"]


def test_a_plan_without_a_roster_is_kept_by_people_drawn_from_the_design(tmp_path: Path) -> None:
    from support.studies import DESIGNED

    from truthful.people import invent

    study = saved(DESIGNED, tmp_path)
    plan = design(study, players=1000, budget=5000)
    assert plan.roster is None
    assert plan.mechanism.estimator == "instruments"
    for seed in range(5):
        people = invent(study, 1000, np.random.default_rng(seed))
        release = settle(plan, people.reports, seed=seed).release
        assert release.guarantees["accuracy"]["rmse"] <= release.promised["accuracy"]["rmse"]


def test_answers_decide_nothing_that_is_checked(panel: tuple[Study, Any, Plan]) -> None:
    """Neighbours that differ in one answer have the same matrix, the same guarantees and the same refusals."""
    study, people, plan = panel
    reports = answered(study, people)
    y = reports.column("y").to_numpy().copy()
    y[3] = -y[3]
    neighbour = reports.set_column(reports.column_names.index("y"), "y", pa.array(y))
    one, other = (settle(plan, table, seed=1).release for table in (reports, neighbour))
    assert isinstance(one, Release)
    assert isinstance(other, Release)
    assert one.statistics.matrix == other.statistics.matrix
    assert one.statistics.vector != other.statistics.vector
    assert one.guarantees == other.guarantees
    texts = []
    for table in (reports, neighbour):
        with pytest.raises(WorseThanPromised) as refused:
            settle(plan, table.slice(0, 200), seed=1)
        texts.append(str(refused.value))
    assert texts[0] == texts[1]


def test_people_are_not_left_out_for_their_answers(panel: tuple[Study, Any, Plan]) -> None:
    study, people, plan = panel
    with pytest.raises(Refused, match="because of what they answered"):
        settle(plan, answered(study, people), seed=1, on_bad="drop")


def test_a_level_that_few_people_have_is_named(tmp_path: Path) -> None:
    people = roster(PLAYERS, 3)
    levels = people.column("sex").to_numpy(zero_copy_only=False).copy()
    levels[:] = "f"
    levels[:7] = "m"
    people = people.set_column(people.column_names.index("sex"), "sex", pa.array(levels))
    study = saved(text_of(survey(3)), tmp_path)
    plan = design(study, roster=people, epsilon=1.0, score_weight=1.0)
    with pytest.raises(Refused, match=r"Only 7 .* sex = 'm'.*Merge the level"):
        settle(plan, answered(study, people), seed=1)
    nobody = answered(study, people).filter(pc.equal(people.column("sex"), "f"))
    with pytest.raises(Refused, match="Only 0"):
        settle(plan, nobody, seed=1)
    for line in ("publish_matrix = false", "features_public = true"):
        other = saved(text_of(study).replace('"answers"', f'"answers"\n{line}'), tmp_path)
        kept = design(other, roster=people, epsilon=1.0, score_weight=1.0)
        settlement = settle(kept, answered(other, people), seed=1)
        release = settlement.release
        assert isinstance(release, Release)
        assert (release.inverse is None) == ("publish" in line)
        assert (release.statistics.matrix_sha256 is None) == ("public" in line and "publish" not in line)
        for player in ("p-3", "p-300"):
            assert verify(release, settlement.receipt(player)).verified


def test_a_person_who_is_most_of_what_is_known_of_people_like_her_is_named(tmp_path: Path) -> None:
    """One person alone has a level, features being no secret: her leverage is 1."""
    people = roster(200, 3)
    levels = np.array(["f"] * 200)
    levels[41] = "m"
    people = people.set_column(people.column_names.index("sex"), "sex", pa.array(levels))
    text = text_of(survey(3)).replace('"answers"', '"answers"\nfeatures_public = true')
    study = saved(text, tmp_path)
    plan = design(study, roster=roster(200, 3), epsilon=1.0, score_weight=1.0)
    with pytest.raises(Refused, match=r"'p-41' \(row 41\)"):
        settle(plan, answered(study, people), seed=1, accept_less=True)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda table: table.slice(0, 7), "fewer than 8"),
        (lambda table: pa.concat_tables([table, table.slice(0, 1)]), "p-0"),
    ],
)
def test_too_few_people_and_people_who_answer_twice_are_refused(
    panel: tuple[Study, Any, Plan], change: Any, words: str
) -> None:
    study, people, plan = panel
    with pytest.raises((Refused, InputError), match=words):
        settle(plan, change(answered(study, people)), seed=1)


def test_more_people_than_planned_are_refused(panel: tuple[Study, Any, Plan]) -> None:
    study, _, plan = panel
    with pytest.raises(Refused, match="its budget covers no more"):
        settle(plan, answered(study, roster(PLAYERS + 1, 3)), seed=1)


def test_longer_features_than_planned_for_are_refused_for_the_cap(tmp_path: Path) -> None:
    study = saved(text_of(survey(2)), tmp_path)
    people = roster(400, 2)
    ages = pa.array(54 + 0.1 * (people.column("age").to_numpy() - 54))
    middling = people.set_column(people.column_names.index("age"), "age", ages)
    plan = design(study, roster=middling, epsilon=1.0, score_weight=5.0)
    with pytest.raises(Refused, match="longer than those it was made for"):
        settle(plan, answered(study, people), seed=1, accept_less=True)


def test_beliefs_that_the_result_contradicts_withdraw_promises_in_words(
    panel: tuple[Study, Any, Plan], tmp_path: Path
) -> None:
    from truthful.promises import released_promises

    study, people, plan = panel
    ages = people.column("age").to_numpy()
    extreme = people.append_column("y", pa.array(np.where(ages > 50, 1.0, -1.0)))
    settlement = settle(plan, extreme, out=tmp_path / "settled", seed=3)
    release = settlement.release
    assert isinstance(release, Release)
    assert release.warnings[0].startswith(WITHDRAWN)
    promised = {promise.name: promise.words for promise in released_promises(release, plan)}
    assert promised["truthfulness"].startswith("nothing is promised")
    assert promised["accuracy"].startswith("nothing is promised")
    assert promised["privacy"].startswith("nobody")
    assert WITHDRAWN in (tmp_path / "settled" / "report.html").read_text()
    calm = settle(plan, answered(study, people), seed=3).release
    assert isinstance(calm, Release)
    assert calm.warnings == ()


def test_observed_features_must_say_what_is_protected() -> None:
    study = Study.parse(text_of(survey(2)).replace('[privacy]\nprotects = "answers"\n', ""))
    with pytest.raises(InputError, match=r"protects = .answers.[\s\S]*With records, features are protected"):
        design(study, players=1000, budget=1000)


def test_a_sensitive_feature_forbids_answers() -> None:
    text = text_of(survey(3)).replace('levels = ["f", "m"]', 'levels = ["f", "m"]\nsensitive = true')
    with pytest.raises(InputError, match="'sex' is sensitive"):
        Study.parse(text)
    assert Study.parse(text.replace('[privacy]\nprotects = "answers"\n', "")).protects == "records"


def test_people_s_own_features_need_their_roster() -> None:
    with pytest.raises(InputError, match="--roster"):
        design(survey(2), players=1000, budget=1000)


def test_a_roster_is_refused_where_it_would_leak_or_serve_nothing(tmp_path: Path) -> None:
    records = survey(2, protects="records", design='kind = "observed"\nleast_eigenvalue = 0.1')
    with pytest.raises(InputError, match="would give these away"):
        design(records, roster=roster(100, 2), budget=100)
    with pytest.raises(InputError, match="on the roster"):
        design(survey(2), roster=roster(100, 2), players=101, budget=100)


@pytest.mark.parametrize(
    ("design_line", "estimator"),
    [('kind = "uniform"', "known-design"), ('kind = "observed"\nleast_eigenvalue = 0.1', "noisy-statistics")],
)
def test_records_are_protected_with_everybody_else_as_peers(
    tmp_path: Path, design_line: str, estimator: str
) -> None:
    import rosters

    text = rosters.STUDY.format(
        features='[[features]]\nname = "age"\nlow = 18\nhigh = 90\n', protects="records", design=design_line
    )
    study = saved(text, tmp_path)
    plan = design(study, players=20_000, budget=20_000)
    assert plan.mechanism.estimator == estimator
    rng = np.random.default_rng(0)
    people = pa.table({"player": [f"p-{i}" for i in range(20_000)], "age": rng.uniform(18, 90, 20_000)})
    settlement = settle(plan, answered(study, people), out=tmp_path / "settled", seed=2)
    release = settlement.release
    assert isinstance(release, Release)
    assert release.epsilon.records == plan.mechanism.epsilon
    assert (release.statistics.matrix is None) == (estimator == "known-design")
    for player in ("p-3", "p-19999"):
        receipt = settlement.receipt(player)
        assert isinstance(receipt, Receipt)
        assert verify(release, receipt).verified
    again = Plan.load(_written(plan, tmp_path))
    assert again.sha256 == plan.sha256


def _written(plan: Plan, directory: Path) -> Path:
    plan.save(directory / "plan.json")
    return directory / "plan.json"


def _nothing() -> dict[str, float]:
    names = ("leverage", "noise_scale", "peer_prediction", "own_prediction")
    return dict.fromkeys(names, 0.0)


def test_a_centre_may_be_anywhere_that_predictions_can_be() -> None:
    """A mean of 11 in a range from 0 to 60, with ten coefficients: its length is above 1, its predictions inside."""
    text = text_of(survey(10)).replace("low = -1\nhigh = 1", "low = 0\nhigh = 60")
    study = Study.parse(text.replace("signal = 0.6", "signal = 0.6\ncentre = { intercept = 11 }"))
    assert np.linalg.norm(study.declared.centre) > 1
    X = features(50, 10)
    assert study.raw_response(np.zeros(50), X) == pytest.approx(np.full(50, 11.0))
    assert study.normalise_response(np.full(50, 60.0), X).max() > study.beliefs.response_bound
    with pytest.raises(InputError, match="predicts up to"):
        Study.parse(text.replace("signal = 0.6", "signal = 0.6\ncentre = { intercept = 61 }"))


def test_a_matrix_that_is_kept_back_is_named_by_a_hash_that_nobody_can_try_out(tmp_path: Path) -> None:
    """The hash of the matrix itself would tell who guesses the last person's features that she is right."""
    from truthful.files import sha256

    text = text_of(survey(2)).replace('"answers"', '"answers"\npublish_matrix = false')
    study, people = saved(text, tmp_path), roster(100, 2)
    plan = design(study, roster=people, epsilon=1.0, score_weight=1.0)
    shown = design(saved(text_of(survey(2)), tmp_path), roster=people, epsilon=1.0, score_weight=1.0)
    matrix = settle(shown, answered(study, people), seed=1).release.statistics.matrix
    rows = [list(row) for row in matrix or ()]
    study = saved(text, tmp_path)
    settlement = settle(plan, answered(study, people), out=tmp_path / "settled")
    named = settlement.release.statistics.matrix_sha256
    assert named != sha256(rows)
    assert named == sha256([settlement.summary["salt"], *rows])
    for public in (tmp_path / "settled" / "release.json", tmp_path / "ledger.json"):
        assert settlement.summary["salt"] not in public.read_text()
