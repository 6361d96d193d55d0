"""An argument of the wrong type is told by our own error: which it is, what was given, what is expected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.studies import DESIGNED, people, planned

import truthful

# Whatever a type checker says of it.
tf: Any = truthful
STUDY = tf.Study.parse(DESIGNED)
PLAN = planned(STUDY, 100)
REPORTS = people(STUDY, 100).reports
FRAME = pd.DataFrame({"a": ["one"]})
FIXED: dict[str, Any] = {"players": 100, "epsilon": 1.0, "score_weight": 0.5}


@pytest.fixture(scope="module")
def settled() -> Any:
    return tf.settle(PLAN, REPORTS, seed=1)


def designed(name: str, given: dict[str, Any]) -> Callable[[Any], Any]:
    return lambda value: tf.design(STUDY, **{**given, name: value})


def settled_with(name: str) -> Callable[[Any], Any]:
    return lambda value: tf.settle(PLAN, REPORTS, **{"seed": 1, name: value})


NUMBERS = ("players", "epsilon", "score_weight", "base_payment", "clip", "absent_share", "rule")
GOALS = ("budget", "accuracy", "lie", "roster", "response_share", "accuracy_of")
#: What takes each argument; the first word is its name.
DESIGNS: dict[str, Callable[[Any], Any]] = {
    "study": lambda value: tf.design(value, **FIXED),
    **{name: designed(name, FIXED) for name in NUMBERS},
    **{name: designed(name, {"players": 100, "budget": 2000.0}) for name in GOALS},
    **{name: settled_with(name) for name in ("on_bad", "books", "engine", "progress", "seed")},
    "plan": lambda value: tf.settle(value, REPORTS, seed=1),
    "plan simulated": lambda value: tf.simulate(value, runs=1),
    "plan audited": lambda value: tf.audit(value, seed=1),
    "agents": lambda value: tf.simulate(PLAN, {1: 0.5} if isinstance(value, dict) else value, runs=1),
    "runs": lambda value: tf.simulate(PLAN, runs=value),
    "samples": lambda value: tf.audit(PLAN, seed=1, samples=value),
    "text": lambda value: tf.Study.parse(value),
    "text of a plan": lambda value: tf.Plan.parse(value),
    "p": lambda value: tf.quadratic(value, 0.1, a=1.0, b=1.0),
    "event": lambda value: tf.basic_brier(value, 0.1),
    "beliefs": lambda value: tf.truthful_regression(np.eye(2), np.ones(2), value, a=1.0, b=1.0),
    "mechanism": lambda value: tf.private_regression(
        np.eye(2),
        np.ones(2),
        tf.Beliefs(2, tf.UniformBall(0.5), tf.UniformNoise(0.5)),
        value,
        rng=np.random.default_rng(1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("value", [{"a": 1}, FRAME, object()], ids=["dict", "DataFrame", "object"])
@pytest.mark.parametrize("name", DESIGNS)
def test_no_error_of_pythons_comes_from_inside(name: str, value: Any) -> None:
    named = {"roster": "column|given as"}.get(name, name.split()[0])
    with pytest.raises(tf.InputError, match=named):
        DESIGNS[name](value)


@pytest.mark.parametrize(
    "value", [3, 1.5, {"a": 1}, FRAME, None], ids=["3", "1.5", "dict", "DataFrame", "None"]
)
@pytest.mark.parametrize("read", [tf.Study.load, tf.Plan.load, tf.Release.load, tf.Receipt.load, PLAN.save])
def test_a_path_that_is_none_is_told(read: Callable[[Any], Any], value: Any) -> None:
    with pytest.raises(tf.InputError, match="it must be a path"):
        read(value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tf.design("study.toml", **FIXED), r"^study is 'study.toml'; it must be a Study. Read .*Study.load"),
        (lambda: tf.settle("plan.json", REPORTS), r"^plan is 'plan.json'; it must be a Plan. Read one with Plan.load"),
        (lambda: tf.design(STUDY, players="2000", budget=5000), r"^players is '2000'; it must be a whole number"),
        (lambda: tf.design(STUDY, players=2000, budget="5,000"), r"^budget is '5,000'; it must be a number"),
        (lambda: tf.design(STUDY, roster=3, budget=5000), "^roster is 3; it must be a file or a table"),
        (lambda: tf.settle(PLAN, REPORTS, seed="1"), "seed is '1'; it must be a whole number"),
        (lambda: tf.settle(PLAN, REPORTS, seed=1, out=3), "out is 3; it must be a path"),
        (lambda: tf.settle(PLAN, REPORTS, on_bad=FRAME), "on_bad is a DataFrame; choose one of"),
    ],
)  # fmt: skip
def test_the_message_says_what_was_given_and_what_is_expected(call: Callable[[], Any], message: str) -> None:
    with pytest.raises(tf.InputError, match=message) as caught:
        call()
    assert str(caught.value).startswith(f"{caught.value.argument} is ")


def test_a_release_or_a_receipt_that_is_none_is_told(settled: Any) -> None:
    release, receipt = settled.release, settled.receipt("p-001")
    with pytest.raises(
        tf.InputError, match=r"^release is .*; it must be a Release. Read one with Release.load"
    ):
        tf.verify({"a": 1}, receipt)
    with pytest.raises(
        tf.InputError, match=r"^receipt is .*; it must be a Receipt. Read one with Receipt.load"
    ):
        tf.verify(release, "receipt.json")


def test_numbers_of_numpy_are_numbers() -> None:
    fixed = {"players": np.int64(100), "epsilon": np.float32(1.0), "score_weight": np.float64(0.5)}
    assert tf.design(STUDY, **fixed).sha256 == tf.design(STUDY, **FIXED).sha256
    assert tf.settle(PLAN, REPORTS, seed=np.int64(1)).release.rehearsal
