"""How wrong beliefs may be before a lie pays: closed forms, for beliefs in which an answer counts linearly.

Before she looks at her own answer somebody expects the average to be μ', her *centre*; her answer y moves that to
P = μ' + s'(y − μ'), her *slope* being s' = v'/(v' + σ²) if her belief has the variance v'. What is declared bets
q(y) = μ + s(y − μ). She is paid const − b(q − P)², so that what matters is the *belief gap* at the truth,

    γ(y) = P − q(y) = (1 − s)(μ' − μ) + (s' − s)(y − μ').

Exact for normal answers with normal beliefs and every exponential family with a conjugate one; the best linear rule
otherwise. Own predictions that are no lines: truthful.deterrence. Derivations: docs/theory.md.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from truthful import check
from truthful.check import Floats

Numbers = float | Floats
#: What others' average somebody expects, or what is declared of it, given her answer.
Expectation = Callable[[Numbers], Numbers]


def slope(variance: Numbers, noise_variance: Numbers) -> Numbers:
    """s = v/(v + σ²): how far an answer moves what is expected of the others."""
    return variance / (variance + noise_variance)


def amplification(variance: Numbers, noise_variance: Numbers) -> Numbers:
    """σ²/v = (1 − s)/s: how far a centre that is wrong by 1 moves the best answer."""
    return noise_variance / variance


def belief_gap(
    y: Numbers, *, centre: Numbers, slope: Numbers, own_centre: Numbers, own_slope: Numbers
) -> Numbers:
    """γ(y) of somebody whose answer is y, where a centre and a slope are declared that need not be her own."""
    return (1 - slope) * (own_centre - centre) + (own_slope - slope) * (y - own_centre)


def best_answer(
    y: Numbers, *, centre: Numbers, slope: Numbers, own_centre: Numbers, own_slope: Numbers
) -> Numbers:
    """y + γ/s, with which q is what she expects; not cut to the range. By the truth she loses bγ²."""
    gap = belief_gap(y, centre=centre, slope=slope, own_centre=own_centre, own_slope=own_slope)
    return y + gap / slope


def lie_size(gap: Numbers, belief_gap: Numbers, saved: Numbers) -> Numbers:
    """D' = (g + Γ) + √((g + Γ)² + τh(ε)/b): no lie that moves q by more pays if |γ| ≤ Γ; `saved` is τh(ε)/b."""
    total = np.add(gap, belief_gap)
    size: Numbers = total + np.sqrt(total**2 + saved)
    return size


def cost_factor(belief_gap: Numbers, lie: Numbers, gap: Numbers = 0.0) -> Numbers:
    """How many times as much it costs to deter lies beyond D in spite of |γ| ≤ Γ; infinite from g + Γ = D/2 on."""
    left = np.asarray(1 - 2 * np.add(gap, belief_gap) / lie)
    with np.errstate(divide="ignore"):
        factor: Floats = np.where(left > 0, (1 - 2 * np.asarray(gap) / lie) / np.maximum(left, 0.0), np.inf)
    return factor if factor.ndim else float(factor)


def mean_truth_cost(
    slope: Numbers, *, own_variance: Numbers, uncertainty: Numbers, noise_variance: Numbers
) -> Numbers:
    """E[γ²] = (1 − s)²A + (s − s')²(v' + σ²), the mean money lost by the truth at b = 1, if the slope s is declared.

    v' is the variance of people's belief, A = E(μ' − μ)² the analyst's uncertainty of their centre, independent of y.
    """
    own = own_variance / (own_variance + noise_variance)
    return (1 - slope) ** 2 * uncertainty + (slope - own) ** 2 * (own_variance + noise_variance)


def declared_variance(own_variance: Numbers, uncertainty: Numbers) -> Numbers:
    """v' + A: the variance to declare, at whose slope the truth loses least on average."""
    return own_variance + uncertainty


# Pilots


def pooled_variance(variance: Numbers, pilot_variance: Numbers) -> Numbers:
    """v_p with 1/v_p = 1/v + 1/v₁: what a published pilot of error variance v₁ leaves of a belief's variance."""
    return 1 / (1 / variance + 1 / pilot_variance)


def after_pilot(
    centre: float, variance: float, noise_variance: float, pilot: float, pilot_variance: float
) -> Expectation:
    """What others' average is expected given one's answer, of a normal belief that has taken in a published pilot.

    An infinite variance is a flat belief, an infinite pilot_variance no pilot.
    """
    check.positive("noise_variance", noise_variance)
    precision = np.array([1 / variance, 1 / pilot_variance])
    known = float(precision @ [centre, pilot])
    total = float(precision.sum()) + 1 / noise_variance
    return lambda y: (known + y / noise_variance) / total
