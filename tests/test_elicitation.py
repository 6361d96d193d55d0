"""Beliefs from statements and from earlier data: never too narrow for what was said, and always ones that fit."""

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from truthful.cli import app
from truthful.elicitation import Statements, earlier_study, elicit, vary
from truthful.errors import InputError
from truthful.intake import read_answers
from truthful.study import Study

FEATURES = """
[[features]]
name = "age"
low = 18
high = 80
[[features]]
name = "region"
levels = ["north", "south", "east"]
"""
COSTS = """
[costs]
kind = "pareto"
tail = 2.0
scale = 0.05
"""
NUMBERS = f"""
name = "Days"
currency = "USD"
[response]
name = "days"
low = 0
high = 100
{FEATURES}
[design]
kind = "uniform"
[beliefs]
signal = 0.6
noise_sd = 0.15
{COSTS}
"""
SHARES = NUMBERS.replace("low = 0\nhigh = 100", 'kind = "yes-no"').replace(
    "signal = 0.6\nnoise_sd = 0.15", "share = [0.2, 0.6]\neffect = 0.1"
)
ASKED = NUMBERS.replace(
    "signal = 0.6\nnoise_sd = 0.15",
    'centre = "predictions"\nsure = 10\nspread = 15\neffect = 5\nplausible = [2, 90]',
)
SAID = Statements(mostly=(20, 60), average=(30, 50), effects={"age": 30, "region": 20})


def paste(text: str, sections: str) -> Study:
    """The study with these sections in place of its own."""
    record, new = tomllib.loads(text), tomllib.loads(sections)
    return Study.from_declaration(
        record | {"response": record["response"] | new.get("response", {})} | {"beliefs": new["beliefs"]}
    )


def coefficients(
    rng: np.random.Generator, average: tuple[float, float], age: float, region: float
) -> dict[str, float]:
    """Raw coefficients that people of these statements can have: as extreme as they allow, or less."""
    slope = age * rng.choice([-1.0, 1.0, rng.uniform(-1, 1)])
    levels = rng.choice([0.0, 1.0, rng.uniform()], size=3)
    levels = region * (levels - levels.mean())
    middle = rng.choice([*average, rng.uniform(*average)])
    return {
        "intercept": middle - slope * 49 / 62,
        "age": slope / 62,
        **{f"region={name}": effect for name, effect in zip(("north", "south", "east"), levels, strict=True)},
    }


@pytest.mark.parametrize("each", [True, False])
def test_no_coefficients_that_fit_the_statements_lie_beyond_the_signal(each: bool) -> None:
    study = Study.parse(NUMBERS)
    said = SAID if each else Statements(mostly=(20, 60), average=(30, 50), difference=30)
    found = elicit(study, said)
    declared = found.apply(study)
    rng = np.random.default_rng(1)
    norms = []
    for _ in range(2_000):
        share = rng.choice([0.0, 1.0, rng.uniform()])
        age, region = (30, 20) if each else (30 * share, 30 * (1 - share))
        norms.append(np.linalg.norm(declared.theta(coefficients(rng, (30, 50), age, region))))
    assert max(norms) <= declared.beliefs.radius
    # Two digits, upward, are all that is added.
    assert max(norms) > 0.9 * declared.beliefs.radius


def test_noise_is_that_of_most_answers_and_has_room() -> None:
    found = elicit(Study.parse(NUMBERS), SAID)
    study = found.apply(Study.parse(NUMBERS))
    assert 40 / 3.29 <= found.beliefs["noise_sd"] * study.response_unit <= 1.1 * 40 / 3.29
    assert found.beliefs["signal"] + 2 * found.beliefs["noise_sd"] <= 1.06  # but for rounding up, 1
    assert found.response is not None
    assert found.response[0] < 0 < 100 < found.response[1]


def test_there_is_room_although_a_wider_range_bounds_the_centre_in_another_way() -> None:
    study = Study.parse(NUMBERS)
    said = Statements(mostly=(12, 36), average=(20, 28), difference=15)
    found = elicit(study, said)
    assert found.beliefs["signal"] + 2 * found.beliefs["noise_sd"] <= 1.06
    assert found.apply(study).response_unit >= 38


def test_a_range_with_room_is_kept() -> None:
    said = Statements(mostly=(45, 55), average=(49, 51), effects={"age": 2, "region": 2})
    assert elicit(Study.parse(NUMBERS), said).response is None


@pytest.mark.parametrize("text", [NUMBERS, SHARES, ASKED], ids=["numbers", "shares", "asked"])
def test_the_beliefs_are_ones_that_the_study_takes(text: str) -> None:
    study = Study.parse(text)
    said = (
        Statements(average=(0.3, 0.5), effects={"age": 0.1, "region": 0.05})
        if study.shares is not None
        else SAID
    )
    found = elicit(study, said)
    assert paste(text, found.toml()) == found.apply(study)


@pytest.mark.parametrize(("norm", "seed"), [(0.2, 1), (0.5, 2), (0.71, 3)])
def test_an_earlier_study_gives_beliefs_that_cover_it(norm: float, seed: int) -> None:
    study, rng = Study.parse(NUMBERS), np.random.default_rng(seed)
    X = study.normalise(study.sample_features(rng, 3_000))
    theta = rng.standard_normal(study.dimension)
    theta *= norm / np.linalg.norm(theta)
    answers = np.clip(50 + 50 * (X @ theta + 0.1 * rng.standard_normal(len(X))), 0, 100)
    declared = elicit(study, earlier_study(study, X, answers)).apply(study)
    found = declared.theta(dict(study.raw_coefficients(theta)))
    assert np.linalg.norm(found) <= declared.beliefs.radius
    assert declared.beliefs.noise.variance**0.5 * declared.response_unit == pytest.approx(5, rel=0.15)


def test_an_earlier_share_is_covered_with_room_on_both_sides() -> None:
    study, rng = Study.parse(SHARES), np.random.default_rng(4)
    X = study.normalise(study.sample_features(rng, 2_000))
    low, high = elicit(study, earlier_study(study, X, (rng.random(2_000) < 0.2).astype(np.float64))).beliefs[
        "share"
    ]
    assert (low, high) == (pytest.approx(0.1, abs=0.02), pytest.approx(0.3, abs=0.04))


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            Statements(mostly=(60, 20), difference=1),
            "mostly is 60 to 20. Give two numbers between 0 and 100",
        ),
        (Statements(mostly=(20, 60)), "difference is missing"),
        (Statements(difference=3), "mostly is missing"),
        (Statements(mostly=(20, 60), effects={"height": 3}), "no feature 'height'; they are age, region"),
        (Statements(mostly=(20, 60), effects={"age": 3}), "The effect of 'region' is missing"),
    ],
)
def test_statements_that_say_too_little_are_refused(said: Statements, words: str) -> None:
    with pytest.raises(InputError, match=words.replace(".", r"\.")):
        elicit(Study.parse(NUMBERS), said)


def test_plans_are_solved_for_half_and_twice_of_each() -> None:
    found = {
        (one.what, one.factor): one for one in vary(Study.parse(NUMBERS), {"players": 8_000, "budget": 8_000})
    }
    assert {what for what, _ in found} == {"as declared", "signal", "noise_sd", "costs"}
    errors = [found[key].record()["error"] for key in (("costs", 0.5), ("as declared", 1.0), ("costs", 2.0))]
    assert errors[0] < errors[1] < errors[2]
    assert ("signal", 2.0) not in found  # 1.2 cannot be


def test_the_command_prints_sections_to_paste_and_what_the_plan_owes_to_them(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(NUMBERS)
    given = ["beliefs", str(tmp_path / "study.toml"), "--mostly", "20", "60", "--average", "30", "50"]
    given += ["--effect", "age=30", "--effect", "region=20"]
    shown = CliRunner().invoke(app, [*given, "--players", "8000", "--budget", "8000"]).output
    sections = shown[shown.index("[response]") : shown.index("The plan")]
    assert paste(NUMBERS, sections) == elicit(Study.parse(NUMBERS), SAID).apply(Study.parse(NUMBERS))
    assert "twice the worth of privacy" in shown


def test_the_command_reads_earlier_answers_and_warns_that_they_become_public(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(NUMBERS)
    study, rng = Study.parse(NUMBERS), np.random.default_rng(5)
    columns = study.sample_features(rng, 200)
    rows = zip(columns["age"], columns["region"], rng.uniform(20, 60, 200), strict=True)
    (tmp_path / "old.csv").write_text("age,region,days\n" + "".join(f"{a},{r},{y}\n" for a, r, y in rows))
    X, answers = read_answers(study, tmp_path / "old.csv")
    wanted = elicit(study, earlier_study(study, X, answers))
    command = ["beliefs", str(tmp_path / "study.toml"), "--data", str(tmp_path / "old.csv")]
    shown = CliRunner().invoke(app, command).output
    assert wanted.toml() in shown
    assert "will be public" in shown
    record = json.loads(CliRunner().invoke(app, [*command, "--json"]).output)
    assert record["elicited"]["beliefs"] == wanted.beliefs


@pytest.mark.parametrize("text", [NUMBERS, SHARES])
def test_an_earlier_study_says_what_features_do_together(text: str) -> None:
    """Answers that change by 40 of 100 only where age and region go together: no feature alone does as much."""
    interacting = text.replace('currency = "USD"', 'currency = "USD"\ninteractions = [["age", "region"]]')
    study, rng = Study.parse(interacting), np.random.default_rng(2)
    X = study.normalise(study.sample_features(rng, 4_000))
    codes = X[:, study.declared.encoding.places["age:region"]] * study.declared.encoding.scale
    middle, width = (study.response.low + study.response.high) / 2, study.response.high - study.response.low
    answers = middle + width * (0.2 * codes[:, 0] + rng.normal(0, 0.02, len(X)))
    said = earlier_study(study, X, answers)
    assert said.effects is not None
    assert said.effects["age:region"] == pytest.approx(0.4 * width, rel=0.05)
    assert max(said.effects["age"], said.effects["region"]) < 0.05 * width
    found = elicit(study, said)
    assert "age:region" in f"{found.because} {found.beliefs}"
