from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from support.oracles_costs import chance_enough_stay, is_enough

from truthful.costs import (
    PRIVACY_COSTS,
    Costs,
    EmpiricalCosts,
    LognormalCosts,
    ParetoCosts,
    miss_probability,
)
from truthful.errors import InputError

LAWS: dict[str, Costs] = {
    "pareto": ParetoCosts(tail=2.0, scale=0.05),
    "lognormal": LognormalCosts(median=0.1, sigma=1.5),
    "empirical": EmpiricalCosts((0.0, 0.5, 0.9, 1.0), (0.0, 0.1, 0.5, 20.0)),
}
laws = pytest.mark.parametrize("costs", LAWS.values(), ids=list(LAWS))


@laws
def test_the_quantile_inverts_the_cdf(costs: Costs) -> None:
    p = np.linspace(0.001, 0.999, 997)
    np.testing.assert_allclose(costs.cdf(costs.quantile(p)), p, atol=1e-12)


@laws
def test_the_upper_quantile_inverts_the_survival_function_far_in_the_tail(costs: Costs) -> None:
    p = np.geomspace(1e-9, 1, 200)
    np.testing.assert_allclose(costs.survival(costs.upper_quantile(p)), p, rtol=1e-6)


def test_pareto_and_lognormal_agree_with_scipy() -> None:
    c = np.array([0.0, 0.01, 0.05, 0.1, 1.0, 1e4])
    np.testing.assert_allclose(LAWS["pareto"].cdf(c), stats.pareto(2.0, scale=0.05).cdf(c), atol=1e-15)
    np.testing.assert_allclose(LAWS["lognormal"].survival(c), stats.lognorm(1.5, scale=0.1).sf(c), atol=1e-15)


@laws
def test_samples_follow_the_law(costs: Costs) -> None:
    # Kolmogorov-Smirnov at level 1e-6, seed fixed.
    sample = costs.sample(np.random.default_rng(7), 20_000)
    assert stats.kstest(costs.cdf(sample), "uniform").pvalue > 1e-6


def test_the_threshold_of_the_papers_example_is_ten_times_lower_than_published() -> None:
    costs = ParetoCosts(tail=2.0, scale=1.0)
    assert costs.threshold(n=20_000, alpha=0.05, beta=0.01) == pytest.approx(4.64, abs=0.01)
    assert float(costs.upper_quantile(0.05 * 0.01)) == pytest.approx(44.72, abs=0.01)


@laws
@pytest.mark.parametrize(
    ("n", "alpha", "beta"),
    [(1, "0.3", "0.1"), (7, "0.2", "0.05"), (40, "0.1", "0.01"), (100, "0.29", "0.01"), (60, "0.05", "0.9")],
)
def test_the_threshold_is_the_least_that_meets_its_definition(
    costs: Costs, n: int, alpha: str, beta: str
) -> None:
    tau = costs.threshold(n=n, alpha=float(alpha), beta=float(beta))
    assert is_enough(costs, tau * (1 + 1e-9), n, Fraction(alpha), Fraction(beta))
    assert not is_enough(costs, tau * (1 - 1e-9), n, Fraction(alpha), Fraction(beta))


@given(st.integers(1, 120), st.floats(0, 0.95), st.floats(1e-6, 0.99))
def test_the_miss_probability_uses_up_the_failure_probability_exactly(
    n: int, alpha: float, beta: float
) -> None:
    miss = float(miss_probability(n=n, alpha=alpha, beta=beta))
    stay = chance_enough_stay(n, math.floor(round(Fraction(repr(alpha)) * n, 9)), Fraction(miss))
    assert float(1 - stay) == pytest.approx(beta, rel=1e-9)


def test_miss_probabilities_of_many_panels_are_those_of_each() -> None:
    n, alpha, beta = np.array([[10.0], [5000.0]]), np.array([0.0, 0.02, 0.5]), 0.01
    grid = miss_probability(n=n, alpha=alpha, beta=beta)
    assert grid.shape == (2, 3)
    for i, size in enumerate(n[:, 0]):
        for j, share in enumerate(alpha):
            assert grid[i, j] == float(miss_probability(n=float(size), alpha=float(share), beta=beta))


def test_when_nobody_may_be_absent_the_miss_probability_has_its_closed_form() -> None:
    # 1 − (1−p)^n = β
    expected = -math.expm1(math.log1p(-0.01) / 20_000)
    assert miss_probability(n=20_000, alpha=0.0, beta=0.01) == pytest.approx(expected, rel=1e-12)


def test_when_nobody_may_be_absent_the_threshold_is_the_greatest_cost() -> None:
    assert LAWS["empirical"].threshold(n=10, alpha=0.0, beta=0.1) == 20.0
    assert LAWS["pareto"].threshold(n=10, alpha=0.0, beta=0.1) == math.inf
    assert LAWS["lognormal"].threshold(n=10, alpha=0.0, beta=0.1) == math.inf


def test_a_share_of_people_is_counted_as_it_is_written() -> None:
    assert 0.29 * 100 < 29
    p = miss_probability(n=100, alpha=0.29, beta=0.01)
    assert stats.binom.cdf(29, 100, p) == pytest.approx(0.99, abs=1e-12)


@laws
def test_the_threshold_falls_when_more_people_may_be_absent(costs: Costs) -> None:
    thresholds = [costs.threshold(n=500, alpha=alpha, beta=0.05) for alpha in (0.01, 0.05, 0.1, 0.3)]
    assert thresholds == sorted(thresholds, reverse=True)
    assert thresholds[0] > thresholds[-1]


@laws
def test_the_published_threshold_is_valid_but_never_lower(costs: Costs) -> None:
    for n in (1, 30, 1000):
        assert costs.upper_quantile(0.1 * 0.05) >= costs.threshold(n=n, alpha=0.1, beta=0.05)


def test_simulated_panels_miss_as_often_as_promised() -> None:
    # The number of 4,000 panels that fail is Binomial(4000, 0.05); outside [130, 275] with probability 1.3e-7.
    costs, rng = ParetoCosts(tail=2.0, scale=1.0), np.random.default_rng(3)
    tau = costs.threshold(n=200, alpha=0.1, beta=0.05)
    absent = (costs.sample(rng, 4_000 * 200).reshape(4_000, 200) > tau).sum(axis=1)
    assert 130 <= int((absent > 20).sum()) <= 275


def test_equal_values_are_a_share_of_people_with_that_cost() -> None:
    costs = EmpiricalCosts((0.0, 0.25, 0.75, 1.0), (0.0, 1.0, 1.0, 3.0))
    np.testing.assert_allclose(
        costs.cdf([-1.0, 0.0, 0.5, 0.999999999, 1.0, 2.0, 3.0, 9.0]), [0, 0, 0.125, 0.25, 0.75, 0.875, 1, 1]
    )
    np.testing.assert_allclose(costs.quantile([0.3, 0.5, 0.75]), 1.0)


def test_costs_nobody_has_are_free() -> None:
    costs = EmpiricalCosts((0.0, 1.0), (0.0, 0.0))
    assert costs.threshold(n=10, alpha=0.1, beta=0.1) == 0.0
    assert costs.cdf(0.0) == 1.0


def test_quantiles_are_read_from_csv_and_json_alike(tmp_path: Path) -> None:
    table, rows = tmp_path / "costs.csv", tmp_path / "costs.json"
    table.write_text("probability,value\n0,0\n0.5,0.1\n0.9,0.5\n1,20\n")
    rows.write_text(
        json.dumps([{"probability": p, "value": v} for p, v in [(0, 0), (0.5, 0.1), (0.9, 0.5), (1, 20)]])
    )
    assert EmpiricalCosts.load(table) == EmpiricalCosts.load(str(rows)) == LAWS["empirical"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("c.csv", "probability,cost\n0,1\n1,2\n", "must give a number as `probability`"),
        ("c.csv", "probability,value\n0,1\n1,much\n", "must give a number as `probability`"),
        (
            "c.csv",
            "probability,value\n0,2\n1,1\n",
            r"c\.csv: values\[1\] is 1, after 2; the values must increase",
        ),
        ("c.json", "{", "is not valid JSON"),
        ("c.json", "{}", "must hold a list"),
        ("c.json", "[1, 2]", "must give a number as `probability`"),
    ],
)
def test_a_bad_file_of_quantiles_is_refused_by_name(
    tmp_path: Path, name: str, text: str, message: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        EmpiricalCosts.load(tmp_path / name)


def test_a_missing_file_of_quantiles_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothere\.csv cannot be read"):
        EmpiricalCosts.load(tmp_path / "nothere.csv")


def test_a_file_of_quantiles_that_is_no_text_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "costs.csv").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match=r"costs\.csv is not UTF-8 text"):
        EmpiricalCosts.load(tmp_path / "costs.csv")


@pytest.mark.parametrize(
    ("probabilities", "values", "message"),
    [
        ((0.0, 1.0), (1.0,), "2 probabilities and 1 values"),
        ((0.0,), (1.0,), "at least two"),
        ((0.1, 0.9), (1.0, 2.0), r"run from 0\.1 to 0\.9; they must run from 0 to 1"),
        ((0.0, 0.5, 0.5, 1.0), (0.0, 1.0, 2.0, 3.0), r"probabilities\[2\] is 0\.5, after 0\.5"),
        ((0.0, 1.0), (-1.0, 2.0), r"values\[0\] is .*; it must be 0 or above"),
        ((0.0, 1.0), (1.0, math.nan), r"values\[1\] is nan"),
    ],
)
def test_bad_quantiles_are_refused(
    probabilities: tuple[float, ...], values: tuple[float, ...], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        EmpiricalCosts(probabilities, values)


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_parameters_of_laws_must_be_positive(value: float) -> None:
    for law in (
        lambda v: ParetoCosts(v, 1),
        lambda v: ParetoCosts(1, v),
        lambda v: LognormalCosts(v, 1),
        lambda v: LognormalCosts(1, v),
    ):
        with pytest.raises(InputError, match="it must be"):
            law(value)


@pytest.mark.parametrize(
    ("alpha", "beta"), [(-0.1, 0.1), (1.0, 0.1), (math.nan, 0.1), (0.1, 0.0), (0.1, 1.0), (0.1, math.nan)]
)
def test_impossible_shares_are_refused(alpha: float, beta: float) -> None:
    with pytest.raises(InputError, match=r"(alpha|beta) is"):
        LAWS["pareto"].threshold(n=10, alpha=alpha, beta=beta)


def test_a_probability_outside_the_unit_interval_is_refused() -> None:
    with pytest.raises(InputError, match=r"outside \[0, 1\]: 1\.5"):
        LAWS["pareto"].upper_quantile([0.5, 1.5])


def test_privacy_costs_grow_as_declared() -> None:
    assert PRIVACY_COSTS["quadratic"](0.5) == 0.25
    assert PRIVACY_COSTS["linear"](0.5) == 0.5
