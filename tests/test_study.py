from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.generators_study import GAMBLING, declaration, people, studies
from support.generators_study import gambling as study
from support.oracles_study import predict_raw

from truthful.beliefs.laws import NormalBall, TruncatedNormal, UniformBall, UniformNoise
from truthful.costs import EmpiricalCosts, LognormalCosts, ParetoCosts
from truthful.errors import InputError
from truthful.study import Study, template
from truthful.study.parser import SECTIONS


def ball(d: int = 3, **changes: Any) -> Study:
    features = [{"name": f"x{j}"} for j in range(d)]
    response = {"name": "y", "low": -1, "high": 1}
    return study(features=features, response=response, design={"kind": "unit-ball"}, **changes)


# Reading


def test_the_example_says_what_it_says() -> None:
    gambling = Study.load(GAMBLING)
    assert (gambling.name, gambling.currency, gambling.dimension) == ("Weekly gambling spend", "USD", 4)
    assert gambling.path == GAMBLING
    assert gambling.costs == ParetoCosts(tail=2.0, scale=0.05)
    assert gambling.beliefs.prior == UniformBall(radius=0.6)
    assert gambling.beliefs.noise == TruncatedNormal(bound=0.4, sd=0.2)
    assert gambling.design.kind == "observed"
    assert gambling.coefficient_names == ("intercept", "age", "region=north", "region=south", "region=east")
    assert (gambling.privacy_cost(0.5), gambling.response_unit) == (0.25, 100.0)


def test_the_template_is_a_study() -> None:
    assert Study.parse(template()).features == Study.load(GAMBLING).features


def test_the_template_mentions_every_key_and_every_kind() -> None:
    text = template()
    for path, section in SECTIONS.items():
        for word in (*path[-1:], *section.model_fields):
            assert word in text, f"{word} of {section.__name__} is not in the template"


def test_options_in_the_templates_comments_are_valid() -> None:
    text = template()
    for old, new in [
        ("# intercept = true ", "intercept = true "),
        ('prior = "uniform"', 'prior = "normal"'),
        ("# prior_sd", "prior_sd"),
        ("# noise_sd", "noise_sd"),
        ("# centre = {", "centre = {"),
    ]:
        assert old in text
        text = text.replace(old, new)
    opened = Study.parse(text)
    assert opened.beliefs.prior == NormalBall(radius=0.6, sd=0.2)
    assert dict(opened.raw_coefficients(np.zeros(4)))["age"] == pytest.approx(0.5)


def test_what_the_template_says_of_people_who_are_sure_is_valid_too() -> None:
    before, after = template().replace('prior = "uniform"', "").split("# For numbers:")
    for key in ("sure", "unsure", "tolerance"):
        after = after.replace(f"# {key}", key)
    opened = Study.parse(f"{before}# For numbers:{after}")
    assert opened.tolerance == pytest.approx(0.05)
    assert level_sd(opened) == pytest.approx(np.hypot(6, 3), rel=1e-4)


def level_sd(opened: Study) -> float:
    """The standard deviation of the average answer under the prior, in its units."""
    coordinate = np.sqrt(opened.beliefs.prior.variance(opened.dimension))
    row = np.zeros(opened.dimension)
    row[0] = 1 / opened.declared.encoding.scale
    return float(coordinate * opened.response_unit * np.linalg.norm(row))


@pytest.mark.parametrize("centre", [None, 90, {"intercept": 80, "age": 0.1}])
@pytest.mark.parametrize(("sure", "unsure"), [(5, None), (4, 3), (8, 0)])
def test_the_average_answer_is_as_uncertain_as_people_and_analyst_together(
    centre: Any, sure: float, unsure: float | None
) -> None:
    declared = {"signal": 0.6, "sure": sure, "unsure": unsure, "centre": centre}
    opened = study(beliefs={name: value for name, value in declared.items() if value is not None})
    assert isinstance(opened.beliefs.prior, NormalBall)
    assert level_sd(opened) == pytest.approx(np.hypot(sure, unsure or 0), rel=1e-5)
    again = Study.from_declaration(opened.declaration())
    assert (again.sha256, again.beliefs) == (opened.sha256, opened.beliefs)
    # In records the prior is spelt out, so that whoever verifies a payment need not solve for it.
    assert again.declaration()["beliefs"]["prior_sd"] == opened.beliefs.prior.sd


def test_a_centre_of_one_number_is_the_average_answer() -> None:
    one, table = (study(beliefs={"signal": 0.6, "centre": centre}) for centre in (40, {"intercept": 40}))
    assert one == table
    columns = {"age": np.array([18.0, 90.0]), "region": np.array(["north", "south"])}
    assert one.raw_response(np.zeros(2), one.normalise(columns)) == pytest.approx([40, 40])


def test_laws_follow_the_beliefs() -> None:
    beliefs = study(
        beliefs={"radius": 2, "noise_bound": 0.5, "prior": "normal", "prior_sd": 0.3, "noise": "uniform"}
    ).beliefs
    assert beliefs.prior == NormalBall(radius=2.0, sd=0.3)
    assert beliefs.noise == UniformNoise(bound=0.5)
    assert beliefs.response_bound == 2.5


def test_costs_follow_their_section(tmp_path: Path) -> None:
    assert study(costs={"kind": "lognormal", "median": 0.1, "sigma": 1}).costs == LognormalCosts(0.1, 1.0)
    inline = {"kind": "empirical", "probabilities": [0, 0.5, 1], "values": [0, 0.1, 3], "privacy": "linear"}
    assert study(costs=inline).costs == EmpiricalCosts((0.0, 0.5, 1.0), (0.0, 0.1, 3.0))
    assert study(costs=inline).privacy_cost(0.5) == 0.5


def test_a_file_of_quantiles_is_found_next_to_the_study_and_becomes_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "costs.csv").write_text("probability,value\n0,0\n1,2\n")
    head = GAMBLING.read_text().split("[costs]")[0]
    (tmp_path / "study.toml").write_text(head + '[costs]\nkind = "empirical"\nfile = "costs.csv"\n')
    loaded = Study.load(tmp_path / "study.toml")
    assert loaded.costs == EmpiricalCosts((0.0, 1.0), (0.0, 2.0))
    (tmp_path / "costs.csv").unlink()
    assert Study.from_declaration(loaded.declaration()) == loaded


def test_a_missing_file_of_quantiles_is_named(tmp_path: Path) -> None:
    head = GAMBLING.read_text().split("[costs]")[0]
    (tmp_path / "study.toml").write_text(head + '[costs]\nkind = "empirical"\nfile = "costs.csv"\n')
    with pytest.raises(
        InputError, match=r"^study\.toml: costs: The file of cost quantiles .*costs\.csv cannot be read"
    ):
        Study.load(tmp_path / "study.toml")


def test_levels_written_as_numbers_are_text() -> None:
    assert study(features=[{"name": "plan", "levels": [1, 2.5, "x"]}]).features[0].levels == ("1", "2.5", "x")


def test_a_study_may_ask_for_a_mean_only() -> None:
    mean = study(features=[], design={"kind": "uniform"})
    assert (mean.dimension, mean.coefficient_names) == (1, ("intercept",))
    np.testing.assert_array_equal(mean.second_moments, [[1.0]])
    np.testing.assert_array_equal(mean.weighted_moments([2.0]), [[4.0]])
    np.testing.assert_array_equal(mean.normalise({"weekly_spend": np.zeros(3)}), np.ones((3, 1)))


# Identity


def test_the_declaration_is_plain_json_and_makes_the_same_study() -> None:
    for original in (
        Study.load(GAMBLING),
        ball(),
        study(beliefs__centre={"age": 0.5}),
        Study.parse(template()),
    ):
        record = json.loads(json.dumps(original.declaration()))
        copy = Study.from_declaration(record)
        assert copy == original
        assert hash(copy) == hash(original)
        assert copy.declaration() == original.declaration()


def test_comments_order_and_spelt_out_defaults_do_not_change_the_hash() -> None:
    record = declaration(intercept=True)
    reordered = {key: record[key] for key in reversed(record)}
    assert Study.from_declaration(reordered).sha256 == Study.load(GAMBLING).sha256
    assert Study.parse("# a comment\n" + GAMBLING.read_text()).sha256 == Study.load(GAMBLING).sha256


@pytest.mark.parametrize(
    "change",
    [
        {"name": "Other"},
        {"response__high": 201},
        {"beliefs__signal": 0.61},
        {"costs__privacy": "linear"},
        {"intercept": False},
        {"design": {"kind": "uniform"}},
    ],
)
def test_every_change_of_meaning_changes_the_hash(change: dict[str, Any]) -> None:
    assert study(**change).sha256 != study().sha256
    assert study(**change) != study()


def test_the_hash_of_the_example_never_changes() -> None:
    assert Study.load(GAMBLING).sha256 == "40ba35ac46d7a00cceff96092e384386e9b0d575bb70ed9316538e0dcf4cd3c2"


def test_where_a_study_was_loaded_from_is_no_part_of_it() -> None:
    moved = study().at(Path("elsewhere.toml"))
    assert moved.path == Path("elsewhere.toml").resolve()
    assert moved == study()


# Maps


def test_raw_units_of_the_example() -> None:
    # d = 4: a unit of x's age column is 2 units of its code; a code goes over 36 years; the response unit is 100.
    raw = dict(study().raw_coefficients([0.1, 0.2, 0.3, -0.1]))
    assert raw["age"] == pytest.approx(100 * 0.2 / 2 / 36)
    assert raw["region=north"] == pytest.approx(15)
    assert raw["region=east"] == pytest.approx(-10)
    assert raw["intercept"] == pytest.approx(100 + 5 - 54 * raw["age"])


@given(st.data())
def test_raw_coefficients_predict_what_theta_predicts(data: st.DataObject) -> None:
    study = data.draw(studies())
    theta = [data.draw(st.floats(-1, 1)) for _ in range(study.dimension)]
    raw = dict(study.raw_coefficients(theta))
    rows = data.draw(people(study))
    X = study.normalise({name: np.array([row[name] for row in rows]) for name in rows[0]})
    expected = [predict_raw(study, raw, row) for row in rows]
    np.testing.assert_allclose(study.raw_response(X @ theta, X), expected, rtol=1e-9, atol=1e-7)


@given(st.data())
def test_theta_inverts_raw_coefficients(data: st.DataObject) -> None:
    study = data.draw(studies())
    theta = [data.draw(st.floats(-1, 1)) for _ in range(study.dimension)]
    np.testing.assert_allclose(study.theta(dict(study.raw_coefficients(theta))), theta, atol=1e-9)


@given(st.data())
def test_the_coefficient_map_is_the_map_of_coefficients(data: st.DataObject) -> None:
    study = data.draw(studies())
    theta = np.array([data.draw(st.floats(-1, 1)) for _ in range(study.dimension)])
    L, offset = study.coefficient_map
    assert L.shape == (len(study.coefficient_names), study.dimension)
    assert list(
        zip(study.coefficient_names, (L @ theta + offset).tolist(), strict=True)
    ) == study.raw_coefficients(theta)


@given(st.data())
def test_every_answer_the_beliefs_allow_lies_in_the_declared_range(data: st.DataObject) -> None:
    study = data.draw(studies())
    rows = data.draw(people(study))
    X = study.normalise({name: np.array([row[name] for row in rows]) for name in rows[0]})
    low, high = study.response.low, study.response.high
    for y in (-1.0, 1.0):
        raw = study.raw_response(np.full(len(X), y * study.beliefs.response_bound), X)
        assert np.all(raw >= low - 1e-9 * (high - low))
        assert np.all(raw <= high + 1e-9 * (high - low))
        np.testing.assert_allclose(
            study.normalise_response(raw, X), y * study.beliefs.response_bound, atol=1e-9 * study.half_range
        )


def test_without_a_centre_the_range_maps_to_the_response_bound_exactly() -> None:
    X = np.zeros((3, 4))
    np.testing.assert_array_equal(study().normalise_response([0, 100, 200], X), [-1.0, 0.0, 1.0])
    wide = study(beliefs={"radius": 2, "noise_bound": 1})
    np.testing.assert_array_equal(wide.normalise_response([0, 100, 200], X), [-3.0, 0.0, 3.0])


def test_a_centre_is_what_coefficients_of_zero_mean() -> None:
    centre = {"intercept": 40.0, "age": 0.5, "region=north": 4.0, "region=south": -4.0}
    centred = study(beliefs__centre=centre)
    assert dict(centred.raw_coefficients(np.zeros(4))) == pytest.approx({**centre, "region=east": 0.0})
    X = centred.normalise({"age": np.array([30.0]), "region": np.array(["north"])})
    np.testing.assert_allclose(centred.normalise_response([40 + 15 + 4], X), [0.0], atol=1e-12)
    # The furthest that it predicts from 100, the middle, is 40 + 18/2 − 4 = 45.
    assert centred.half_range == pytest.approx(1 / (1 - 0.55))


def test_a_centre_without_intercept_keeps_the_middle_in_the_middle() -> None:
    centred = study(beliefs__centre={"age": 0.5})
    assert dict(centred.raw_coefficients(np.zeros(4)))["intercept"] == pytest.approx(100 - 0.5 * 54)


def test_an_intercept_that_is_always_zero_is_not_reported() -> None:
    assert ball().coefficient_names == ("x0", "x1", "x2")
    assert dict(ball().raw_coefficients([0.1, 0.2, 0.3])) == pytest.approx({"x0": 0.1, "x1": 0.2, "x2": 0.3})
    assert study(intercept=False).coefficient_names[0] == "intercept"


def test_the_unit_ball_takes_features_as_they_are() -> None:
    columns = ball().sample_features(np.random.default_rng(0), 10)
    np.testing.assert_array_equal(ball().normalise(columns), np.column_stack(list(columns.values())))
    np.testing.assert_allclose(np.asarray(ball().second_moments, dtype=np.float64), np.eye(3) / 5)
    assert ball().mean_square_norm == pytest.approx(3 / 5)


def test_theta_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(InputError, match="theta has 3 entries; 4 were expected"):
        study().raw_coefficients([1, 2, 3])


def test_a_covariance_study_knows_its_matrix() -> None:
    matrix = [[0.5, 0.1], [0.1, 0.25]]
    known = study(
        features=[{"name": "age", "low": 0, "high": 1}], design={"kind": "covariance", "matrix": matrix}
    )
    np.testing.assert_array_equal(known.second_moments, matrix)
    assert known.least_eigenvalue == pytest.approx(np.linalg.eigvalsh(matrix)[0])
    assert known.fourth_moment([1, 0], [0, 2]) == pytest.approx(0.5 * 4)


def test_a_declared_least_eigenvalue_is_kept() -> None:
    assert study(design={"kind": "observed", "least_eigenvalue": 0.05}).least_eigenvalue == 0.05


def test_a_record_has_the_same_bits_alone_and_in_any_batch() -> None:
    """With a centre too: a payment is verified from one record, and was computed in a batch."""
    centred = study(beliefs__centre={"age": 0.5, "region=north": 4.0})
    rng = np.random.default_rng(0)
    columns = {"age": rng.uniform(18, 90, 500), "region": rng.integers(0, 3, 500)}
    X, raw = centred.normalise(columns), rng.uniform(0, 200, 500)
    together = centred.normalise_response(raw, X)
    alone = [centred.normalise_response(raw[i : i + 1], X[i : i + 1])[0] for i in range(500)]
    assert together.tolist() == alone


@pytest.mark.parametrize("signal", [0.1, 0.6, 0.7, 2 / 3])
def test_the_least_standard_deviation_that_a_refusal_names_is_accepted(signal: float) -> None:
    with pytest.raises(InputError, match="noise_sd is 1e-09") as caught:
        study(beliefs={"signal": signal, "noise_sd": 1e-9})
    named = float(str(caught.value).partition("Give ")[2].split()[0])
    assert study(beliefs={"signal": signal, "noise_sd": named}).beliefs.noise_variance > 0
