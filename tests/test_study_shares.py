"""Study files of yes and no, and of ratings: what is declared, what is refused and in which words."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest
from support.generators_study import gambling
from support.shares import TEXTS, TRUST, WITH_FEATURES, YES_NO

from truthful.errors import InputError
from truthful.study import Study, few_values, template

SHARE = "share = [0.2, 0.5]"
KIND = 'kind = "yes-no"'


@pytest.mark.parametrize(
    ("text", "old", "new", "message"),
    [
        (
            WITH_FEATURES,
            SHARE,
            "share = [0.5, 0.2]",
            "beliefs.share is [0.5, 0.2]. Give the least and the largest",
        ),
        (WITH_FEATURES, SHARE, "share = [20, 50]", "beliefs.share is [20, 50]. Give the least"),
        (WITH_FEATURES, SHARE, "share = [0.2]", "beliefs.share is [0.2]; give two shares"),
        (
            WITH_FEATURES,
            SHARE,
            "share = [0.1, 0.2, 0.3]",
            "beliefs.share is [0.1, 0.2, 0.3]; give two shares",
        ),
        (WITH_FEATURES, SHARE, "share = 0.2", "beliefs.share is 0.2; give two shares"),
        (WITH_FEATURES, SHARE, 'share = [0.2, "x"]', "beliefs.share[1] is 'x'; it must be a number."),
        (
            WITH_FEATURES,
            SHARE,
            "share = [0.05, 0.2]",
            "beliefs: with 2 features and these effects a share could lie below 0 (-5%). Declare smaller effects",
        ),
        (
            WITH_FEATURES,
            SHARE,
            "share = [0.8, 0.95]",
            "beliefs: with 2 features and these effects a share could lie above 1 (105%).",
        ),
        (
            WITH_FEATURES,
            SHARE,
            "",
            "beliefs.share is missing. For kind = 'yes-no' say which share you think possible",
        ),
        (
            WITH_FEATURES,
            f"{SHARE}\neffect = 0.1",
            "",
            "beliefs.share is missing. For kind = 'yes-no' say which share",
        ),
        (
            WITH_FEATURES,
            f"{SHARE}\neffect = 0.1",
            "signal = 0.5",
            "beliefs.share is missing. For kind = 'yes-no'",
        ),
        (
            TRUST,
            "share = [0.3, 0.6]",
            "",
            "beliefs.share is missing. For kind = 'rating' say which share you think possible, of the way from the "
            "lowest rating to the highest",
        ),
        (
            WITH_FEATURES,
            SHARE,
            f"{SHARE}\nsignal = 0.5",
            "beliefs.signal goes with answers that are numbers.",
        ),
        (
            WITH_FEATURES,
            SHARE,
            f"{SHARE}\nnoise = 'uniform'",
            "beliefs.noise goes with answers that are numbers.",
        ),
        (WITH_FEATURES, SHARE, f"{SHARE}\nagreement = 0.3", "beliefs.agreement goes with kind = 'rating'."),
        (
            TRUST,
            "effect = 0.1",
            "effect = 0.1\nagreement = 3",
            "beliefs.agreement is 3; it must be 1 or below.",
        ),
        (
            TRUST,
            "effect = 0.1",
            "effect = 0.1\nagreement = -1",
            "beliefs.agreement is -1; it must be 0 or above.",
        ),
        (WITH_FEATURES, "effect = 0.1", "", "beliefs.effect is missing. Say how much one feature"),
        (WITH_FEATURES, "effect = 0.1", "effect = 10", "beliefs: effect of 'age' is 10; give the most that"),
        (
            WITH_FEATURES,
            "effect = 0.1",
            "effect = 'x'",
            "beliefs.effect is 'x'; it must be a number, or a table of features and numbers.",
        ),
        (
            WITH_FEATURES,
            "effect = 0.1",
            "effect = { age = 0.1 }",
            "beliefs.effect says nothing of 'region'.",
        ),
        (
            WITH_FEATURES,
            "effect = 0.1",
            "effect = { age = 'x', region = 0.1 }",
            "beliefs.effect is {'age': 'x', 'region': 0.1}; it must be a number, or a table",
        ),
        (
            YES_NO,
            "share = [0.05, 0.40]",
            "share = [0.05, 0.40]\neffect = 0.1",
            "beliefs.effect is given, but there",
        ),
        (
            WITH_FEATURES,
            "effect = 0.1",
            "effect = 0.1\nexpected = { height = 0.1 }",
            "beliefs: expected names 'height', which is no effect; the effects are age, region=east",
        ),
        (
            YES_NO,
            KIND,
            "low = 0\nhigh = 1",
            "beliefs.share goes with kind = 'yes-no' or 'rating' in [response]",
        ),
        (
            YES_NO,
            KIND,
            "kind = 'yesno'",
            "response.kind is 'yesno'; choose one of 'number', 'yes-no' or 'rating'.",
        ),
        (YES_NO, KIND, "kind = [1]", "response.kind is [1]; choose one of 'number', 'yes-no' or 'rating'."),
        (
            YES_NO,
            KIND,
            f"{KIND}\nhigh = 2",
            "response.high is 2, but kind = 'yes-no' has no ends to declare.",
        ),
        (YES_NO, KIND, f"{KIND}\nlevels = 3", "response.levels goes with kind = 'rating'. Leave it out."),
        (YES_NO, KIND, f"{KIND}\nlevels = [3]", "response.levels is [3]; "),
        (YES_NO, KIND, f"{KIND}\nstep = 1", "response.step goes with numbers, and the response is a yes-no."),
        (
            YES_NO,
            'currency = "USD"',
            'currency = "USD"\nintercept = false',
            "There are no features and no intercept",
        ),
        (
            WITH_FEATURES,
            'currency = "USD"',
            'currency = "USD"\nintercept = false',
            "intercept is false, but a study with kind = 'yes-no' needs one. Leave it out.",
        ),
        (
            TRUST,
            "levels = 5",
            "levels = 2",
            "response.levels is 2. A rating needs from 3 to 10 levels: with two",
        ),
        (TRUST, "levels = 5", "levels = 11", "response.levels is 11. A rating needs from 3 to 10 levels"),
        (TRUST, "levels = 5", "levels = '5'", "response.levels is '5'. A rating needs from 3 to 10 levels"),
        (TRUST, "levels = 5", "", "response.levels is missing. A rating needs from 3 to 10 levels"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(text: str, old: str, new: str, message: str) -> None:
    assert old in text
    with pytest.raises(InputError) as caught:
        Study.parse(text.replace(old, new))
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"study: {message}")
    assert "pydantic" not in line


@pytest.mark.parametrize("name", TEXTS)
def test_without_beliefs_a_section_is_shown_that_fits_the_kind(name: str) -> None:
    text = re.sub(r"\[beliefs\].*?(?=\[costs\])", "", TEXTS[name], flags=re.DOTALL)
    with pytest.raises(InputError) as caught:
        Study.parse(text)
    first, *lines = str(caught.value).splitlines()
    assert first == "study: The section [beliefs] is missing. A small one:"
    example = "\n".join(line.removeprefix("    ") for line in lines)
    assert Study.parse(f"{text}\n{example}").shares is not None
    assert set(tomllib.loads(example)) == {"beliefs"}


# Numbers of which there are too few


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"response__low": 0, "response__high": 1},
            ["from 0 to 1", "If people answer yes or no", 'kind = "yes-no"'],
        ),
        ({"response__low": 1, "response__high": 5}, ["from 1 to 5", 'kind = "rating" and levels = 5']),
        ({"response__low": -1.0, "response__high": 2.0}, ["from -1 to 2", "levels = 4", 'kind = "yes-no"']),
        ({"response__low": 0, "response__high": 9}, ["from 0 to 9", "levels = 10"]),
        ({"response__low": 0, "response__high": 10}, []),
        ({"response__low": 0.5, "response__high": 5}, []),
        ({"response__low": 0, "response__high": 5, "response__step": 0.25}, []),
        ({}, []),
    ],
)
def test_a_range_of_few_whole_numbers_is_doubted(changes: dict[str, Any], words: list[str]) -> None:
    said = few_values(gambling(**changes).response)
    assert (said is None) == (not words)
    for word in words:
        assert word in (said or "")


@pytest.mark.parametrize("name", TEXTS)
def test_answers_of_another_kind_are_not(name: str) -> None:
    assert few_values(Study.parse(TEXTS[name]).response) is None


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (
            200,
            "people choose from 2 values only, and what is promised of numbers does not hold for so few. Say kind = ",
        ),
        (50, "people choose from 5 values only"),
        (22, "people choose from 10 values only"),
    ],
)
def test_a_step_that_leaves_few_values_is_refused(step: float, told: str) -> None:
    with pytest.raises(InputError) as caught:
        gambling(response__step=step)
    assert str(caught.value).startswith(f"study: response.step is {step}: {told}")
    assert gambling(response__step=20).response.values == 11


# The template


def _uncommented(text: str, *keys: str) -> str:
    for key in keys:
        text, times = re.subn(rf"^# ({key} = )", r"\1", text, flags=re.MULTILINE)
        assert times == 1, key
    return text


@pytest.mark.parametrize(("kind", "keys"), [("yes-no", ()), ("rating", ("levels", "agreement"))])
def test_the_templates_other_kinds_are_studies(kind: str, keys: tuple[str, ...]) -> None:
    text = template().replace('kind = "number"', f'kind = "{kind}"').replace("low = 0\nhigh = 200\n", "")
    text = re.sub(
        r"^# For numbers:\n\[beliefs\]\n.*?(?=^# What privacy)", "", text, flags=re.MULTILINE | re.DOTALL
    )
    text = re.sub(r"^# \[beliefs\]", "[beliefs]", text, count=1, flags=re.MULTILINE)
    study = Study.parse(_uncommented(text, "share", "effect", "expected", "implausible", *keys))
    assert study.kind == kind
    assert study.shares is not None
    assert (study.shares.low, study.shares.high) == (0.05, 0.40)


def test_the_template_shows_every_kind_of_answer() -> None:
    text = template()
    for kind in ("number", "yes-no", "rating"):
        assert re.search(rf"^#   {kind} ", text, flags=re.MULTILINE)


@pytest.mark.parametrize("kind", ["number", "yes-no"])
def test_the_template_shows_how_to_ask_people(kind: str) -> None:
    """What it says of predictions in place of declared beliefs; of yes and no beside what is said of shares."""
    text = re.sub(
        r"^# For numbers:\n\[beliefs\]\n.*?(?=^# What privacy)",
        "",
        template(),
        flags=re.MULTILINE | re.DOTALL,
    )
    asked = text.partition("# Better, wherever a second question")[2].partition("\n# What privacy")[0]
    section = re.sub(r"^# (\w+ = |\[)", r"\1", asked[asked.index("# [beliefs]") :], flags=re.MULTILINE)
    effect = "effect = 5\n"
    if kind == "yes-no":
        text = text.replace('kind = "number"', 'kind = "yes-no"').replace("low = 0\nhigh = 200\n", "")
        section = re.sub(r"^(spread|plausible) .*\n", "", section, flags=re.MULTILINE)
        section = section.replace("sure = 10", "sure = 0.05")
        effect = "share = [0.2, 0.5]\neffect = 0.02\n"
    section = section.replace('centre = "predictions"\n', f'centre = "predictions"\n{effect}')
    study = Study.parse(text.replace(asked, "\n" + section))
    assert study.levels is not None
    assert study.levels.strict == (kind == "yes-no")
    assert study.prediction_bonus == 0.1
    assert (study.declared.beliefs.plausible == (2, 60)) == (kind == "number")
