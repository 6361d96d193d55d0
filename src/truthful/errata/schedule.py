"""E16 to E18: the parameters of the main result."""

from __future__ import annotations

import math

from truthful.bounds import proved, published
from truthful.errata.examples import DELTA, TAIL, corollary, ridge_error
from truthful.errata.record import Erratum, signed

#: Far enough for the leading power of n to be all that is left; the published bound gets there late.
FAR, FARTHER = 1e16, 1e60


def errata() -> tuple[Erratum, ...]:
    """E16 to E18, computed."""
    return _rate(), _useless(), _threshold()


def _slope(low: float, high: float) -> float:
    """The exponent of n between values at n and 10n."""
    return math.log10(high / low)


def _rate() -> Erratum:
    claimed = (float(published.accuracy(corollary(n))) for n in (FARTHER, 10 * FARTHER))
    right = (float(proved.accuracy(corollary(n).at(estimator="ridge-ball"))) for n in (FAR, 10 * FAR))
    return Erratum(
        number="E16",
        title="Two rates of accuracy",
        where="Corollary 1, item 3, and its proof",
        claim="The estimate is O(n^(−δ))-accurate; the proof shows O(n^(−δ/2)).",
        fact="O(n^(−δ)) is right, for the minimiser over ‖θ‖ ≤ √B, whose sensitivity is of order 1/γ (E3).",
        because="Cross terms of the proof are of order n^(−δ/2) only through E14. With it mended, bias, "
        "lies and noise are each O(n^(−δ)); and noise of mean zero has no cross term at all.",
        example="δ = ¼: the slope in n of the proof's last bound at n = 10⁶⁰, and of the mended one at n "
        "= 10¹⁶.",
        meaning="exponent of n in E‖θ̂ − θ‖²",
        published=_slope(*claimed),
        correct=_slope(*right),
        test="test_e16_the_mended_bound_falls_like_n_to_the_minus_delta",
    )


def _useless() -> Erratum:
    n, d = 10**6, 2
    sizes = (10**3, 10**4, 10**5, 10**6)
    errors = [
        ridge_error(k, float(s.gamma), d, scale=float(published.noise_scale(s)))
        for k, s in ((k, corollary(k, d)) for k in sizes)
    ]
    shown = ", ".join(map(signed, errors))
    return Erratum(
        number="E17",
        title="Accurate from billions of players on",
        where="Corollary 1",
        claim="The estimate is o(1)-accurate.",
        fact=f"With the corollary's parameters its mean squared error is {shown} at n = 10³, 10⁴, 10⁵, "
        "10⁶. The answer θ̂ = 0, without any data, errs by ‖θ‖² ≤ 1.",
        because="The noise has variance d(d+1)(4B+2M)²·n^(−δ), which falls very slowly from a large "
        "constant.",
        example="d = 2, B = M = 1, δ = ¼, n = 10⁶, ‖θ‖ = 1, all truthful.",
        meaning="mean squared error E‖θ̂ − θ‖² (left: of θ̂ = 0, without any data)",
        published=1.0,
        correct=errors[sizes.index(n)],
        test="test_e17_at_a_million_players_the_schedule_is_worse_than_no_data",
    )


def _threshold() -> Erratum:
    taus = (float(published.threshold(corollary(n))) for n in (1e6, 1e7))
    wrong = math.log10(10 ** (TAIL / 2 - DELTA * (1 + TAIL)))
    return Erratum(
        number="E18",
        title="Exponents in the corollary's proof",
        where="Proof of Corollary 1",
        claim="τ = O(n^(1−δ)), β = n^(p/2−δ(1+p)), and privacy 2n^(−1+δ) = o(√n).",
        fact="τ = O(n^(½−δ)); β = n^(−p/2+δ(1+p)) as in the statement, for the proof's would grow like "
        f"n^{wrong:g} here; privacy is o(1/√n).",
        because="(αβ)^(−1/p) = n^(δ/p + ½ − δ(1+p)/p) = n^(½−δ), which is also what τε² = n^(−3/2+δ) in "
        "the proof needs.",
        example="δ = ¼, p = 2, Pareto costs Pr[c ≤ τ] = 1 − τ⁻².",
        meaning="exponent of n in τ",
        published=1 - DELTA,
        correct=_slope(*taus),
        test="test_e18_the_threshold_grows_like_n_to_the_half_minus_delta",
    )
