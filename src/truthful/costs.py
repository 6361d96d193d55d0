"""What privacy is worth to people: distributions of the cost c, and the threshold that enough people stay below.

A player of cost c bears c·h(ε) for a release at level ε, with h(ε) = ε² (the paper's assumption) or ε.
"""

from __future__ import annotations

import csv
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from truthful import check
from truthful.check import Floats
from truthful.errors import InputError

PRIVACY_COSTS: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {"quadratic": lambda epsilon: epsilon * epsilon, "linear": lambda epsilon: epsilon}
)
"""h(ε), the cost of one unit of c at level ε."""


def miss_probability(*, n: npt.ArrayLike, alpha: npt.ArrayLike, beta: npt.ArrayLike) -> Floats:
    """The largest chance p of being above the threshold with P[Binomial(n, p) ≤ αn] ≥ 1 − β. Exact.

    With k = ⌊αn⌋, P[Binomial(n, p) > k] = I_p(k+1, n−k) (the regularised incomplete beta function, which
    increases in p), so p is its inverse at β. For α = 0, 1 − (1−p)ⁿ = β.
    """
    n, alpha, beta = (np.asarray(value, dtype=np.float64) for value in (n, alpha, beta))
    # 29 % of 100 people are 29, although the float 0.29 * 100 is below 29.
    k = np.floor(np.round(alpha * n, 9))
    return np.asarray(special.betaincinv(k + 1, n - k, beta))


class Costs(ABC):
    """A distribution of costs on [0, ∞), given by its survival function and that function's inverse.

    A threshold needs the upper tail, and 1 − F(c) is exact where F(c) would round to 1.
    """

    @abstractmethod
    def survival(self, c: npt.ArrayLike) -> Floats:
        """1 − F(c), the share of people whose cost is above c."""

    @abstractmethod
    def upper_quantile(self, p: npt.ArrayLike) -> Floats:
        """F⁻¹(1 − p), the least cost that a share p or less of people exceed."""

    def cdf(self, c: npt.ArrayLike) -> Floats:
        """F(c), the share of people whose cost is at most c."""
        return 1.0 - self.survival(c)

    def quantile(self, p: npt.ArrayLike) -> Floats:
        """F⁻¹(p)."""
        return self.upper_quantile(1.0 - np.asarray(p, dtype=np.float64))

    def sample(self, rng: np.random.Generator, n: int) -> Floats:
        """n independent costs."""
        # random() lies in [0, 1); its complement never requests the infinite cost at p = 0.
        return self.upper_quantile(1.0 - rng.random(check.integer("n", n, least=0)))

    def threshold(self, *, n: int, alpha: float, beta: float) -> float:
        """The smallest τ with P[Binomial(n, 1−F(τ)) ≤ αn] ≥ 1−β and F(τ) ≥ 1−α. Exact.

        The first condition: with probability 1−β at most a share α of the n players have costs above τ.
        The second: that is also what each player expects of her peers. The two are the paper's
        definition of τ_{α,β}; F must lower-bound the law of costs given what a player knows. At α = 0
        the second asks for a bound on every cost, which is infinite if the law has none.
        """
        n, beta = check.integer("n", n), check.share("beta", beta)
        if not 0 <= check.finite("alpha", alpha) < 1:
            raise InputError(f"alpha is {alpha!r}; it must be 0 or above, and below 1.")
        return float(self.upper_quantile(min(float(miss_probability(n=n, alpha=alpha, beta=beta)), alpha)))


@dataclass(frozen=True)
class ParetoCosts(Costs):
    """F(c) = 1 − (c/scale)^(−tail) for c ≥ scale: the paper's heavy-tailed example."""

    tail: float
    scale: float

    def __post_init__(self) -> None:
        check.positive("tail", self.tail)
        check.positive("scale", self.scale)

    def survival(self, c: npt.ArrayLike) -> Floats:
        ratio = np.maximum(np.asarray(c, dtype=np.float64) / self.scale, 1.0)
        return np.asarray(ratio**-self.tail)

    def upper_quantile(self, p: npt.ArrayLike) -> Floats:
        with np.errstate(divide="ignore"):
            return np.asarray(self.scale * _probabilities(p) ** (-1.0 / self.tail))


@dataclass(frozen=True)
class LognormalCosts(Costs):
    """ln c is normal with mean ln(median) and standard deviation sigma."""

    median: float
    sigma: float

    def __post_init__(self) -> None:
        check.positive("median", self.median)
        check.positive("sigma", self.sigma)

    def survival(self, c: npt.ArrayLike) -> Floats:
        with np.errstate(divide="ignore"):
            z = np.log(np.maximum(np.asarray(c, dtype=np.float64), 0.0) / self.median) / self.sigma
        return np.asarray(special.ndtr(-z))

    def upper_quantile(self, p: npt.ArrayLike) -> Floats:
        return np.asarray(self.median * np.exp(-self.sigma * special.ndtri(_probabilities(p))))


@dataclass(frozen=True)
class EmpiricalCosts(Costs):
    """Costs by their quantiles: F⁻¹(probabilities) = values, linear in between.

    The probabilities run from 0 (the least cost) to 1 (the greatest); equal values in a row mean a share of people with
    exactly that cost.
    """

    probabilities: tuple[float, ...]
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        probabilities, values = (
            check.vector("probabilities", self.probabilities),
            check.vector("values", self.values),
        )
        if len(probabilities) != len(values) or len(values) < 2:
            raise InputError(
                f"There are {len(probabilities)} probabilities and {len(values)} values; "
                "give one value for each probability, at least two."
            )
        if probabilities[0] != 0 or probabilities[-1] != 1:
            raise InputError(
                f"The probabilities run from {probabilities[0]:g} to {probabilities[-1]:g}; "
                "they must run from 0 to 1. Add the least and the greatest cost anybody can have."
            )
        _in_order("probabilities", probabilities, strictly=np.greater)
        _in_order("values", values, strictly=np.greater_equal)
        check.nonnegative("values[0]", values[0])

    @classmethod
    def load(cls, path: str | Path) -> EmpiricalCosts:
        """Quantiles from a CSV file with the columns `probability` and `value`, or a JSON file.

        The JSON is a list of {"probability": …, "value": …}.
        """
        rows = _read_rows(Path(path))
        try:
            pairs = [(float(row["probability"]), float(row["value"])) for row in rows]
        except (KeyError, TypeError, ValueError):
            raise InputError(
                f"{path} must give a number as `probability` and one as `value` in every row."
            ) from None
        try:
            return cls(tuple(p for p, _ in pairs), tuple(v for _, v in pairs))
        except InputError as problem:
            raise InputError(f"{path}: {problem}") from None

    def survival(self, c: npt.ArrayLike) -> Floats:
        c = np.asarray(c, dtype=np.float64)
        P, V = np.array(self.probabilities), np.array(self.values)
        # V[i-1] <= c < V[i]: the last of equal values counts, so that F jumps at a cost many people share.
        i = np.clip(np.searchsorted(V, c, side="right"), 1, len(V) - 1)
        width = np.maximum(V[i] - V[i - 1], np.finfo(np.float64).tiny)
        inside = P[i - 1] + (P[i] - P[i - 1]) * np.clip((c - V[i - 1]) / width, 0.0, 1.0)
        return np.where(c < V[0], 1.0, np.where(c >= V[-1], 0.0, 1.0 - inside))

    def upper_quantile(self, p: npt.ArrayLike) -> Floats:
        return np.asarray(np.interp(1.0 - _probabilities(p), self.probabilities, self.values))


def _probabilities(p: npt.ArrayLike) -> Floats:
    array = np.asarray(p, dtype=np.float64)
    if not np.all((array >= 0) & (array <= 1)):
        raise InputError(f"A probability is outside [0, 1]: {array[~((array >= 0) & (array <= 1))].flat[0]}.")
    return array


def _in_order(name: str, array: Floats, strictly: np.ufunc) -> None:
    bad = np.flatnonzero(~strictly(array[1:], array[:-1]))
    if len(bad):
        i = int(bad[0])
        raise InputError(
            f"{name}[{i + 1}] is {array[i + 1]:g}, after {array[i]:g}; the {name} must increase."
        )


def _read_rows(path: Path) -> list[dict[str, str]]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as problem:
        raise InputError(f"The file of cost quantiles {path} cannot be read: {problem.strerror}.") from None
    except UnicodeDecodeError:
        raise InputError(f"The file of cost quantiles {path} is not UTF-8 text.") from None
    if path.suffix.lower() != ".json":
        return list(csv.DictReader(text.splitlines()))
    try:
        rows = json.loads(text)
    except json.JSONDecodeError as problem:
        raise InputError(f"{path} is not valid JSON: {problem}.") from None
    if not isinstance(rows, list):
        raise InputError(f"{path} must hold a list of {{probability, value}}.")
    return rows
