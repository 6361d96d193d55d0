"""Expectations under many one-dimensional densities at once, each known up to its constant through its logarithm."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numba
import numpy as np
import numpy.typing as npt

from truthful.check import Floats
from truthful.errors import InputError

Indices = npt.NDArray[np.intp]
LogWeight = Callable[[Indices, Floats], Floats]
Integrand = Callable[[Indices, Floats], Floats]

# Two Gauss-Legendre rules a panel. What they differ by bounds the error of the finer one, generously where the
# integrand is analytic.
_FINE = np.polynomial.legendre.leggauss(64)
_COARSE = np.polynomial.legendre.leggauss(48)
_NODES = np.concatenate([_FINE[0], _COARSE[0]])
_RULES = ((_FINE[1], 0), (_COARSE[1], len(_FINE[1])))

_TOLERANCE = 1e-12
_MASS_TOLERANCE = 1e-10
# More halvings than a jump needs, and more panels at once than a few dozen jumps need.
_DEEPEST = 60
_MOST = 128


@dataclass(frozen=True)
class Expectation:
    """For every density: its integral is mass · exp(peak), and `value` has the expectations, one a column."""

    peak: Floats
    mass: Floats
    value: Floats


def expectation(
    low: Floats, high: Floats, log_weight: LogWeight, integrand: Integrand, unit: float
) -> Expectation:
    """Expectations on [low_i, high_i] under densities ∝ exp(log_weight), to about 1e-12 `unit`.

    `log_weight(i, t)` gives one number for every entry of t, whose rows belong to the densities i; `integrand(i, t)`
    gives one or more, along a last axis. Each interval is one panel at first. Where the rules of 48 and 64 nodes
    disagree, panels are halved until they agree: peaks and kinks cost more nodes, not accuracy. Logarithms are taken
    relative to the largest seen, so nothing underflows that matters.
    """
    count = len(low)
    owner = np.arange(count)
    done: _Panels | None = None
    for _ in range(_DEEPEST):
        fine, coarse = _integrate(owner, low, high, log_weight, integrand)
        total = fine.joined(done).total(count)
        rough = _rough(fine, coarse, total, unit)
        if not rough.any():
            return total
        done = fine.of(~rough).joined(done)
        middle = (low[rough] + high[rough]) / 2
        owner = np.tile(owner[rough], 2)
        low, high = np.concatenate([low[rough], middle]), np.concatenate([middle, high[rough]])
        if len(owner) > _MOST * count:
            break
    raise InputError(
        "The noise density cannot be integrated over a report's support; it must be finite, above 0 inside "
        "(-bound, bound) and smooth but for a few kinks or jumps."
    )


@dataclass(frozen=True)
class _Panels:
    """Integrals over panels, in units of exp(peak): of the weight, and of the integrand times the weight."""

    owner: Indices
    peak: Floats
    mass: Floats
    moment: Floats

    def joined(self, other: _Panels | None) -> _Panels:
        if other is None:
            return self
        names = ("owner", "peak", "mass", "moment")
        return _Panels(*(np.concatenate([getattr(self, name), getattr(other, name)]) for name in names))

    def of(self, chosen: npt.NDArray[np.bool_]) -> _Panels:
        return _Panels(self.owner[chosen], self.peak[chosen], self.mass[chosen], self.moment[chosen])

    def total(self, count: int) -> Expectation:
        peak = np.full(count, -np.inf)
        np.maximum.at(peak, self.owner, self.peak)
        units = np.exp(self.peak - peak[self.owner])
        mass = np.zeros(count)
        moment = np.zeros((count, self.moment.shape[1]))
        np.add.at(mass, self.owner, units * self.mass)
        np.add.at(moment, self.owner, units[:, None] * self.moment)
        with np.errstate(invalid="ignore"):
            return Expectation(peak, mass, moment / mass[:, None])


def _integrate(
    owner: Indices, low: Floats, high: Floats, log_weight: LogWeight, integrand: Integrand
) -> tuple[_Panels, _Panels]:
    """Both rules on every panel [low, high]."""
    half = ((high - low) / 2)[:, None]
    t = low[:, None] + half * (1 + _NODES)
    logs = log_weight(owner, t)
    peak = np.nan_to_num(logs.max(axis=1), nan=-1e300, neginf=-1e300)
    weight = half * np.exp(logs - peak[:, None])
    values = np.ascontiguousarray(integrand(owner, t))
    fine, coarse = (_Panels(owner, peak, *_sums(weight, values, rule, start)) for rule, start in _RULES)
    return fine, coarse


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def _sums(weight: Floats, values: Floats, rule: Floats, start: int) -> tuple[Floats, Floats]:
    """Integrals of the weight, and of the values times the weight, over the nodes from `start` on.

    Added up node by node: NumPy's products round one density's result by how many there are beside it and by where
    they lie in memory, and nobody's payment may depend on that.
    """
    panels, _, columns = values.shape
    mass, moment = np.zeros(panels), np.zeros((panels, columns))
    for p in range(panels):
        total, row = 0.0, moment[p]
        for n in range(len(rule)):
            share, value = weight[p, start + n] * rule[n], values[p, start + n]
            total += share
            for c in range(columns):
                row[c] += share * value[c]
        mass[p] = total
    return mass, moment


def _rough(fine: _Panels, coarse: _Panels, total: Expectation, unit: float) -> npt.NDArray[np.bool_]:
    """Where the two rules disagree: about the expectation, d(N/D) = (dN - (N/D) dD)/D, or about the mass D itself.

    The mass matters where a peak is so narrow that a single node sees it: N/D is then that node's value, and the rules
    seem to agree. Written so that NaN, from a peak only the coarse rule sees, is rough.
    """
    mass_gap = fine.mass - coarse.mass
    gap = (fine.moment - coarse.moment) - total.value[fine.owner] * mass_gap[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        units = np.exp(fine.peak - total.peak[fine.owner]) / total.mass[fine.owner]
        means_agree = np.abs(gap).max(axis=1) * units <= _TOLERANCE * unit
        masses_agree = np.abs(mass_gap) * units <= _MASS_TOLERANCE
    return np.asarray(~(means_agree & masses_agree))
