"""The notation is true: every name it gives stands where people would look for it."""

import inspect

import pytest
from support.studies import DESIGNED, planned

from truthful.beliefs import Beliefs
from truthful.bounds import Setting
from truthful.guarantees import Participation, Truthfulness
from truthful.one_release import OneRelease
from truthful.plan import design
from truthful.planner.goals import PARAMETERS
from truthful.regression import Mechanism
from truthful.release import Payment, Receipt, Release, Verdict
from truthful.release.release import Instruments
from truthful.study import Study
from truthful.study.declaration import Declaration
from truthful.study.sections import DeclaredBeliefs
from truthful.symbols import SYMBOLS

# Where each name stands: a record's fields, a study's keys, a plan's parameters, a function or property in code.
PLACES: dict[str, set[str]] = {
    "players": set(inspect.signature(design).parameters) & set(Release.model_fields),
    "dimension": set(inspect.signature(Beliefs).parameters),
    "features": set(Declaration.model_fields) & set(Receipt.model_fields) & set(Release.model_fields),
    "response": set(Declaration.model_fields) & set(Release.model_fields),
    "report": set(Receipt.model_fields),
    "coefficients": set(Release.model_fields),
    "radius": set(DeclaredBeliefs.model_fields),
    "noise_bound": set(DeclaredBeliefs.model_fields),
    "noise_variance": set(dir(Beliefs)),
    "response_bound": set(dir(Beliefs)),
    "regularization": set(inspect.signature(Mechanism).parameters),
    "epsilon": set(PARAMETERS) & set(Release.model_fields),
    "base_payment": set(PARAMETERS),
    "score_weight": set(PARAMETERS),
    "peer_prediction": set(Verdict.__dataclass_fields__),
    "own_prediction": set(Verdict.__dataclass_fields__),
    "absent_share": set(PARAMETERS),
    "failure_probability": set(PARAMETERS),
    "cost_threshold": set(Participation.__dataclass_fields__),
    "slack": set(Truthfulness.__dataclass_fields__),
    "lie": set(Truthfulness.__dataclass_fields__) & set(inspect.signature(design).parameters),
    "xi": set(Setting.__dataclass_fields__),
    "design": set(Declaration.model_fields) & set(Release.model_fields),
    "clip": set(PARAMETERS) & set(Payment.model_fields),
    "transform": set(Instruments.model_fields) & set(OneRelease.__dataclass_fields__),
    "leverage": set(Receipt.model_fields) & set(Verdict.__dataclass_fields__),
    "noise_scale": set(Receipt.model_fields),
}


@pytest.mark.parametrize("door", [symbol.door for symbol in SYMBOLS])
def test_a_name_at_the_doors_exists_where_it_is_used(door: str) -> None:
    assert door in PLACES[door]


def test_no_name_is_given_twice() -> None:
    doors = [symbol.door for symbol in SYMBOLS]
    assert len(set(doors)) == len(doors) == len(PLACES)
    papers = [symbol.paper for symbol in SYMBOLS if symbol.paper != "–"]  # the paper has no name for these
    assert len(set(papers)) == len(papers)


def test_every_symbol_has_a_meaning_and_a_name_in_formulas() -> None:
    for symbol in SYMBOLS:
        assert symbol.meaning
        assert symbol.formula.isidentifier()
        assert symbol.door.isidentifier()
        assert "eps" not in (symbol.formula, symbol.door)


def test_the_parameters_of_a_plan_are_in_the_notation_where_they_have_a_symbol() -> None:
    doors = {symbol.door for symbol in SYMBOLS}
    without = {
        "public_share",
        "estimator",
        "peer_estimator",
        "peer_regularization",
        "gram_share",
        "rule",
        "payments",
        "protects",
    }
    assert set(planned(Study.parse(DESIGNED)).parameters()) - without <= doors
