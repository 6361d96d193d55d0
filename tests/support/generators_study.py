"""The example study with changes, and hypothesis strategies for studies and the people in them."""

from __future__ import annotations

import tomllib
from itertools import combinations
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from truthful.study import Study

GAMBLING = Path(__file__).parents[2] / "examples" / "gambling" / "study.toml"


def declaration(**changes: Any) -> dict[str, Any]:
    """What the gambling study declares, with sections or keys replaced: `beliefs__signal=2`, or removed with None."""
    record: dict[str, Any] = tomllib.loads(GAMBLING.read_text())
    for path, value in changes.items():
        *sections, key = path.split("__")
        target = record
        for section in sections:
            target = target[section]
        if value is None:
            del target[key]
        else:
            target[key] = value
    return record


def gambling(**changes: Any) -> Study:
    return Study.from_declaration(declaration(**changes))


NAMES = ("age", "income", "children", "region", "plan")


@st.composite
def features(draw: st.DrawFn, assigned: bool = False) -> list[dict[str, Any]]:
    """One to four features, numbers and levels, as likely as they say where they are assigned."""
    chosen = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True))
    made: list[dict[str, Any]] = []
    for name in chosen:
        if draw(st.booleans()):
            low = draw(st.floats(-100, 100))
            made.append({"name": name, "low": low, "high": low + draw(st.floats(0.1, 200))})
        else:
            levels = [f"l{i}" for i in range(draw(st.integers(2, 5)))]
            made.append({"name": name, "levels": levels, "reference": draw(st.sampled_from(levels))})
        if assigned and draw(st.booleans()):
            made[-1] |= draw(likely(made[-1]))
    return made


@st.composite
def likely(draw: st.DrawFn, feature: dict[str, Any]) -> dict[str, Any]:
    """Probabilities of levels, and values of a number with theirs."""
    given, cases = {}, feature.get("levels")
    if cases is None:
        cases = [feature["low"], *draw(st.sampled_from([[], [feature["low"] + 0.01]])), feature["high"]]
        given["values"] = cases
    weights = [draw(st.integers(1, 9)) for _ in cases]
    return {**given, "probabilities": [weight / sum(weights) for weight in weights]}


@st.composite
def pairs(draw: st.DrawFn, named: list[dict[str, Any]]) -> list[list[str]]:
    """Some features that interact, often none."""
    names = [feature["name"] for feature in named]
    possible = [list(pair) for pair in combinations(names, 2)]
    if not possible or draw(st.booleans()):
        return []
    return draw(st.lists(st.sampled_from(possible), max_size=2, unique_by=tuple))


@st.composite
def studies(draw: st.DrawFn, kind: str = "uniform", centred: bool = True) -> Study:
    """A study with ranges of any kind, sometimes about a centre."""
    low, chosen = draw(st.floats(-50, 50)), draw(features(assigned=kind == "assigned"))
    record: dict[str, Any] = {
        "name": "A study",
        "currency": "EUR",
        "intercept": draw(st.booleans()),
        "response": {"name": "spend", "low": low, "high": low + draw(st.floats(1, 300))},
        "features": chosen,
        "interactions": draw(pairs(chosen)),
        "design": {"kind": kind},
        "beliefs": {"radius": draw(st.floats(0.1, 2)), "noise_bound": draw(st.floats(0.1, 2))},
        "costs": {"kind": "pareto", "tail": 2.0, "scale": 0.05},
    }
    study = Study.from_declaration(record)
    if not centred or draw(st.booleans()):
        return study
    length = draw(st.floats(0, 0.9)) * study.half_range / study.dimension**0.5
    theta = [length * draw(st.floats(-1, 1)) for _ in range(study.dimension)]
    record["beliefs"]["centre"] = dict(study.raw_coefficients(theta))
    return Study.from_declaration(record)


@st.composite
def people(draw: st.DrawFn, study: Study) -> list[dict[str, Any]]:
    """A few people, each with a value of every feature."""
    return draw(
        st.lists(
            st.fixed_dictionaries(
                {
                    feature.name: st.sampled_from(feature.levels)
                    if feature.levels is not None
                    else st.floats(feature.low, feature.high)
                    for feature in study.features
                }
            ),
            min_size=1,
            max_size=5,
        )
    )
