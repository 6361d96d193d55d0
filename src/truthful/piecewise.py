"""Polynomials in pieces: one for each cell of a table."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from truthful.check import Floats


def piecewise(coefficients: Floats, cell: npt.NDArray[np.intp], x: Floats) -> Floats:
    """Σ_k coefficients[k, cell]·xᵏ, by Horner's rule; cells beyond the table are its ends."""
    value, more = np.take(coefficients[-1], cell, mode="clip"), np.empty(np.shape(cell))
    for row in coefficients[-2::-1]:
        value *= x
        value += np.take(row, cell, out=more, mode="clip")
    return value
