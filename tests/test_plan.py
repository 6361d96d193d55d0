"""A plan: what it fills in, what it refuses, and that the file is the plan that was made."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.plans import case, people_of
from support.studies import DESIGNED, OBSERVED, RECORDS, RELEASES, UNIT_BALL, planned, saved_study
from support.surveys import survey

from truthful.bounds import proved
from truthful.errors import InputError, Refused
from truthful.files import sha256
from truthful.geometry import geometry
from truthful.guarantees import setting
from truthful.one_release import OneRelease
from truthful.people import invent
from truthful.plan import Plan, design
from truthful.planner.goals import (
    ASKED_PARAMETERS,
    PARAMETERS,
    RELEASE_PARAMETERS,
    SHARE_PARAMETERS,
)
from truthful.settlement import settle
from truthful.study import Study

BOTH = {"absent_share", "failure_probability"}


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


def carried_out(directory: Path, name: str, players: int = 500) -> Plan:
    """The plan of a name, of a study in a file."""
    study = saved_study(directory, RELEASES[name])
    return replace(case(name, players), study=study)


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """The file of a plan."""
    carried_out(tmp_path, "instruments").save(tmp_path / "plan.json")
    return tmp_path / "plan.json"


@pytest.mark.parametrize("name", RELEASES)
def test_a_plan_is_read_back_as_it_was_written(tmp_path: Path, name: str) -> None:
    plan = carried_out(tmp_path, name, 700)
    plan.save(tmp_path / "plan.json")
    loaded = Plan.load(tmp_path / "plan.json")
    assert loaded.sha256 == plan.sha256
    assert loaded.record() == plan.record()
    assert loaded.guarantees == plan.guarantees
    assert loaded.study.path == (tmp_path / "study.toml").resolve()
    assert loaded.parameters() == plan.parameters()
    assert loaded.mechanism.transform == plan.mechanism.transform


def test_a_plan_of_a_study_without_a_file_stands_alone(tmp_path: Path) -> None:
    plan = case("instruments")
    plan.save(tmp_path / "plan.json")
    loaded = Plan.load(tmp_path / "plan.json")
    assert loaded.sha256 == plan.sha256
    assert loaded.study.path is None


@pytest.mark.parametrize("name", RELEASES)
def test_the_plan_file_records_its_guarantees_its_study_and_its_own_hash(tmp_path: Path, name: str) -> None:
    plan = carried_out(tmp_path, name)
    plan.save(tmp_path / "plan.json")
    record = json.loads((tmp_path / "plan.json").read_text())
    assert record["sha256"] == plan.sha256
    assert record["study"] == {"name": plan.study.name, "sha256": plan.study.sha256, "file": "study.toml"}
    assert record["guarantees"] == plan.guarantees.record()
    assert Study.from_declaration(record["declaration"]) == plan.study
    assert record["format"] == "truthful/plan/2"
    assert set(record["parameters"]) == {"protects", *RELEASE_PARAMETERS, *BOTH}
    assert record["parameters"]["protects"] == ("answers" if name == "instruments" else "records")
    assert (record["parameters"]["gram_share"] is None) == (name != "noisy-statistics")
    assert (record["instruments"] is None) == (name != "instruments")
    if name == "instruments":
        assert record["instruments"]["unit"] == 2**-10
        assert np.shape(record["instruments"]["transform"]) == (4, 4)
    assert (record["roster"], record["response_share"]) == (None, 1.0)


def test_a_plan_from_a_roster_names_it_by_its_hash_and_holds_none_of_it() -> None:
    people = people_of(200, 3)
    one, same, other = (
        design(survey(3), roster=table, epsilon=1.0, score_weight=1.0, response_share=0.8)
        for table in (people, people.copy(), people[::-1])
    )
    assert one.roster == same.roster
    assert one.sha256 == same.sha256
    assert one.roster is not None
    assert one.roster.players == 200
    assert other.roster is not None
    assert other.roster.sha256 != one.roster.sha256
    assert one.answering == 160
    assert len(json.dumps(one.record())) < 8_000


def test_a_plan_and_its_study_can_be_moved_together(saved: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "moved" / "deep"
    elsewhere.mkdir(parents=True)
    for name in ("plan.json", "study.toml"):
        shutil.move(tmp_path / name, elsewhere / name)
    assert Plan.load(elsewhere / "plan.json").study.path == (elsewhere / "study.toml").resolve()


def test_a_plan_in_another_directory_finds_its_study(tmp_path: Path) -> None:
    (tmp_path / "plans").mkdir()
    carried_out(tmp_path, "instruments").save(tmp_path / "plans" / "plan.json")
    assert Plan.load(tmp_path / "plans" / "plan.json").study.path == (tmp_path / "study.toml").resolve()


def test_a_plan_parted_from_its_study_stands_alone_but_is_not_settled(tmp_path: Path) -> None:
    """Its costs too, which the study had in a file of its own; a rehearsal needs no ledger."""
    (tmp_path / "costs.csv").write_text("probability,value\n0,0\n0.5,0.05\n1,3\n")
    pareto = 'kind = "pareto"\ntail = 2.0\nscale = 0.05\n'
    text = DESIGNED.replace(pareto, 'kind = "empirical"\nfile = "costs.csv"\n')
    study = saved_study(tmp_path, text)
    plan = planned(study)
    plan.save(tmp_path / "plan.json")
    reports = invent(study, 500, np.random.default_rng(7)).reports
    for name in ("study.toml", "costs.csv"):
        (tmp_path / name).unlink()
    again = Plan.load(tmp_path / "plan.json")
    assert (again.sha256, again.study.costs) == (plan.sha256, study.costs)
    with pytest.raises(
        Refused, match=r"There is no '.*study\.toml', .* beside which the ledger of releases is kept"
    ):
        settle(again, reports, out=tmp_path / "settlement")
    assert not (tmp_path / "settlement").exists()
    assert settle(again, reports, seed=1).release.rehearsal


def test_a_plan_of_a_study_that_changed_since_is_refused(saved: Path, tmp_path: Path) -> None:
    saved_study(tmp_path, DESIGNED.replace("high = 200", "high = 300"))
    with pytest.raises(Refused, match=r"study\.toml was changed after plan\.json"):
        Plan.load(saved)


def test_a_comment_in_the_study_does_not_change_it(saved: Path, tmp_path: Path) -> None:
    before = Plan.load(saved).sha256
    saved_study(tmp_path, "# a comment\n" + DESIGNED)
    assert Plan.load(saved).sha256 == before


EDITED: list[dict[str, Any]] = [
    {"players": 501},
    {"parameters__epsilon": 1.0},
    {"parameters__score_weight": 0.4},
    {"parameters__base_payment": 50.0},
    {"parameters__absent_share": 0.0},
    {"parameters__rule": "brier", "parameters__base_payment": 50.0},
    {"study__sha256": "0" * 64},
    {"sha256": "0" * 64},
    {"guarantees__privacy": {"epsilon": 0.01, "probability": 1.0, "assumptions": []}},
    {"declaration__currency": "EUR"},
]


@pytest.mark.parametrize("changes", EDITED, ids=str)
def test_a_plan_that_was_edited_by_hand_is_refused(saved: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="changed by hand"):
        Plan.load(rewritten(saved, **changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"parameters__clip": 0.3},
        {"parameters__failure_probability": 0.02},
        {"instruments__transform": [[1024 * (i == j) for j in range(4)] for i in range(4)]},
        {"response_share": 0.9},
        {"roster": {"sha256": "0" * 64, "players": 500}},
        {"guarantees__participation": {"share": 1.0, "cost_threshold": None, "probability": 1.0}},
    ],
    ids=str,
)
def test_what_one_release_adds_to_a_plan_cannot_be_edited_either(
    saved: Path, changes: dict[str, Any]
) -> None:
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


@pytest.mark.parametrize(
    "changes",
    [
        {"parameters__estimator": "known-design"},
        {"parameters__protects": "records"},
        {"parameters__protects": None},
        {"parameters__clip": 0.7},
        {"parameters__public_share": 0.5},
        {"instruments": None},
        {"instruments__transform": [[1, 2], [3, 4]]},
        {"instruments__transform": [[0.5]]},
        {"roster": {"players": 3}},
        {"guarantees": {}},
        {"guarantees__budget": []},
    ],
    ids=str,
)
def test_a_plan_with_one_release_that_is_none_says_what_to_do(saved: Path, changes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"(?s)plan\.json .*`truthful plan STUDY --save plan\.json`"):
        Plan.load(rewritten(saved, **changes))


@pytest.mark.parametrize("missing", ["instruments", "roster", "response_share"])
def test_a_plan_with_one_release_that_lacks_a_part_names_it(saved: Path, missing: str) -> None:
    record = json.loads(saved.read_text())
    del record[missing]
    saved.write_text(json.dumps(record))
    with pytest.raises(InputError, match=missing):
        Plan.load(saved)


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
        case("instruments").save(tmp_path / "no" / "plan.json")
    with pytest.raises(InputError, match=r"cannot be written to .*directory"):
        case("instruments").save(tmp_path)


def test_a_plan_with_one_release_promises_what_it_says_whatever_version_wrote_it(saved: Path) -> None:
    """Its guarantees follow from people's features, which it does not hold: they are covered by its hash."""
    before = Plan.load(saved).guarantees
    assert Plan.load(rewritten(saved, version="0.0.0")).guarantees == before
    rewritten(saved, version="0.0.0", guarantees__accuracy={**before.record()["accuracy"], "rmse": 0.1})
    with pytest.raises(InputError, match="changed by hand"):
        Plan.load(saved)


# Defaults


@pytest.mark.parametrize(
    ("text", "estimator"),
    [
        (DESIGNED, "instruments"),
        (UNIT_BALL, "instruments"),
        (DESIGNED + RECORDS, "known-design"),
        (UNIT_BALL + RECORDS, "known-design"),
        (OBSERVED + RECORDS, "noisy-statistics"),
    ],
    ids=["uniform", "ball", "records", "records of the ball", "observed records"],
)
def test_the_estimator_follows_from_what_is_protected_and_the_design(text: str, estimator: str) -> None:
    plan = design(Study.parse(text), players=100, epsilon=1.0, score_weight=0.1)
    assert isinstance(plan.mechanism, OneRelease)
    assert plan.mechanism.estimator == estimator
    assert plan.mechanism.clip == plan.study.beliefs.radius
    assert plan.guarantees.privacy.protects == plan.study.protects


@pytest.mark.parametrize("rule", ["quadratic", "brier"])
@pytest.mark.parametrize("payments", ["never-negative", "expected"])
def test_the_base_payment_is_the_least_with_which_joining_pays(rule: str, payments: str) -> None:
    """That no payment is negative follows from features: who has longer ones starts from more."""
    people = people_of(200, 3)
    plan = design(survey(3), roster=people, epsilon=1.0, score_weight=0.5, rule=rule, payments=payments)
    mechanism = plan.mechanism
    assert isinstance(mechanism, OneRelease)
    s = setting(
        plan.study,
        mechanism,
        200,
        plan.absent_share,
        plan.failure_probability,
        geometry(people, mechanism.transform),
    )
    assert mechanism.base_payment == pytest.approx(float(proved.participation(s)), rel=1e-12)
    assert plan.guarantees.participation.share == pytest.approx(
        float(plan.study.costs.cdf(proved.threshold(s))), rel=1e-9
    )
    none = design(survey(3), roster=people, epsilon=1.0, score_weight=0.5, rule=rule, base_payment=0.0)
    assert none.guarantees.participation.share == 0.0
    assert none.guarantees.budget.cap is not None
    R = plan.study.beliefs.radius
    loss = mechanism.scoring.loss(R)
    assert float(none.mechanism.base(np.array([1.0]))[0]) == pytest.approx(0.5 * loss)  # type: ignore[union-attr]


def test_a_plan_of_version_0_1_is_refused_and_says_what_to_do(saved: Path) -> None:
    with pytest.raises(
        InputError, match=r"version 0\.1, which scored .* random halves.*Plan the study again: `truthful"
    ):
        Plan.load(rewritten(saved, format="truthful/plan/1"))


# Refusals


BAD: list[tuple[dict[str, Any], str]] = [
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
    ({"rule": "flat"}, "rule is 'flat'; choose one of quadratic, brier"),
    ({"payments": "some"}, "payments is 'some'; choose one of"),
    ({"peers": "halves"}, "Unknown parameter 'peers'"),
    ({"colour": "red"}, "Unknown parameter 'colour'; the parameters are estimator, .*absent_share"),
]


def refused(text: str, parameters: dict[str, Any], message: str) -> None:
    chosen: dict[str, Any] = {"players": 100, "epsilon": 1.0, "score_weight": 0.1, **parameters}
    with pytest.raises(InputError, match=message):
        design(Study.parse(text), **chosen)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        *BAD,
        ({"clip": 0.0}, "clip is 0.0; it must be above 0"),
        ({"clip": 0.61}, "clip is 0.61; no prediction is further than the radius 0.6 from the centre"),
        (
            {"estimator": "magic"},
            "estimator is 'magic'; choose one of instruments, known-design, noisy-statistics",
        ),
        ({"response_share": 0.0}, "response_share is 0.0; it must be above 0, and at most 1"),
        ({"response_share": 1.5}, "response_share is 1.5"),
        ({"estimator": "known-design"}, "'known-design' protects records, and the study .* protects answers"),
    ],
    ids=str,
)
def test_a_bad_parameter_is_named_shown_and_put_right(parameters: dict[str, Any], message: str) -> None:
    refused(DESIGNED, parameters, message)


@pytest.mark.parametrize(
    ("text", "parameters", "message"),
    [
        (
            OBSERVED + RECORDS,
            {"estimator": "known-design"},
            "'known-design' needs the features' second moments",
        ),
        (
            OBSERVED + RECORDS,
            {"estimator": "instruments"},
            "'instruments' protects answers, and the study .* protects records",
        ),
        (DESIGNED + RECORDS, {"response_share": 0.5}, "which only plans that protect answers know"),
        (OBSERVED, {}, "protects"),
    ],
    ids=["no design", "no answers", "records", "undeclared"],
)
def test_what_records_do_not_have_is_refused_by_name(
    text: str, parameters: dict[str, Any], message: str
) -> None:
    refused(text, parameters, message)


# The hash


def test_the_hash_is_the_same_for_the_same_plan_however_its_numbers_are_written() -> None:
    study = Study.parse(DESIGNED)
    one = design(study, players=100, epsilon=2, score_weight=1)
    other = design(study, players=np.int64(100), epsilon=np.float32(2), score_weight=1.0)  # type: ignore[arg-type]
    assert one.sha256 == other.sha256
    json.dumps(other.record())


def test_the_hash_of_a_recorded_plan_is_known(saved: Path) -> None:
    """Of format, study, players, parameters, roster, instruments and guarantees, as they are written."""
    record = json.loads(saved.read_text())
    covered = ("format", "players", "parameters", "response_share", "roster", "instruments", "guarantees")
    study = {name: record["study"][name] for name in ("name", "sha256")}
    assert record["sha256"] == sha256({"study": study, **{name: record[name] for name in covered}})


RELEASED: list[dict[str, Any]] = [
    {"players": 101},
    {"epsilon": 1.5},
    {"score_weight": 0.2},
    {"base_payment": 3.0},
    {"clip": 0.5},
    {"rule": "brier"},
    {"payments": "expected"},
    {"absent_share": 0.01},
    {"failure_probability": 0.02},
]


def hashes(text: str, changes: list[dict[str, Any]], **common: Any) -> list[str]:
    asked: dict[str, Any] = {"players": 100, "epsilon": 1.0, "score_weight": 0.1, **common}
    plans = [design(Study.parse(text), **{**asked, **change}) for change in ({}, *changes)]
    plans.append(design(Study.parse(text.replace("USD", "EUR")), **asked))
    return [plan.sha256 for plan in plans]


def named(*lists: list[dict[str, Any]]) -> set[str]:
    return {key for changes in lists for change in changes for key in change}


def test_every_parameter_changes_the_hash() -> None:
    answers, records = [{"response_share": 0.5}], [{"estimator": "noisy-statistics"}]
    noisy = [{"gram_share": 0.4}]
    found = [
        hashes(DESIGNED, RELEASED + answers),
        hashes(DESIGNED + RECORDS, RELEASED + records),
        hashes(OBSERVED + RECORDS, noisy),
    ]
    every = [one for hashed in found for one in hashed]
    assert len(set(every)) == len(every)
    assert named(RELEASED, records, noisy) == {*RELEASE_PARAMETERS, *BOTH, "players"}
    # Those of shares: tests/test_planner_shares.py; with predictions: tests/test_asked_study.py.
    assert named(RELEASED, records, noisy) | {*SHARE_PARAMETERS, *ASKED_PARAMETERS} == {
        *PARAMETERS,
        "players",
    }


@pytest.mark.parametrize("name", ["conjoint", "drinks", "ill-at-work"])
def test_a_seed_gives_the_same_noise_on_every_processor(name: str) -> None:
    """Their floats differ in the last bits, and noise follows from every digit of ε; a given one is kept."""
    study = Study.load(Path(__file__).parents[1] / "examples" / name / "study.toml")
    solved = design(study, players=3_000, budget=3_000).mechanism.epsilon
    assert solved == float(f"{solved:.10g}")
    given = solved * 0.987654321
    assert given != float(f"{given:.10g}")
    assert design(study, players=3_000, budget=3_000, epsilon=given).mechanism.epsilon == given
