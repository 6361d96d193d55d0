"""A plan: what it fills in, what it refuses, and that the file is the plan that was made."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from studies import CASES, DESIGNED, OBSERVED, UNIT_BALL, planned, saved_study

from truthful.errors import InputError, Refused
from truthful.plan import PARAMETERS, Plan, design
from truthful.study import Study


def rewritten(path: Path, **changes: Any) -> Path:
    """The plan file with parts replaced, as an editor would."""
    record = json.loads(path.read_text())
    for name, value in changes.items():
        part, _, key = name.partition("__")
        if key:
            record[part][key] = value
        else:
            record[part] = value
    path.write_text(json.dumps(record))
    return path


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    planned(saved_study(tmp_path)).save(tmp_path / "plan.json")
    return tmp_path / "plan.json"


@pytest.mark.parametrize("estimator", CASES)
def test_a_plan_is_read_back_as_it_was_written(tmp_path: Path, estimator: str) -> None:
    text, parameters = CASES[estimator]
    plan = planned(saved_study(tmp_path, text), 700, estimator, **parameters)
    plan.save(tmp_path / "plan.json")
    loaded = Plan.load(tmp_path / "plan.json")
    assert loaded.sha256 == plan.sha256
    assert loaded.record() == plan.record()
    assert loaded.study.path == (tmp_path / "study.toml").resolve()


def test_a_plan_of_a_study_without_a_file_stands_alone(tmp_path: Path) -> None:
    plan = planned(Study.parse(DESIGNED))
    plan.save(tmp_path / "plan.json")
    loaded = Plan.load(tmp_path / "plan.json")
    assert loaded.sha256 == plan.sha256
    assert loaded.study.path is None


def test_the_plan_file_records_its_guarantees_its_study_and_its_own_hash(saved: Path) -> None:
    record, plan = json.loads(saved.read_text()), Plan.load(saved)
    assert record["format"] == "truthful/plan/1"
    assert record["sha256"] == plan.sha256
    assert record["study"] == {"name": "Designed", "sha256": plan.study.sha256, "file": "study.toml"}
    assert record["guarantees"] == plan.guarantees.record()
    assert set(record["parameters"]) == set(PARAMETERS)
    assert Study.from_declaration(record["declaration"]) == plan.study


def test_a_plan_and_its_study_can_be_moved_together(saved: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "moved" / "deep"
    elsewhere.mkdir(parents=True)
    for name in ("plan.json", "study.toml"):
        shutil.move(tmp_path / name, elsewhere / name)
    assert Plan.load(elsewhere / "plan.json").study.path == (elsewhere / "study.toml").resolve()


def test_a_plan_in_another_directory_finds_its_study(tmp_path: Path) -> None:
    (tmp_path / "plans").mkdir()
    planned(saved_study(tmp_path)).save(tmp_path / "plans" / "plan.json")
    assert Plan.load(tmp_path / "plans" / "plan.json").study.path == (tmp_path / "study.toml").resolve()


def test_a_plan_parted_from_its_study_is_not_carried_out(saved: Path, tmp_path: Path) -> None:
    (tmp_path / "study.toml").unlink()
    with pytest.raises(InputError, match=r"no .*study\.toml.*ledger"):
        Plan.load(saved)


def test_a_plan_of_a_study_that_changed_since_is_refused(saved: Path, tmp_path: Path) -> None:
    saved_study(tmp_path, DESIGNED.replace("high = 200", "high = 300"))
    with pytest.raises(Refused, match=r"study\.toml was changed after plan\.json"):
        Plan.load(saved)


def test_a_comment_in_the_study_does_not_change_it(saved: Path, tmp_path: Path) -> None:
    before = Plan.load(saved).sha256
    saved_study(tmp_path, "# a comment\n" + DESIGNED)
    assert Plan.load(saved).sha256 == before


@pytest.mark.parametrize(
    "changes",
    [
        {"players": 501},
        {"parameters__epsilon": 1.0},
        {"parameters__score_weight": 0.4},
        {"parameters__base_payment": 5.0},
        {"parameters__absent_share": 0.0},
        {"parameters__estimator": "noisy-statistics"},
        {"study__sha256": "0" * 64},
        {"sha256": "0" * 64},
        {"guarantees__privacy": {"epsilon": 0.01, "probability": 1.0, "assumptions": []}},
        {"guarantees": {}},
        {"declaration__currency": "EUR"},
    ],
    ids=str,
)
def test_a_plan_that_was_edited_by_hand_is_refused(saved: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="changed by hand"):
        Plan.load(rewritten(saved, **changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"players": "many"},
        {"players": 1},
        {"parameters": []},
        {"parameters": None},
        {"parameters": {"epsilon": 1.0}},
        {"parameters__epsilon": "nan"},
        {"parameters__epsilon": None},
        {"parameters__players": 3},
        {"parameters__colour": "red"},
        {"parameters__estimator": "magic"},
        {"parameters__base_payment": 0.0},
        {"study": []},
        {"study": {}},
        {"guarantees": None},
        {"declaration": {}},
        {"declaration": None},
        {"declaration": [1]},
    ],
    ids=str,
)
def test_a_plan_that_is_no_plan_is_an_input_error_that_says_what_to_do(
    saved: Path, changes: dict[str, Any]
) -> None:
    with pytest.raises(InputError, match=r"(?s)plan\.json .*`truthful plan STUDY --save plan\.json`"):
        Plan.load(rewritten(saved, **changes))


@pytest.mark.parametrize("missing", ["sha256", "players", "parameters", "study", "guarantees", "declaration"])
def test_a_plan_that_lacks_a_part_names_it(saved: Path, missing: str) -> None:
    record = json.loads(saved.read_text())
    del record[missing]
    saved.write_text(json.dumps(record))
    with pytest.raises(InputError, match=missing):
        Plan.load(saved)


@pytest.mark.parametrize(
    "text", ["", "{", "[1, 2]", '"plan"', "{}", '{"format": "truthful/release/1"}', "\ufeff"]
)
def test_a_file_that_is_not_a_plan_is_an_input_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "plan.json").write_text(text)
    with pytest.raises(InputError, match="plan"):
        Plan.load(tmp_path / "plan.json")


def test_a_missing_plan_a_directory_and_a_binary_file_are_input_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="There is no plan"):
        Plan.load(tmp_path / "plan.json")
    with pytest.raises(InputError, match="Is a directory"):
        Plan.load(tmp_path)
    (tmp_path / "binary").write_bytes(bytes(range(256)))
    with pytest.raises(InputError, match="not even JSON"):
        Plan.load(tmp_path / "binary")


def test_a_plan_cannot_be_saved_where_there_is_no_directory(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot be written to .*No such file"):
        planned(Study.parse(DESIGNED)).save(tmp_path / "no" / "plan.json")
    with pytest.raises(InputError, match=r"cannot be written to .*directory"):
        planned(Study.parse(DESIGNED)).save(tmp_path)


def test_guarantees_of_another_version_are_computed_again(saved: Path) -> None:
    rewritten(saved, version="0.0.0", guarantees={"old": "words"})
    assert Plan.load(saved).guarantees.privacy.epsilon == 2.0


# Defaults


@pytest.mark.parametrize(
    ("text", "estimator"),
    [(DESIGNED, "known-design"), (UNIT_BALL, "known-design"), (OBSERVED, "noisy-statistics")],
    ids=["uniform", "ball", "observed"],
)
def test_the_estimator_follows_from_the_design(text: str, estimator: str) -> None:
    mechanism = design(Study.parse(text), players=100, epsilon=1.0, score_weight=0.1).mechanism
    assert (mechanism.estimator, mechanism.peers) == (estimator, estimator)


@pytest.mark.parametrize(("rule", "least"), [("quadratic", 3 * 0.36), ("brier", 0.6 + 3 * 0.36)])
def test_the_base_payment_is_the_least_with_which_no_payment_is_negative(rule: str, least: float) -> None:
    study = Study.parse(DESIGNED)
    plan = design(study, players=100, epsilon=1.0, score_weight=0.5, rule=rule)
    assert plan.mechanism.base_payment == pytest.approx(0.5 * least)
    with pytest.raises(InputError, match="can fall to"):
        design(study, players=100, epsilon=1.0, score_weight=0.5, rule=rule, base_payment=0.4999 * least)


def test_ridge_peers_need_features_on_the_ball() -> None:
    with pytest.raises(Refused, match=r"'ridge-free' shrinks by a known factor only for .* 'uniform'"):
        planned(Study.parse(DESIGNED), estimator="ridge-ball", regularization=3.0)
    planned(Study.parse(DESIGNED), estimator="ridge-ball", regularization=3.0, peer_estimator="known-design")


# Refusals


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"players": 1}, "players is 1; it must be at least 2"),
        ({"players": 10.5}, "players is 10.5; it must be a whole number"),
        ({"epsilon": 0.0}, "epsilon is 0.0; it must be above 0"),
        ({"epsilon": float("nan")}, "epsilon is nan"),
        ({"epsilon": 1e-9}, "epsilon is 1e-09; it must lie between"),
        ({"epsilon": 1000.0}, "epsilon is 1000; it must lie between"),
        ({"score_weight": -1.0}, "score_weight is -1.0; it must be 0 or above"),
        ({"score_weight": 1e300}, "is .*e\\+300; it must be at most 1,000,000,000"),
        ({"absent_share": 1.0}, "absent_share is 1.0; it must be 0 or above, and below 1"),
        ({"absent_share": float("nan")}, "absent_share is nan"),
        ({"failure_probability": 0.0}, "failure_probability is 0.0"),
        ({"public_share": 1.0}, "public_share is 1.0"),
        ({"rule": "flat"}, "rule is 'flat'; choose one of quadratic, brier"),
        ({"payments": "some"}, "payments is 'some'; choose one of"),
        ({"estimator": "magic"}, "estimator is 'magic'; choose one of"),
        ({"estimator": "ridge-ball"}, "needs a regularization"),
        ({"colour": "red"}, "Unknown parameter 'colour'; the parameters are epsilon, .*absent_share"),
    ],
    ids=str,
)
def test_a_bad_parameter_is_named_shown_and_put_right(parameters: dict[str, Any], message: str) -> None:
    chosen: dict[str, Any] = {"players": 100, "epsilon": 1.0, "score_weight": 0.1, **parameters}
    with pytest.raises(InputError, match=message):
        design(Study.parse(DESIGNED), **chosen)


def test_observed_features_have_no_known_design() -> None:
    with pytest.raises(InputError, match="'known-design' needs the features' second moments"):
        planned(Study.parse(OBSERVED), estimator="known-design")


# The hash


def test_the_hash_is_the_same_for_the_same_plan_however_its_numbers_are_written() -> None:
    study = Study.parse(DESIGNED)
    one = design(study, players=100, epsilon=2, score_weight=1)
    other = design(study, players=np.int64(100), epsilon=np.float32(2), score_weight=1.0)  # type: ignore[arg-type]
    assert one.sha256 == other.sha256
    json.dumps(other.record())


def test_the_hash_is_known() -> None:
    """A release names its plan by it for ever."""
    plan = design(Study.parse(DESIGNED), players=100, epsilon=2.0, score_weight=1.0)
    assert plan.sha256 == "dccf474d4cbfeef374beb8692096f738aceff8e3e0cc90c9085b24f2381d3525"


CHANGES: list[dict[str, Any]] = [
    {"players": 101},
    {"epsilon": 1.5},
    {"score_weight": 0.2},
    {"base_payment": 3.0},
    {"estimator": "noisy-statistics"},
    {"peer_estimator": "noisy-statistics"},
    {"regularization": 3.0},
    {"peer_regularization": 3.0},
    {"public_share": 0.5},
    {"gram_share": 0.4},
    {"rule": "brier"},
    {"payments": "expected"},
    {"absent_share": 0.01},
    {"failure_probability": 0.02},
]


def test_every_parameter_changes_the_hash() -> None:
    common: dict[str, Any] = {"players": 100, "epsilon": 1.0, "score_weight": 0.1}
    plans = [design(Study.parse(DESIGNED), **{**common, **change}) for change in ({}, *CHANGES)]
    plans.append(design(Study.parse(DESIGNED.replace("USD", "EUR")), **common))
    assert {key for change in CHANGES for key in change} == {*PARAMETERS, "players"}
    assert len({plan.sha256 for plan in plans}) == len(plans)
