"""What is about to be released."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Query:
    """One vector about to be released, on an integer lattice.

    The sensitivity bounds sqrt(Σ w_j (k_j − k'_j)²) over all neighbouring data sets, in lattice units;
    rounding and the solver's error are in it. It is never a function of the data. By the norm "sup" it bounds
    max|k_j − k'_j| instead, and all weights are 1.
    """

    value: tuple[int, ...]
    unit: Fraction  # one lattice unit, in normalised units
    sensitivity: Fraction
    weights: tuple[int, ...]
    share: Fraction  # of the estimate's epsilon
    norm: str = "l2"
