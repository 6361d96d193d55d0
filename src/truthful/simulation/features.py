"""Whose features simulated people have: drawn by the study's design, or brought."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from truthful import check
from truthful.check import Floats
from truthful.errors import InputError
from truthful.study import Study
from truthful.study.features import Levels

#: Draws the normalised features of so many people.
Features = Callable[[np.random.Generator, int], Floats]


@dataclass(frozen=True)
class Brought:
    """Rows that people's features were drawn from, and the hash of these, normalised; None if none were brought.

    The hash is SHA-256 of the matrix, row by row, as little-endian 64-bit floats.
    """

    rows: int | None = None
    sha256: str | None = None


def features_of(study: Study, given: Any) -> tuple[Features, Brought]:
    """What draws people's features, and what identifies the rows it draws from."""
    if callable(given):
        return lambda rng, n: _normalised(study, given(rng, n), n), Brought()
    if given is not None:
        rows = _normalised(study, given, None)
        hashed = hashlib.sha256(rows.astype("<f8").tobytes()).hexdigest()
        return lambda rng, n: rows[rng.integers(len(rows), size=n)], Brought(len(rows), hashed)
    if not study.features:
        return lambda rng, n: study.normalise({}, n), Brought()
    if study.design.kind not in ("uniform", "unit-ball"):
        raise InputError(
            f"design.kind is {study.design.kind!r}: the study does not say how features are distributed, so nobody can "
            "be simulated. Bring people's features with --features FILE, or in Python with simulate(…, features=X)."
        )
    return lambda rng, n: _drawn(study, rng, n), Brought()


def _drawn(study: Study, rng: np.random.Generator, n: int) -> Floats:
    """study.normalise(study.sample_features(rng, n)), without the raw columns in between: they take longer than x."""
    encoding, d = study.declared.encoding, study.dimension
    x = np.empty((d, n))
    if study.design.kind == "unit-ball":
        direction = rng.standard_normal((n, d))
        lengths = np.sqrt(np.einsum("ij,ij->i", direction, direction))
        np.multiply(direction.T, rng.random(n) ** (1.0 / d) / lengths, out=x)
        return x.T
    if encoding.intercept:
        x[0] = 1.0 / encoding.scale
    for feature, place in zip(encoding.features, encoding.slices, strict=True):
        if isinstance(feature, Levels):
            feature.encode(rng.integers(len(feature.levels), size=n), encoding.scale, x[place])
        else:
            code = rng.random(out=x[place.start])
            code *= 2.0 / encoding.scale
            code -= 1.0 / encoding.scale
    return x.T


def _normalised(study: Study, values: Any, n: int | None) -> Floats:
    x = check.matrix("features", values, study.dimension)
    if len(x) == 0 or (n is not None and len(x) != n):
        raise InputError(f"features has {len(x)} rows; {n or 'at least one'} were expected.")
    longest = float(np.linalg.norm(x, axis=1).max())
    if not longest <= 1 + 1e-9:
        raise InputError(f"features has a row of length {longest:g}; normalised features are at most 1 long.")
    return x
