"""A pilot with both questions sets the centre of a main wave with one."""

import json
import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from support.commands import Run
from support.shown_asked import NUMBER, RATING, WITH_FEATURES, YES_NO
from support.shown_asked import plan_of as asked_plan_of
from support.studies import DESIGNED

from truthful.bounds.asked_bounds import centre_error
from truthful.elicitation import Calibration, calibrate
from truthful.errors import InputError, Refused
from truthful.guarantees import asked_setting
from truthful.plan import Plan, design
from truthful.release import Release
from truthful.settlement import settle
from truthful.study import Study
from truthful.study.parser import to_toml

K = 4 / 13
ALONE = RATING.replace('[[features]]\nname = "age"\nlow = 18\nhigh = 80\n', "").replace("effect = 0.1\n", "")
PILOT = {"players": 400, "budget": 8_000.0, "accuracy_of": "centre"}


@cache
def pilot_plan(text: str = NUMBER) -> Plan:
    return design(Study.parse(text), **PILOT)  # type: ignore[arg-type]


def people(
    players: int, seed: int, centre: float = 38.0, level: float = 45.0, scatter: float = 6.0
) -> pa.Table:
    """Answers about a level, and predictions of people whose centres scatter."""
    rng = np.random.default_rng(seed)
    answers = np.clip(level + 15 * rng.standard_normal(players), 0, 100)
    own = centre + scatter * rng.standard_normal(players)
    names = [f"p-{i}" for i in range(players)]
    return pa.table({"player": names, "units": answers, "prediction": own + K * (answers - own)})


def released(plan: Plan, reports: pa.Table, seed: int) -> Release:
    release = settle(plan, reports, seed=seed).release
    assert isinstance(release, Release)
    return release


@cache
def pilot_release() -> Release:
    return released(pilot_plan(), people(400, 1), 1)


def test_a_pilot_finds_the_centre_from_what_was_released_alone() -> None:
    """(m̄ − kp)/(1 − k) of the published averages, whatever people expected."""
    plan = pilot_plan()
    release = pilot_release()
    assert release.predictions is not None
    p, m = release.predictions.answer.value, release.predictions.prediction.value
    found = calibrate(plan, release)
    assert found.centre == pytest.approx((m - K * p) / (1 - K), abs=1e-9)
    assert found.centre == pytest.approx(release.predictions.centre, abs=1e-3)
    assert abs(found.centre - 38.0) < 4 * found.error


def test_the_standard_error_is_that_of_the_formula() -> None:
    """[Var(m − ky)/N + noise(m̄) + k² noise(p)]/(1 − k)², with people's centres as far apart as they are unsure."""
    plan = pilot_plan()
    mechanism, n = plan.asked_mechanism, 400
    assert mechanism is not None
    found = calibrate(plan, released(plan, people(n, 1), 1))
    scale = 50 * 2 * math.sqrt(1 + mechanism.ratio**2) / mechanism.epsilon / n
    noise_p, noise_m = 3 * scale**2, 3 * (scale / mechanism.ratio) ** 2
    expected = math.sqrt(10**2 / n + (noise_m + K**2 * noise_p) / (1 - K) ** 2)
    assert found.error == pytest.approx(expected, rel=1e-3)


def test_a_pilot_is_planned_for_the_centre() -> None:
    """More weight on predictions than the most accurate plan has, and a smaller error of the centre."""
    usual, plan = (
        design(Study.parse(NUMBER), players=400, budget=8_000.0, accuracy_of=of)
        for of in ("coefficients", "centre")
    )
    assert plan.solution is not None
    assert usual.panel is not None
    errors = []
    for one in (usual, plan):
        mechanism = one.asked_mechanism
        assert mechanism is not None
        geometry = usual.panel.geometry(400, 1.0)
        s = asked_setting(one.study, mechanism, 400, one.absent_share, one.failure_probability, geometry)
        errors.append(50 * math.sqrt(float(centre_error(s)[0, 0])))
    assert errors[1] < 0.95 * errors[0]
    assert 50 * math.sqrt(plan.solution.error) == pytest.approx(errors[1], rel=1e-6)
    assert plan.parameters()["ratio"] > usual.parameters()["ratio"]


@pytest.mark.slow
def test_the_centre_is_as_far_off_as_its_standard_error_says() -> None:
    """Over 150 rehearsals. A sum of 150 squares is off by four standard errors, 46 %, with probability 3e-4 or less
    on the upper side; people's centres scatter less than the formula allows, which is a fiftieth here."""
    plan = pilot_plan()
    found = [calibrate(plan, released(plan, people(400, seed), seed)) for seed in range(150)]
    off = np.array([one.centre - 38.0 for one in found])
    square = float(np.mean(off**2)) / found[0].error ** 2
    assert 0.6 < square < 1.46
    assert abs(off.mean()) < 4 * found[0].error / math.sqrt(150)


# The main wave


def main_of(found: Calibration) -> Study:
    return Study.parse(found.study)


def test_the_main_wave_asks_one_question_and_declares_what_the_pilot_found() -> None:
    plan = pilot_plan()
    release = pilot_release()
    found = calibrate(plan, release)
    study = main_of(found)
    assert study.levels is None
    assert study.response.name == "units"
    assert study.response.question == plan.study.response.question
    beliefs, unit = study.declared.beliefs, study.response_unit
    assert isinstance(beliefs.centre, dict)
    assert list(beliefs.centre) == ["intercept"]
    assert beliefs.centre["intercept"] == pytest.approx(found.centre, rel=1e-3)
    assert beliefs.sure == 10
    assert beliefs.unsure == pytest.approx(found.error, rel=1e-3)
    assert unit * math.sqrt(study.beliefs.prior.variance(1)) == pytest.approx(
        math.hypot(10, found.error), rel=2e-3
    )
    assert unit * (beliefs.noise_sd or 0.0) == pytest.approx(15, rel=2e-3)
    assert release.sha256[:12] in found.study
    assert "do not publish it before these have answered" in found.study


def test_beliefs_near_an_end_widen_the_range() -> None:
    """They reach equally far to both sides, by two standard deviations; the other end stays."""
    plan = pilot_plan()
    found = calibrate(plan, released(plan, people(400, 1, centre=16.0, level=20.0), 1))
    response = main_of(found).response
    assert response.low < 0
    assert response.high == 100
    assert found.centre - response.low >= 2 * (15 + math.hypot(10, found.error)) - 1e-6


@pytest.mark.parametrize(("text", "column"), [(YES_NO, "evaded"), (ALONE, "trust")])
def test_of_shares_a_pilot_sets_what_is_thought_possible(text: str, column: str) -> None:
    plan = design(Study.parse(text), players=1_000, budget=20_000.0, accuracy_of="centre")
    rng = np.random.default_rng(1)
    levels = plan.study.response.values
    drawn = rng.binomial(levels - 1, 0.45, 1_000)
    low, high = plan.study.prediction_range
    k = 0.0 if plan.study.levels is None else plan.study.levels.slope
    predicted = low + (high - low) * (0.4 + k * (drawn / (levels - 1) - 0.4))
    answers = np.where(drawn == 1, "yes", "no") if levels == 2 else drawn + 1
    reports = pa.table({"player": [f"p-{i}" for i in range(1_000)], column: answers, "prediction": predicted})
    found = calibrate(plan, released(plan, reports, 1))
    study = main_of(found)
    assert study.levels is None
    assert study.shares is not None
    middle = (study.shares.low + study.shares.high) / 2
    assert low + (high - low) * middle == pytest.approx(found.centre, abs=0.01 * (high - low))
    assert abs(found.centre - (low + 0.4 * (high - low))) < 4 * found.error + 0.01 * (high - low)
    sure = plan.study.declared.beliefs.sure or math.nan
    wide = math.hypot(sure, found.error / (high - low))
    assert study.shares.high - study.shares.low == pytest.approx(2 * math.sqrt(3) * wide, abs=0.02)


def test_studies_that_cannot_be_pilots_are_refused() -> None:
    with pytest.raises(InputError, match="cannot be a pilot"):
        calibrate(asked_plan_of("features"), pilot_release())
    for text in (WITH_FEATURES, DESIGNED):
        with pytest.raises(InputError, match="accuracy_of is 'centre'"):
            design(Study.parse(text), players=400, budget=8_000.0, accuracy_of="centre")
    other = design(Study.parse(NUMBER), players=400, budget=9_000.0)
    with pytest.raises(InputError, match="The release was made with plan"):
        calibrate(other, pilot_release())


def test_a_pilot_of_noise_alone_is_refused() -> None:
    plan = pilot_plan()
    release = pilot_release()
    assert release.predictions is not None
    beyond = release.predictions.prediction.model_copy(update={"value": -40.0})
    broken = release.model_copy(
        update={"predictions": release.predictions.model_copy(update={"prediction": beyond})}
    )
    with pytest.raises(Refused, match="its noise is too large"):
        calibrate(plan, broken)


@pytest.mark.parametrize("text", [NUMBER, WITH_FEATURES, YES_NO, RATING, DESIGNED])
def test_a_study_is_the_same_when_it_is_written_and_read_again(text: str) -> None:
    study = Study.parse(text)
    assert Study.parse(to_toml(study.declaration())) == study


def test_any_words_can_be_written() -> None:
    study = Study.parse(NUMBER)
    odd = 'a "quoted"\\ line\nbreak \x7f é 😀'
    renamed = replace(study, declared=study.declared.model_copy(update={"name": odd}))
    assert Study.parse(to_toml(renamed.declaration())).name == odd


# The command


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pilot.toml").write_text(NUMBER)
    pyarrow.csv.write_csv(people(400, 1), tmp_path / "pilot.csv")
    pyarrow.csv.write_csv(people(2_000, 2).drop_columns(["prediction"]), tmp_path / "main.csv")
    return tmp_path


def test_from_pilot_to_main_wave(place: Path, run: Run) -> None:
    told = run(
        *("plan", "pilot.toml", "--players", "400", "--budget", "8000", "--accuracy-of", "centre"),
        *("--save", "pilot.json"),
    )
    assert (told.code, told.err) == (0, "")
    assert "A pilot: what people expect is found to within" in told.out
    told = run("pilot", "pilot.json", "pilot.csv", "--out", "pilot", "--save", "main.toml", "--seed", "1")
    assert (told.code, told.err) == (0, "")
    assert "People expect " in told.out
    assert "to yourself until the main wave has answered" in " ".join(told.out.replace("│", " ").split())
    assert Path("pilot/release.json").exists()
    told = run("plan", "main.toml", "--players", "2000", "--budget", "2000", "--save", "main.json")
    assert (told.code, told.err) == (0, "")
    told = run("settle", "main.json", "main.csv", "--out", "main", "--seed", "2", "--json")
    release = json.loads(told.out)
    assert told.code == 0
    assert release["warnings"] == []
    (average,) = release["coefficients"]
    assert abs(average["value"] - 45) < 3
    told = run("verify", "main/release.json", "main/receipts.parquet", "--player", "p-7")
    assert told.code == 0


def test_a_study_file_that_is_there_is_not_overwritten(place: Path, run: Run) -> None:
    run("plan", "pilot.toml", "--players", "400", "--budget", "8000", "--save", "pilot.json")
    (place / "main.toml").write_text("mine")
    told = run("pilot", "pilot.json", "pilot.csv", "--out", "pilot", "--save", "main.toml", "--seed", "1")
    assert told.code == 2
    assert "There is a file 'main.toml' already" in told.err
    assert (place / "main.toml").read_text() == "mine"
    assert not (place / "pilot").exists()


def test_the_record_of_a_pilot(place: Path, run: Run) -> None:
    run("plan", "pilot.toml", "--players", "400", "--budget", "8000", "--save", "pilot.json")
    told = run("pilot", "pilot.json", "pilot.csv", "--out", "p", "--save", "m.toml", "--seed", "1", "--json")
    record = json.loads(told.out)
    assert set(record) == {"centre", "error", "players", "study"}
    assert record["study"] == "m.toml"
    assert record["players"] == 400
