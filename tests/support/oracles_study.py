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
    codes = [1.0] if study.declared.intercept else []
    for feature in study.features:
        value = row[feature.name]
        if study.design.kind == "unit-ball":
            codes.append(value)
        elif feature.levels is None:
            assert feature.low is not None
            assert feature.high is not None
            middle, half = (feature.low + feature.high) / 2, (feature.high - feature.low) / 2
            codes.append((value - middle) / half)
        elif value == feature.levels[-1]:
            codes += [-1.0] * (len(feature.levels) - 1)
        else:
            codes += [float(value == level) for level in feature.levels[:-1]]
    if study.design.kind == "unit-ball":
        return codes
    return [code / sqrt(len(codes)) for code in codes]


def predict_raw(study: Study, coefficients: dict[str, float], row: dict[str, Any]) -> float:
    """intercept + Σ coefficient·value + Σ effect of the level."""
    prediction = coefficients.get("intercept", 0.0)
    for feature in study.features:
        value = row[feature.name]
        if feature.levels is None:
            prediction += coefficients[feature.name] * value
        else:
            prediction += coefficients[f"{feature.name}={value}"]
    return prediction


def uniform_cases(study: Study) -> tuple[Floats, Floats]:
    """Every x, with its weight, of a product rule exact for polynomials of degree 7 in each number."""
    nodes, weights = np.polynomial.legendre.leggauss(4)
    choices: list[list[tuple[Any, float]]] = []
    for feature in study.features:
        if feature.levels is None:
            assert feature.low is not None
            assert feature.high is not None
            middle, half = (feature.low + feature.high) / 2, (feature.high - feature.low) / 2
            choices.append(
                [(middle + half * t, w / 2) for t, w in zip(nodes.tolist(), weights.tolist(), strict=True)]
            )
        else:
            choices.append([(level, 1 / len(feature.levels)) for level in feature.levels])
    names = [feature.name for feature in study.features]
    X, W = [], []
    for case in product(*choices):
        X.append(encode_row(study, dict(zip(names, (value for value, _ in case), strict=True))))
        W.append(float(np.prod([weight for _, weight in case])))
    return np.array(X), np.array(W)
