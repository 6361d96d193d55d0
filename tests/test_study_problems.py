from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from support.generators_study import GAMBLING
from support.generators_study import gambling as study

from truthful.errors import InputError
from truthful.study import Study
from truthful.study.parser import EXAMPLES

AGE = {"name": "age", "low": 18, "high": 90}
REGION = {"name": "region", "levels": ["north", "south"]}
ASSIGNED = {"kind": "assigned"}
COVARIANCE = {"kind": "covariance", "matrix": [[0.5, 0.0], [0.0, 0.5]]}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"colour": 1},
            "study: colour is not a known key. Here go name, language, currency, intercept, invitation, response",
        ),
        (
            {"response__lo": 1},
            "study: response.lo is not a known key. Here go name, kind, low, high, levels, step, question, unit.",
        ),
        (
            {"features": [AGE, {**AGE, "hi": 1}]},
            "study: features[1].hi is not a known key. Here go name, low",
        ),
        (
            {"design__matrix": [[1]]},
            "study: design.matrix is not a known key. Here go kind, least_eigenvalue.",
        ),
        ({"costs__median": 1}, "study: costs.median is not a known key. Here go kind, tail, scale, privacy."),
        (
            {"response__high": None},
            "study: response.high is missing. Here go name, kind, low, high, levels, step, question, unit.",
        ),
        (
            {"privacy": {"protects": "answers", "matrix": True}},
            "study: privacy.matrix is not a known key. Here go protects, publish_matrix, features_public.",
        ),
        ({"costs__tail": None}, "study: costs.tail is missing. Here go kind, tail"),
        ({"name": 3}, "study: name is 3; it must be text, in quotes."),
        ({"name": ""}, "study: name is ''; it must not be empty."),
        ({"currency": "dollar"}, "study: currency is 'dollar'; it must be a code of three capital letters"),
        ({"intercept": 1}, "study: intercept is 1; it must be true or false."),
        ({"response__low": "0"}, "study: response.low is '0'; it must be a number."),
        ({"response__low": True}, "study: response.low is True; it must be a number."),
        ({"response__low": float("nan")}, "study: response.low is nan; it must be a finite number."),
        ({"response__low": 300}, "study: response.low is 300, not below high = 200. The response needs"),
        (
            {"response__high": 1e308, "response__low": -1e308},
            "study: response.high is 1e+308, beyond ±1e+50. The response needs a realistic range.",
        ),
        ({"response__low": -1e51}, "study: response.low is -1e+51, beyond ±1e+50."),
        (
            {"response__low": 0, "response__high": 1e-51},
            "study: response.high is 1e-51, less than 1e-50 above low = 0. The response needs a wider range",
        ),
        (
            {"beliefs": {"signal": 0.6, "noise_sd": 1e-6}},
            "study: beliefs.noise_sd is 1e-06, below 0.001 of its bound M = 0.4, too narrow to compute with. "
            "Give 0.0004 or more",
        ),
        (
            {"beliefs": {"signal": 0.6, "prior": "normal", "prior_sd": 1e-7}},
            "study: beliefs.prior_sd is 1e-07, below 0.001 of its bound R = 0.6, too narrow",
        ),
        (
            {"response__name": "sp\0end"},
            r"study: response.name: 'sp\x00end' holds a NUL character, which",
        ),
        (
            {"features": [AGE, {**AGE, "name": "\0"}]},
            r"study: features[1].name: '\x00' holds a NUL character, which",
        ),
        (
            {"features": [{"name": "region", "levels": ["north", "south\0"]}]},
            r"study: features[0].levels[1]: 'south\x00' holds a NUL character, which",
        ),
        (
            {"features": [{**AGE, "low": 90, "high": 18}]},
            "study: features[0].low is 90, not below high = 18. Feature 'age'",
        ),
        (
            {"features": [{"name": "age", "low": 1}]},
            "study: features[0].high is missing. Feature 'age' needs both",
        ),
        (
            {"features": [{"name": "age", "high": 1}]},
            "study: features[0].low is missing. Feature 'age' needs both",
        ),
        (
            {"features": [AGE, {"name": "x"}]},
            "study: features[1].low is missing. Feature 'x' needs its public range",
        ),
        (
            {"features": [{**AGE, "levels": ["a", "b"]}]},
            "study: features[0].levels are given together with low or high.",
        ),
        (
            {"features": [{"name": "x", "levels": ["a"]}]},
            "study: features[0].levels is ['a']. Feature 'x' needs at least",
        ),
        ({"features": [{"name": "x", "levels": ["1", 1]}]}, "study: features[0].levels names '1' twice."),
        (
            {"features": [{"name": "x", "levels": "ab"}]},
            "study: features[0].levels is 'ab'; it must be a list, in [ ].",
        ),
        (
            {"features": [{"name": "x", "levels": ["a", True]}]},
            "study: features[0].levels[1] is True; it must be text",
        ),
        ({"features": 3}, "study: features is 3; it must be a list, in [ ]."),
        ({"features": [AGE, AGE]}, "study: The name 'age' is used twice."),
        ({"features": [{**AGE, "name": "intercept"}]}, "study: The name 'intercept' is used twice."),
        ({"features": [{**AGE, "name": "player"}]}, "study: The name 'player' is used twice."),
        ({"features": [{**AGE, "name": "weekly_spend"}]}, "study: The name 'weekly_spend' is used twice."),
        ({"features": [], "intercept": False}, "study: There are no features and no intercept"),
        ({"design": 3}, "study: design is 3; it must be a section of its own."),
        ({"response": 3}, "study: response is 3; it must be a section of its own."),
        (
            {"design": {}},
            "study: design.kind is missing. Choose one of 'observed', 'uniform', 'assigned', 'covariance', "
            "'unit-ball'.",
        ),
        ({"design__kind": "normal"}, "study: design.kind is 'normal'; choose one of 'observed', 'uniform'"),
        (
            {"design": {"kind": "unit-ball"}},
            "study: features[1].levels is given, but design.kind = 'unit-ball'",
        ),
        (
            {"design": {"kind": "unit-ball"}, "intercept": True},
            "study: intercept is true, but design.kind = 'unit-ball'",
        ),
        (
            {"design__least_eigenvalue": 0.3},
            "study: design.least_eigenvalue is 0.3; with 4 columns of x it is at most 1/4",
        ),
        ({"design__least_eigenvalue": 0}, "study: design.least_eigenvalue is 0; it must be above 0."),
        ({"design": COVARIANCE}, "study: design.matrix is 2×2; x has 4 columns, so it must be 4×4."),
        ({"beliefs__signal": 1.0}, "study: beliefs.signal is 1.0; it must be below 1."),
        ({"beliefs__signal": 0}, "study: beliefs.signal is 0; it must be above 0."),
        (
            {"beliefs__signal": None},
            "study: beliefs.signal is missing. Give it, or both radius and noise_bound.",
        ),
        ({"beliefs__radius": 1}, "study: beliefs.signal is given together with radius or noise_bound."),
        (
            {"beliefs": {"radius": 1}},
            "study: beliefs.signal is missing. Give it, or both radius and noise_bound.",
        ),
        ({"beliefs__prior": "flat"}, "study: beliefs.prior is 'flat'; choose one of 'uniform' or 'normal'."),
        (
            {"beliefs__prior": "normal"},
            "study: beliefs.prior_sd goes with prior = 'normal', and that prior needs it.",
        ),
        ({"beliefs__prior_sd": 1}, "study: beliefs.prior_sd goes with prior = 'normal'"),
        ({"beliefs__unsure": 3}, "study: beliefs.unsure goes with sure: say how sure people are"),
        ({"beliefs__sure": 0}, "study: beliefs.sure is 0; it must be above 0."),
        ({"beliefs__tolerance": 0}, "study: beliefs.tolerance is 0; it must be above 0."),
        (
            {"beliefs": {"signal": 0.6, "sure": 5, "prior": "uniform"}},
            "study: beliefs.prior is 'uniform', but sure makes it a normal. Leave prior out, or leave sure out.",
        ),
        (
            {"beliefs": {"signal": 0.6, "sure": 5, "prior_sd": 0.5}},
            "study: beliefs.prior_sd is 0.5, but with sure it follows: ",
        ),
        (
            {"beliefs": {"signal": 0.6, "sure": 90}},
            "study: beliefs.sure and unsure come to a standard deviation of 90 of the average answer; with these "
            "bounds and ",
        ),
        (
            {"beliefs": {"signal": 0.6, "sure": 1e-5}},
            "study: beliefs.sure and unsure come to a standard deviation of 1e-05 of the average answer; with these "
            "bounds and ",
        ),
        (
            {"beliefs": {"signal": 0.6, "tolerance": 1e6}},
            "study: beliefs.tolerance is 1e+06; it is in units of the answer, which range over ",
        ),
        (
            {"beliefs__noise": "uniform", "beliefs__noise_sd": 1},
            "study: beliefs.noise_sd goes with noise = 'normal'.",
        ),
        (
            {"beliefs__centre": "low"},
            "study: beliefs.centre is 'low'; it must be a number, a table of names and numbers, or \"predictions\" to",
        ),
        (
            {"payments": {"bonus": 0.1}},
            "study: payments.bonus is not a known key. Here go prediction_bonus.",
        ),
        ({"beliefs__centre": {"age": "x"}}, "study: beliefs.centre.age is 'x'; it must be a number."),
        (
            {"beliefs__centre": {"height": 1}},
            "study: beliefs.centre: 'height' is no coefficient; choose from intercept, age",
        ),
        (
            {"beliefs__centre": {"age": 5}},
            "study: beliefs.centre predicts up to 1.8 of half the response's range away from its middle",
        ),
        (
            {"intercept": False, "beliefs__centre": {"intercept": 5}},
            "study: beliefs.centre: The intercept is off by -95",
        ),
        ({"costs__tail": -1}, "study: costs.tail is -1; it must be above 0."),
        (
            {"costs__privacy": "cubic"},
            "study: costs.privacy is 'cubic'; choose one of 'quadratic' or 'linear'.",
        ),
        (
            {"costs": {"kind": "empirical"}},
            "study: costs.probabilities is missing. Here go kind, file, probabilities",
        ),
        ({"costs": {"kind": "empirical", "file": 3}}, "study: costs.file is 3; it must be text, in quotes."),
        (
            {"features": [{**REGION, "reference": "west"}]},
            "study: features[0].reference is 'west'. Feature 'region' has no such level: its levels are north, south.",
        ),
        (
            {"features": [{**AGE, "reference": "18"}]},
            "study: features[0].reference is '18'. Feature 'age' has no such level: it has no levels.",
        ),
        (
            {"features": [{**REGION, "probabilities": [0.5, 0.3, 0.2]}], "design": ASSIGNED},
            "study: features[0].probabilities has 3 numbers, and Feature 'region' has 2 levels. Give one for each",
        ),
        (
            {"features": [{**REGION, "probabilities": [0.5, 0.4]}], "design": ASSIGNED},
            "study: features[0].probabilities has the sum 0.9; it must be 1.",
        ),
        (
            {"features": [{**REGION, "probabilities": [1, 0]}], "design": ASSIGNED},
            "study: features[0].probabilities[1] is 0; it must be above 0. Leave the level 'south' out if nobody gets",
        ),
        (
            {"features": [{**REGION, "probabilities": [0.5, 0.5]}], "design": {"kind": "uniform"}},
            "study: features[0].probabilities is given, but design.kind is 'uniform'. It goes with features that you "
            "assign by it: say design.kind = 'assigned'",
        ),
        (
            {"features": [{**AGE, "probabilities": [0.5, 0.5]}], "design": ASSIGNED},
            "study: features[0].probabilities goes with levels or values. Feature 'age' has neither",
        ),
        (
            {"features": [{"name": "age", "values": [5, 5]}], "design": ASSIGNED},
            "study: features[0].values is [5.0, 5.0]. Feature 'age' needs two or more, all different.",
        ),
        (
            {"features": [{**AGE, "values": [5, 7]}], "design": ASSIGNED},
            "study: features[0].low is 18, but values has the ends of the range. Leave it out.",
        ),
        (
            {"features": [AGE, REGION], "interactions": [["age", "plan"]]},
            "study: interactions[0] names 'plan', which is no feature; the features are age, region.",
        ),
        (
            {"features": [AGE, REGION], "interactions": [["age", "age"]]},
            "study: interactions[0] is ['age', 'age']; give the names of two different features, in [ ].",
        ),
        (
            {"features": [AGE, REGION], "interactions": [["age", "region"], ["region", "age"]]},
            "study: interactions[1] is ['region', 'age'], which is there already. Leave it out.",
        ),
        (
            {
                "features": [{"name": "u"}, {"name": "v"}],
                "interactions": [["u", "v"]],
                "design": {"kind": "unit-ball"},
            },
            "study: interactions are given, but design.kind = 'unit-ball' has none",
        ),
        (
            {
                "features": [{**AGE, "name": f"f{i}"} for i in range(12)],
                "interactions": [[f"f{i}", f"f{i + 1}"] for i in range(11)],
            },
            "study: interactions link features of 531,441 combinations, one with the next; at most 250,000",
        ),
        (
            {"costs": {"kind": "empirical", "file": "no.csv"}},
            "study: costs.file is only read for a study that is itself a file.",
        ),
        (
            {"costs": {"kind": "empirical", "file": "no.csv", "values": [1]}},
            "study: costs.file is given together with probabilities or values.",
        ),
        (
            {"costs": {"kind": "empirical", "probabilities": [0.1, 1], "values": [0, 1]}},
            "study: costs: The probabilities run from 0.1 to 1; they must run from 0 to 1.",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as caught:
        study(**changes)
    assert message in str(caught.value).splitlines()[0]
    assert "pydantic" not in str(caught.value)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        ([[0.5, 0.1], [0.2, 0.5]], "design.matrix is not symmetric: [0][1] is 0.1, [1][0] is 0.2."),
        ([[0.5, 0.5], [0.5, 0.5]], "design.matrix has the eigenvalue"),
        ([[0.5, 0.0], [0.0, 0.6]], "design.matrix[1][1] is 0.6, above 1/2"),
        ([[0.4, 0.0], [0.0, 0.4]], "design.matrix[0][0] is 0.4; the intercept makes it 1/2 = 0.5."),
        ([[0.5, 0.0], [0.0]], "design.matrix is 2×1/2; x has 2 columns"),
        ([], "design.matrix is 0×"),
    ],
)
def test_a_matrix_that_is_no_second_moment_is_refused(matrix: list[list[float]], message: str) -> None:
    with pytest.raises(InputError) as caught:
        study(features=[AGE], design={"kind": "covariance", "matrix": matrix})
    assert message in str(caught.value)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(InputError) as caught:
        study(name=3, currency="x", costs__tail=0, response__low=300)
    assert len(str(caught.value).splitlines()) == 4


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"There is no study file '.*nothere\.toml'\. `truthful new DIR`"):
        Study.load(tmp_path / "nothere.toml")


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"study\.toml' is not UTF-8 text"):
        Study.load(tmp_path / "study.toml")


def test_a_directory_is_no_study_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        Study.load(tmp_path)


def test_a_syntax_error_is_named_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('name = "x"\ncurrency =\n')
    with pytest.raises(InputError, match=r"mine\.toml is not valid TOML: .*line 2"):
        Study.load(tmp_path / "mine.toml")


def test_problems_of_a_file_carry_its_name(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(GAMBLING.read_text().replace("high = 90", "high = 9"))
    with pytest.raises(InputError, match=r"^mine\.toml: features\[0\]\.low is 18, not below high = 9\."):
        Study.load(tmp_path / "mine.toml")


@pytest.mark.parametrize("section", EXAMPLES)
def test_a_missing_section_is_named_and_shown(section: str) -> None:
    with pytest.raises(InputError) as caught:
        study(**{section: None})
    message = str(caught.value)
    assert f"The section [{section}] is missing" in message
    example = tomllib.loads("\n".join(line.removeprefix("    ") for line in message.splitlines()[1:]))
    assert study(**{section: example[section]})
