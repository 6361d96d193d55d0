"""Slow, obviously right twins of truthful.study, features and designs: one row at a time, sums over every case."""

from __future__ import annotations

from itertools import product
from math import sqrt
from typing import Any

import numpy as np

from truthful.check import Floats
from truthful.study import Study


def encode_row(study: Study, row: dict[str, Any]) -> list[float]:
    """x of one person, from the words of the definition."""
    own: dict[str, list[float]] = {}
    for feature in study.features:
        value = row[feature.name]
        if study.design.kind == "unit-ball":
            own[feature.name] = [value]
        elif feature.levels is None:
            assert feature.low is not None
            assert feature.high is not None
            middle, half = (feature.low + feature.high) / 2, (feature.high - feature.low) / 2
            own[feature.name] = [(value - middle) / half]
        elif value == feature.levels[-1]:
            own[feature.name] = [-1.0] * (len(feature.levels) - 1)
        else:
            own[feature.name] = [float(value == level) for level in feature.levels[:-1]]
    codes = [1.0] if study.declared.intercept else []
    codes += [code for some in own.values() for code in some]
    for one, other in study.declared.interactions or ():
        codes += [first * second for first in own[one] for second in own[other]]
    if study.design.kind == "unit-ball":
        return codes
    return [code / sqrt(len(codes)) for code in codes]


def predict_raw(study: Study, coefficients: dict[str, float], row: dict[str, Any]) -> float:
    """intercept + Σ coefficient·value + Σ effect of the level + Σ coefficient·product of both."""
    prediction = coefficients.get("intercept", 0.0)
    named = {}
    for feature in study.features:
        value = row[feature.name]
        named[feature.name] = (
            (feature.name, value) if feature.levels is None else (f"{feature.name}={value}", 1)
        )
        name, times = named[feature.name]
        prediction += coefficients[name] * times
    for pair in study.declared.interactions or ():
        (one, a), (other, b) = (named[name] for name in pair)
        prediction += coefficients[f"{one}:{other}"] * a * b
    return prediction


def corner_cases(study: Study) -> Floats:
    """Every x where numbers are at their ends."""
    ends = [feature.levels or (feature.low, feature.high) for feature in study.features]
    names = [feature.name for feature in study.features]
    return np.array([encode_row(study, dict(zip(names, case, strict=True))) for case in product(*ends)])


def drawn_cases(study: Study) -> tuple[Floats, Floats]:
    """Every x, with its weight, of a product rule exact for polynomials of degree 7 in each number."""
    nodes, weights = np.polynomial.legendre.leggauss(4)
    choices: list[list[tuple[Any, float]]] = []
    for feature in study.features:
        cases: tuple[Any, ...] | None = feature.levels or feature.values
        if cases is not None:
            likely = feature.probabilities or [1 / len(cases)] * len(cases)
            choices.append(list(zip(cases, likely, strict=True)))
        else:
            assert feature.low is not None
            assert feature.high is not None
            middle, half = (feature.low + feature.high) / 2, (feature.high - feature.low) / 2
            choices.append(
                [(middle + half * t, w / 2) for t, w in zip(nodes.tolist(), weights.tolist(), strict=True)]
            )
    names = [feature.name for feature in study.features]
    X, W = [], []
    for case in product(*choices):
        X.append(encode_row(study, dict(zip(names, (value for value, _ in case), strict=True))))
        W.append(float(np.prod([weight for _, weight in case])))
    return np.array(X), np.array(W)
