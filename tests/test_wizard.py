"""The wizard's fields and the study file they come to: whatever is typed is said, and nothing else."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.studies import DESIGNED, OBSERVED, UNIT_BALL

from truthful.errors import InputError
from truthful.formatting import shortest
from truthful.service.drafts import (
    BEGINNING,
    STEPS,
    USUAL,
    YES,
    asks,
    complaints,
    declared,
    document,
    field_of,
    fields_of,
    missing_fields,
    parse,
    protect_features,
)
from truthful.service.pages import plain_number
from truthful.study import Study, template
from truthful.study.parser import toml_string

FULL: dict[str, Any] = {
    **BEGINNING,
    "name": "Spending",
    "response": "spend",
    "low": "0",
    "high": "200",
    "question": "How much?",
    "unit": "dollars",
    "asked_by": "An institute",
    "purpose": "To learn.",
    "contact": "mail@example.org",
    "payer": "Accounts office",
    "features": [
        {"name": "age", "label": "Your age", "kind": "number", "low": "18", "high": "90", "unit": "years"},
        {"name": "region", "label": "Where you live", "kind": "levels", "levels": "north\nsouth"},
    ],
    "least_eigenvalue": "0.05",
    "protects": "records",
    "predictions": "",
}
NASTY = [
    '"',
    "'",
    '"""',
    "\\",
    "\n",
    "\r\n",
    "#",
    "]",
    "[costs]",
    "{{7*7}}",
    "%s",
    "\x7f",
    "\x1b",
    "ü",
    "𝔘",
    "\u2028",
]
texts = st.text(min_size=1, max_size=30) | st.lists(st.sampled_from(NASTY), min_size=1).map("".join)


@given(texts)
def test_any_text_is_one_string_of_the_file(text: str) -> None:
    assert tomllib.loads(f"a = {toml_string(text)}\nb = 1") == {"a": text, "b": 1}


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_any_number_is_kept_to_the_last_digit(value: float) -> None:
    assert plain_number(shortest(value)) == value
    assert tomllib.loads(f"a = {shortest(value)}")["a"] == value


@given(
    texts,
    texts,
    texts,
    texts,
    st.lists(texts.map(lambda text: text.replace("\n", " ")), min_size=2, unique=True),
)
def test_whatever_is_typed_is_what_the_study_declares(
    name: str, question: str, purpose: str, feature: str, levels: list[str]
) -> None:
    fields = FULL | {"name": name, "question": question, "purpose": purpose}
    fields["features"] = [
        {"name": f"of {feature}", "kind": "levels", "levels": "\n".join(f"is {level}" for level in levels)}
    ]
    said = tomllib.loads(document(fields))
    assert said["name"] == name
    assert said["response"]["question"] == question
    assert said["invitation"]["purpose"] == purpose
    assert said["features"] == [{"name": f"of {feature}", "levels": [f"is {level}" for level in levels]}]
    if "\0" not in feature + "".join(levels):
        study = Study.parse(document(fields))
        assert fields_of(study) == fields | {"least_eigenvalue": "0.05"}
        assert Study.parse(document(fields_of(study) or {})) == study


def test_a_full_draft_is_the_study_that_a_file_would_be() -> None:
    text = declared(FULL)
    assert text is not None
    study = Study.parse(text)
    assert study.response.high == 200
    assert study.least_eigenvalue == 0.05
    assert study.declared.invitation is not None
    assert all(not complaints(FULL, step) and not missing_fields(FULL, step) for step in STEPS)


@pytest.mark.parametrize(
    "text",
    [
        template(),
        DESIGNED,
        OBSERVED,
        DESIGNED.replace("signal = 0.6", "signal = 0.6\ntolerance = 5"),
    ],
)
def test_a_file_that_forms_can_hold_comes_back_the_same(text: str) -> None:
    study = Study.parse(text)
    fields = fields_of(study)
    assert fields is not None
    assert Study.parse(document(fields)) == study


@pytest.mark.parametrize(
    "text",
    [
        UNIT_BALL,
        DESIGNED.replace("signal = 0.6", "radius = 0.6\nnoise_bound = 0.4"),
        DESIGNED.replace("signal = 0.6", "signal = 0.6\ncentre = { intercept = 90 }"),
        DESIGNED.replace("signal = 0.6", 'signal = 0.6\nprior = "normal"\nprior_sd = 0.2'),
        DESIGNED.replace("signal = 0.6", "signal = 0.6\nsure = 5"),
        DESIGNED.replace('currency = "USD"', 'currency = "USD"\nintercept = false'),
        DESIGNED.replace('["north", "south", "east"]', '["north\\nwest", "south"]'),
    ],
)
def test_a_file_that_says_more_than_forms_ask_for_is_left_alone(text: str) -> None:
    assert fields_of(Study.parse(text)) is None


def test_a_lognormal_law_and_uniform_noise_are_written_and_read() -> None:
    fields = FULL | {"costs": "lognormal", "noise": "uniform", "design": "uniform", "privacy": "linear"}
    study = Study.parse(document(fields))
    assert study.declaration()["costs"] == {
        "kind": "lognormal",
        "median": 0.05,
        "sigma": 1.0,
        "privacy": "linear",
    }
    assert Study.parse(document(fields_of(study) or {})) == study


@pytest.mark.parametrize(
    ("field", "value", "step", "problem"),
    [
        ("name", "", "question", "missing"),
        ("low", "", "question", "missing"),
        ("low", "ten", "question", "number"),
        ("high", "nan", "question", "number"),
        ("contact", "", "invitation", "missing"),
        ("least_eigenvalue", "x", "people", "number"),
        ("protects", "", "people", "missing"),
        ("signal", "", "beliefs", "missing"),
        ("noise_sd", "wide", "beliefs", "number"),
        ("tolerance", "some", "beliefs", "number"),
        ("tail", "1_0", "costs", "number"),
    ],
)
def test_a_field_without_its_value_is_named(field: str, value: str, step: str, problem: str) -> None:
    fields = FULL | {field: value}
    assert missing_fields(fields, step) == {field: problem}
    assert declared(fields) is None
    assert not any(missing_fields(fields, other) for other in STEPS if other != step)


@pytest.mark.parametrize(
    ("change", "step", "words"),
    [
        ({"low": "300"}, "question", "response.low is 300, not below high"),
        ({"currency": "dollars"}, "question", "three capital letters"),
        ({"response": "player"}, "question", "'player' is used twice"),
        ({"features": [{"name": "a", "kind": "levels", "levels": "one"}]}, "people", "needs at least two"),
        ({"least_eigenvalue": "0.9"}, "people", "at most 1/3"),
        (
            {
                "protects": "answers",
                "features": [{"name": "ill", "kind": "number", "low": "0", "high": "1", "sensitive": YES}],
            },
            "people",
            "Feature 'ill' is sensitive",
        ),
        ({"signal": "1.5"}, "beliefs", "below 1"),
        ({"scale": "-1"}, "costs", "above 0"),
    ],
)
def test_the_study_s_own_complaints_stand_at_their_step(
    change: dict[str, Any], step: str, words: str
) -> None:
    fields = FULL | change
    assert [words in one.sentence for one in complaints(fields, step)] == [True]
    assert not any(complaints(fields, other) for other in STEPS if other != step)
    assert declared(fields) is None


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"low": "300"}, "low"),
        ({"response": "player"}, "response"),
        ({"currency": "dollars"}, "currency"),
        ({"features": [FULL["features"][1], {**FULL["features"][0], "low": "99"}]}, "f1_low"),
        ({"features": [FULL["features"][1], {**FULL["features"][0], "name": "spend"}]}, "f1_name"),
        ({"protects": "answers", "features": [{**FULL["features"][0], "sensitive": YES}]}, "f0_name"),
        ({"least_eigenvalue": "0.9"}, "least_eigenvalue"),
        ({"signal": "1.5"}, "signal"),
        ({"scale": "-1"}, "scale"),
        (
            {"answer_kind": "yes-no", "protects": "", "share_low": "50", "share_high": "5", "effect": "1"},
            "share_low",
        ),
    ],
)
def test_every_complaint_names_the_field_of_the_form_that_it_is_about(
    change: dict[str, Any], field: str
) -> None:
    fields = FULL | change
    assert [field_of(one) for step in STEPS for one in complaints(fields, step)] == [field]


@pytest.mark.parametrize("protects", ["answers", "records"])
def test_what_is_protected_is_written_and_read(protects: str) -> None:
    ill = {"name": "ill", "kind": "number", "low": "0", "high": "1"}
    fields = FULL | {"protects": protects, "hide_matrix": YES, "features_public": YES}
    fields["features"] = [ill | ({"sensitive": YES} if protects == "records" else {})]
    study = Study.parse(document(fields))
    assert study.protects == protects
    assert study.declaration()["privacy"] == {
        "protects": protects,
        "publish_matrix": False,
        "features_public": True,
    }
    assert [bool(feature.sensitive) for feature in study.features] == [protects == "records"]
    assert fields_of(study) == fields


def test_of_assigned_facts_answers_are_protected_and_of_people_s_own_it_is_asked() -> None:
    observed = FULL | {"design": "observed", "protects": ""}
    assert missing_fields(observed, "people") == {"protects": "missing"}
    assigned = protect_features(observed | {"design": "uniform"}, observed)
    assert assigned["protects"] == "answers"
    assert Study.parse(declared(assigned) or "").protects == "answers"
    assert protect_features(assigned | {"design": "observed"}, assigned)["protects"] == ""
    chosen = protect_features(observed | {"protects": "records"}, observed)
    assert protect_features(chosen | {"design": "uniform"}, chosen)["protects"] == "records"


def test_a_file_that_does_not_say_what_is_protected_is_refused_with_both_explained() -> None:
    with pytest.raises(InputError, match=r"protects = \"answers\"(.|\n)*or \"records\"(.|\n)*delicate"):
        parse(OBSERVED)
    assert parse(DESIGNED).protects == "answers"


def test_a_step_is_checked_while_others_are_empty() -> None:
    begun = BEGINNING | {"predictions": "", "signal": "7"}
    assert "below 1" in complaints(begun, "beliefs")[0].sentence
    assert complaints(begun, "costs") == []


def test_a_name_that_looks_like_a_complaint_is_one_complaint() -> None:
    fields = FULL | {"currency": "x\nstudy: costs.tail is wrong"}
    assert len(complaints(fields, "question")) == 1
    assert complaints(fields, "costs") == []


# Yes or no, and ratings

ASKED: dict[str, Any] = {**FULL, "answer_kind": "yes-no", "share_low": "5", "share_high": "40", "effect": ""}
ASKED |= {"features": [], "low": "", "high": "", "protects": ""}
FACTS: dict[str, Any] = {"features": FULL["features"], "effect": "2.5"}


def test_yes_or_no_is_declared_by_two_percentages() -> None:
    text = declared(ASKED)
    assert text is not None
    said = tomllib.loads(text)
    assert said["response"] == {"name": "spend", "kind": "yes-no", "question": "How much?"}
    assert said["beliefs"] == {"share": [0.05, 0.4]}
    assert said["privacy"] == {"protects": "answers"}
    assert parse(text).kind == "yes-no"


def test_with_facts_the_most_that_one_changes_is_asked_too() -> None:
    assert missing_fields({**ASKED, **FACTS, "effect": ""}, "beliefs") == {"effect": "missing"}
    study = Study.parse(declared({**ASKED, **FACTS}) or "")
    assert study.declared.beliefs.effect == 0.025
    assert not study.declared.beliefs.signal


def test_a_rating_is_declared_by_its_levels_and_what_its_mean_may_be() -> None:
    rating = {
        **ASKED,
        **FACTS,
        "answer_kind": "rating",
        "levels": "5",
        "share_low": "1.8",
        "share_high": "3.4",
    }
    study = Study.parse(declared({**rating, "effect": "0.4"}) or "")
    assert (study.kind, study.response.levels) == ("rating", 5)
    assert study.declared.beliefs.share == (0.2, 0.6)
    assert study.declared.beliefs.effect == 0.1


@pytest.mark.parametrize(
    ("change", "step", "missing"),
    [
        ({"share_low": ""}, "beliefs", {"share_low": "missing"}),
        ({"share_high": "many"}, "beliefs", {"share_high": "number"}),
        ({"answer_kind": "rating", "levels": ""}, "question", {"levels": "missing"}),
        ({"answer_kind": "number"}, "question", {"low": "missing", "high": "missing"}),
    ],
)
def test_what_is_missing_depends_on_what_people_answer(
    change: dict[str, str], step: str, missing: dict[str, str]
) -> None:
    assert missing_fields({**ASKED, **change}, step) == missing
    assert declared({**ASKED, **change}) is None


@pytest.mark.parametrize(
    ("change", "step", "said"),
    [
        ({"share_low": "50"}, "beliefs", "share is [0.5, 0.4]"),
        ({"share_high": "140"}, "beliefs", "share is [0.05, 1.4]"),
        ({**FACTS, "effect": "60"}, "beliefs", "a share could lie below 0"),
        (
            {"answer_kind": "rating", "levels": "2", "share_low": "1.2", "share_high": "1.5"},
            "question",
            "A rating needs from 3 to 10 levels",
        ),
        (
            {"answer_kind": "rating", "levels": "4.5", "share_low": "1.2", "share_high": "1.5"},
            "question",
            "A rating needs from 3 to 10 levels",
        ),
    ],
)
def test_what_cannot_be_is_said_at_its_own_step(change: dict[str, Any], step: str, said: str) -> None:
    told = complaints({**ASKED, **change}, step)
    assert any(said in one.sentence for one in told), told
    for other in STEPS:
        assert other == step or not complaints({**ASKED, **change}, other)


def test_a_step_is_checked_before_the_others_are_filled_in() -> None:
    for kind in ("yes-no", "rating"):
        begun = {**BEGINNING, "answer_kind": kind, "name": "n", "response": "r", "levels": "7"}
        assert not complaints(begun, "question")
        features = {"features": FULL["features"]}
        assert not complaints({**begun, **features}, "people")
        believed = {**begun, **features, "share_low": "3", "share_high": "4", "effect": "0.5"}
        assert not complaints(believed, "beliefs")


def test_a_delicate_fact_is_refused_where_facts_are_not_protected() -> None:
    delicate = [{**FULL["features"][0], "sensitive": YES}]
    (told,) = complaints({**ASKED, **FACTS, "features": delicate}, "people")
    assert "'age' is sensitive" in told.sentence
    records = (declared(ASKED) or "").replace('"answers"', '"records"')
    with pytest.raises(InputError, match="it is 'answers': their facts are not protected"):
        parse(records)


@pytest.mark.parametrize(
    "fields",
    [
        ASKED,
        {**ASKED, **FACTS},
        {
            **ASKED,
            **FACTS,
            "answer_kind": "rating",
            "levels": "7",
            "share_low": "2.5",
            "share_high": "4",
            "effect": "0.3",
        },
        {**ASKED, "share_low": "0.1", "share_high": "0.7"},
    ],
)
def test_a_file_of_yes_or_no_becomes_the_fields_it_came_from(fields: dict[str, Any]) -> None:
    study = Study.parse(declared(fields) or "")
    found = fields_of(study)
    assert found is not None
    assert Study.parse(document(found)) == study
    for name in ("answer_kind", "share_low", "share_high", "effect", "features"):
        assert found.get(name, "") == fields[name]


# Asked what the others will say

OTHERS: dict[str, Any] = {**FULL, "features": [], "protects": "answers", "least_eigenvalue": ""}
OTHERS |= {"predictions": YES, "sure": "10", "spread": "15", "signal": "", "effect": ""}
YES_OR_NO: dict[str, Any] = {**ASKED, "predictions": YES, "sure": "7"}
IN_LEVELS: dict[str, Any] = {
    **YES_OR_NO,
    "answer_kind": "rating",
    "levels": "5",
    "share_low": "1.8",
    "share_high": "3.4",
    "sure": "0.4",
}


def test_what_people_expect_is_asked_and_only_how_unsure_they_are_declared() -> None:
    said = tomllib.loads(declared(OTHERS) or "")["beliefs"]
    assert said == {"centre": "predictions", "sure": 10, "spread": 15}
    facts = {
        **OTHERS,
        "features": FULL["features"],
        "effect": "8",
        "plausible_low": "2",
        "plausible_high": "60",
    }
    said = tomllib.loads(declared(facts) or "")["beliefs"]
    assert said == {"centre": "predictions", "sure": 10, "spread": 15, "effect": 8, "plausible": [2, 60]}
    said = tomllib.loads(declared(YES_OR_NO) or "")["beliefs"]
    assert said == {"centre": "predictions", "share": [0.05, 0.4], "sure": 0.07}
    said = tomllib.loads(declared(IN_LEVELS) or "")["beliefs"]
    assert said == {"centre": "predictions", "share": [0.2, 0.6], "sure": 0.1}


def test_they_are_asked_unless_somebody_chose_or_there_are_facts() -> None:
    begun = {**OTHERS, "predictions": USUAL}
    assert asks(BEGINNING)
    assert asks(begun)
    assert asks({**begun, "answer_kind": "yes-no", "protects": ""})
    for change in (
        {"features": FULL["features"]},
        {"protects": "records"},
        {"hide_matrix": YES},
        {"predictions": ""},
    ):
        assert not asks({**begun, **change})
    old = {name: value for name, value in FULL.items() if name != "predictions"}
    assert not asks({**old, "features": []})  # a draft of before there was a choice


@pytest.mark.parametrize(
    ("fields", "change", "problem"),
    [
        (OTHERS, {"sure": ""}, {"sure": "missing"}),
        (OTHERS, {"spread": "wide"}, {"spread": "number"}),
        (OTHERS, {"plausible_low": "x"}, {"plausible_low": "number"}),
        (OTHERS, {"features": FULL["features"]}, {"effect": "missing"}),
        (YES_OR_NO, {"sure": ""}, {"sure": "missing"}),
        (OTHERS, {"predictions": ""}, {"signal": "missing"}),
    ],
)
def test_what_is_missing_depends_on_whether_they_are_asked(
    fields: dict[str, Any], change: dict[str, Any], problem: dict[str, str]
) -> None:
    assert missing_fields({**fields, **change}, "beliefs") == problem
    assert declared({**fields, **change}) is None


@pytest.mark.parametrize(
    ("fields", "change", "said"),
    [
        (OTHERS, {"protects": "records"}, "needs privacy.protects"),
        (OTHERS, {"plausible_low": "60", "plausible_high": "2"}, "plausible is [60, 2]"),
        (YES_OR_NO, {"sure": "30"}, "nobody can be less sure"),
    ],
)
def test_what_cannot_be_asked_so_is_said_with_beliefs(
    fields: dict[str, Any], change: dict[str, Any], said: str
) -> None:
    told = complaints({**fields, **change}, "beliefs")
    assert any(said in one.sentence for one in told), told
    assert not any(complaints({**fields, **change}, step) for step in STEPS if step != "beliefs")


@pytest.mark.parametrize("kind", ["number", "yes-no", "rating"])
def test_no_step_complains_before_the_others_are_filled_in(kind: str) -> None:
    begun = {**BEGINNING, "answer_kind": kind, "name": "n", "response": "r", "levels": "7"}
    for step in STEPS:
        assert not complaints(begun, step) or missing_fields(begun, step)
    assert not complaints({**begun, "low": "0", "high": "100"}, "question")


@pytest.mark.parametrize(
    "fields",
    [
        OTHERS,
        {**OTHERS, "features": FULL["features"], "effect": "8"},
        {**OTHERS, "plausible_low": "2", "plausible_high": "60"},
        YES_OR_NO,
        {**YES_OR_NO, **FACTS},
        IN_LEVELS,
    ],
)
def test_a_file_that_asks_becomes_the_fields_it_came_from(fields: dict[str, Any]) -> None:
    study = Study.parse(declared(fields) or "")
    found = fields_of(study)
    assert found is not None
    assert Study.parse(document(found)) == study
    for name in ("predictions", "sure", "spread", "effect", "features", "plausible_low"):
        assert found.get(name, "") == fields.get(name, "") or (name == "spread" and study.shares is not None)


def test_another_bonus_for_predictions_is_left_to_the_file() -> None:
    text = f"{declared(OTHERS)}\n[payments]\nprediction_bonus = 0.2\n"
    assert fields_of(Study.parse(text)) is None


def test_what_no_form_asks_for_is_left_to_the_file() -> None:
    text = (declared({**ASKED, **FACTS}) or "").replace(
        "effect = 0.025", "effect = {age = 0.05, region = 0.02}"
    )
    assert fields_of(Study.parse(text)) is None
    paid = (declared(ASKED) or "").replace("share = ", 'implausible = "paid"\nshare = ')
    assert fields_of(Study.parse(paid)) is None
