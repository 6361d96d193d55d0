"""What can be changed in a study that is infeasible: each change is carried out by hand, and buys what was told."""

import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.shares import FEATURES, text_of
from support.studies import DESIGNED, OBSERVED, RECORDS

from truthful.plan import design
from truthful.planner import Goals, Infeasible, Remedy
from truthful.planner.levers import levers
from truthful.planner.panel import Panel, panel_of_design
from truthful.planner.planning import CHANGEABLE, best_first, changed_goal, in_units
from truthful.study import Study

REGION = '[[features]]\nname = "region"\nlevels = ["north", "south", "east"]\n'
ANSWERS = '[privacy]\nprotects = "answers"\n'
PEOPLE = OBSERVED.replace("least_eigenvalue = 0.08", "") + ANSWERS
MERGED = '"north", "south or east"'
YES_NO = text_of((0.2, 0.5), FEATURES, "uniform", effect=0.1)
TOLERANT = text_of(tolerance=0.2)

Asked = dict[str, Any]
Change = Callable[[str], str]


def people() -> dict[str, Any]:
    """Of whom few live in the south and fewer in the east, in their own units."""
    rng = np.random.default_rng(0)
    lives = rng.choice(["north", "south", "east"], 400, p=[0.9, 0.07, 0.03])
    return {"price": rng.uniform(1, 5, 400), "region": lives}


#: (study, what is asked, the best error there is, what is to be told of the study, and that by hand)
CASES: list[tuple[str, Asked, float | None, dict[str, Change]]] = [
    (
        DESIGNED,
        {"players": 2000, "budget": 300.0, "accuracy": 18.0},
        20.7,
        {
            "features": lambda text: text.replace(REGION, ""),
            "levels": lambda text: text.replace('"north", "south", "east"', MERGED),
            "range": lambda text: text.replace("low = 0\nhigh = 200", "low = 13.15\nhigh = 186.85"),
        },
    ),
    (
        DESIGNED + RECORDS,
        {"players": 800, "budget": 150.0},
        None,
        {
            "features": lambda text: text.replace(REGION, ""),
            "levels": lambda text: text.replace('"north", "south", "east"', MERGED),
            "protects": lambda text: text.replace(RECORDS, ANSWERS),
        },
    ),
    (
        OBSERVED + RECORDS,
        {"players": 20_000, "budget": 5000.0},
        None,
        {
            # With 2 columns in place of 4, the least eigenvalue is twice as large.
            "features": lambda text: text.replace(REGION, "").replace("0.08", "0.16"),
            "design": lambda text: text.replace('"observed"\nleast_eigenvalue = 0.08', '"uniform"'),
        },
    ),
    (
        YES_NO,
        {"players": 1500, "budget": 375.0},
        None,
        {"features": lambda text: text.replace(FEATURES, "").replace("effect = 0.1", "")},
    ),
    (
        TOLERANT,
        {"players": 2000, "budget": 500.0},
        None,
        {"centre": lambda text: text.replace("tolerance = 0.2", 'centre = "predictions"\nsure = 0.101')},
    ),
]


def told(text: str, asked: Asked, best: float | None = None, roster: Any = None) -> dict[str, Remedy]:
    """The levers by their names, the error that can be had being known."""
    study = Study.parse(text)
    listed = None if roster is None else study.normalise(roster)
    panel = None
    if study.protects == "answers":
        panel = panel_of_design(study) if listed is None else Panel(study, listed)
    goals = Goals(panel=panel, **asked)
    known = () if best is None else (changed_goal("accuracy", best, asked["accuracy"], ""),)
    found = levers(Infeasible("", lambda: known), study, goals, panel)
    return {remedy.goal: remedy for remedy in found}


def error_of(text: str, asked: Asked) -> str:
    """The error that a plan guarantees, as it is told."""
    plan = design(Study.parse(text), **asked)
    promised = plan.guarantees.accuracy
    error = promised.rmse if promised.effect_rmse is None else promised.effect_rmse
    assert error is not None
    return in_units(plan.study, error)


@pytest.mark.parametrize(("text", "asked", "best", "changes"), CASES, ids=range(len(CASES)))
def test_what_is_changed_by_hand_buys_what_was_told(
    text: str, asked: Asked, best: float | None, changes: dict[str, Change]
) -> None:
    found = told(text, asked, best)
    assert found.keys() == changes.keys()
    free = {name: value for name, value in asked.items() if name != "accuracy"}
    for goal, change in changes.items():
        assert change(text) != text
        words = found[goal].words
        assert words.endswith(f": the error is then {error_of(change(text), free)} at the same budget.")
        if free != asked:
            design(Study.parse(change(text)), **asked)  # all that was asked


def test_the_feature_that_buys_most_is_named_of_people_on_a_roster() -> None:
    """Their features are encoded again, as if they had been read anew."""
    roster, asked = people(), {"players": 400, "budget": 400.0}
    found = told(PEOPLE, asked, roster=roster)
    assert found["features"].words.startswith("Leave out `region`: ")
    again = Study.parse(PEOPLE.replace(REGION, ""))
    plan = design(again, roster=again.normalise({"price": roster["price"]}), budget=400.0)
    assert (
        f"the error is then {in_units(again, plan.guarantees.accuracy.rmse or 0.0)} "
        in found["features"].words
    )


def test_without_a_budget_the_cost_is_told() -> None:
    asked: Asked = {"players": 300, "epsilon": 0.2}
    found = told(DESIGNED, asked)
    assert set(found) == {"features"}
    text = DESIGNED.replace(REGION, "")
    cap = design(Study.parse(text), **asked).guarantees.budget.cap
    assert cap is not None
    cost = math.ceil(100 * cap) / 100
    told_words = f": the error is then {error_of(text, asked)}, and it costs {cost:,.2f} USD."
    assert found["features"].words.endswith(told_words)


def test_nothing_of_the_study_is_looked_at_where_nobody_needs_to_be_asked() -> None:
    with pytest.raises(Infeasible) as caught:
        design(Study.parse(DESIGNED), players=100, accuracy=60.0)
    assert caught.value.remedies == ()
    assert str(caught.value).endswith("Ask for a smaller error.")


def test_where_no_single_change_is_enough_that_is_said() -> None:
    with pytest.raises(Infeasible, match="No single change of a goal or of the study is enough") as caught:
        design(Study.parse(text_of()), players=20, budget=0.1, epsilon=3.0)
    assert caught.value.remedies == ()
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_refusal_has_a_handful_of_remedies_of_goals_and_study_and_lies_pass_last() -> None:
    with pytest.raises(Infeasible) as caught:
        design(Study.parse(OBSERVED + RECORDS), players=20_000, budget=5000.0)
    answer = caught.value
    goals = [remedy.goal for remedy in answer.remedies]
    assert goals == ["players", "budget", "features", "design", "lie"]
    assert answer.binding == "players"
    assert set(answer.record()["feasible_with"]) == set(goals) & set(CHANGEABLE)
    assert "moves a prediction" not in str(answer).splitlines()[2]
    lie = answer.remedies[-1]
    assert f"by up to {100 * float(lie.value):.2f} (lie = {lie.value:g})" in lie.words
    # A service hands it from one process to another.
    again = pickle.loads(pickle.dumps(answer))
    assert (str(again), again.remedies) == (str(answer), answer.remedies)


def test_there_are_no_more_than_a_handful() -> None:
    many = [Remedy("features", str(k), "", float(k)) for k in range(9)]
    assert [one.change for one in best_first([Remedy("lie", 0.1, "", 0.0), *many])] == [0, 1, 2, 3, 4, 5]
    assert best_first([Remedy("lie", 0.1, "", 0.0), many[0]])[0] == many[0]


def test_levels_are_merged_together_with_what_people_read_of_them() -> None:
    """The reference may be one of them, and a level without a label is read by its name."""
    labels = '{ south = { en = "the South", de = "Süden" }, north = { en = "the North", de = "Norden" } }'
    region = f'{REGION}reference = "east"\nlevel_labels = {labels}\n'
    text = DESIGNED.replace(REGION, region).replace("currency", 'language = "en"\ncurrency', 1)
    changed = told(text, {"players": 2000, "budget": 300.0, "accuracy": 18.0}, 20.7)["levels"].study
    assert changed is not None
    feature = changed.in_language("de").features[-1]
    assert feature.reference == "south or east"
    assert feature.level_labels == {"north": "Norden", "south or east": "Süden / east"}
