"""What a wrong centre does where own predictions are no lines, because others' are clipped or laws are not normal.

Somebody with features of length r takes the average answer of people like her to be δ higher than declared, and
agrees on the rest: y = δ + r·u + z with u and z as declared. What she expects others to predict of her is then

    P(δ, y) = r·E[ψ(u + δ/r) | r, y − δ],     and the belief gap     γ(δ, y) = P(δ, y) − q(y),    q(y) = P(0, y).

Prior and noise are log-concave, so that γ rises with δ, by at most |δ| (docs/theory.md). All of it is odd in (δ, y).
This serves plans, never a payment: gaps are known to some 1e-6 R.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from truthful import check
from truthful.beliefs import Beliefs
from truthful.beliefs.curves import IDENTITY, Clipped, Curve
from truthful.check import Floats
from truthful.deterrence import posteriors

#: Answers at which the largest gap is looked for, and lengths of features.
_ANSWERS, _LENGTHS = 25, 9
#: Halvings after which a shift is known to 2e-8 of its bound.
_HALVINGS = 26
#: A shift so small that gaps are straight in it, as a part of R; and a slope of q that is none.
_SMALL, _FLAT = 1e-3, 1e-3


@dataclass(frozen=True, eq=False)
class Expecting:
    """People of these lengths r > 0 with these answers y, who take the average to be `shift` higher than declared.

    What they know of u does not depend on how others' predictions are clipped or how noisy they are: it is computed
    once.
    """

    beliefs: Beliefs
    r: Floats
    y: Floats
    shift: Floats

    def gaps(self, curve: Curve, scale: Floats | float) -> Floats:
        """γ(shift, y) of each; `scale` is that of the peer noise along the unit vector of x."""
        noise = np.broadcast_to(scale, self.r.shape)
        (own, own_chance), (declared, chance) = self._posteriors
        return _mean(curve, own, own_chance, self.r, noise) - _mean(curve, declared, chance, self.r, noise)

    @cached_property
    def _posteriors(self) -> tuple[tuple[Floats, Floats], tuple[Floats, Floats]]:
        """Values of u and their probabilities, by her own beliefs and by those that are declared."""
        return _posterior(self.beliefs, self.r, self.y, self.shift), _posterior(
            self.beliefs, self.r, self.y, np.zeros_like(self.y)
        )


def largest_gap(people: Expecting, curve: Curve, scale: float) -> float:
    """The largest γ of these people, or 0."""
    return max(0.0, float(people.gaps(curve, scale).max()))


def largest_belief_gap(
    beliefs: Beliefs, lengths: Floats, proportions: Floats, shift: float, clip: float | None, scale: float
) -> float:
    """Γ: the largest γ of anybody with features of these lengths, whatever she truthfully answers.

    Her noise is scale · proportion. It makes what others predict follow the truth less, and gaps smaller: the least
    that anybody has counts for all. No `clip` means that nothing is clipped.
    """
    if shift == 0:
        return 0.0
    longer = lengths > 0
    least = scale * float(np.min(proportions[longer] / lengths[longer]))
    curve = IDENTITY if clip is None else Clipped(clip, beliefs.dimension)
    return largest_gap(anybody(beliefs, spread_lengths(lengths[longer]), shift), curve, least)


@lru_cache(maxsize=4)
def anybody(beliefs: Beliefs, lengths: tuple[float, ...], shift: float) -> Expecting:
    """Somebody of each of these lengths with each of the answers that she can truthfully give."""
    delta = check.nonnegative("shift", shift)
    r = np.repeat(np.array(lengths), _ANSWERS)
    reach = beliefs.radius * r + beliefs.noise_bound
    low, high = delta - reach, np.minimum(delta + reach, beliefs.response_bound)
    part = np.tile(np.linspace(0, 1, _ANSWERS), len(lengths))
    y = low + np.maximum(high - low, 0.0) * part
    return Expecting(beliefs, r, y, np.full(len(r), delta))


def spread_lengths(lengths: Floats) -> tuple[float, ...]:
    """A few lengths from the least to the largest of these, which stand for all."""
    return tuple(np.unique(np.quantile(lengths, np.linspace(0, 1, _LENGTHS))).tolist())


def tolerated_shift(
    beliefs: Beliefs, r: float, scale: float, curve: Curve, answers: Floats, gap: float, most: float
) -> float:
    """The largest shift, at most `most`, up to which |γ| ≤ gap at all these answers, whichever way the shift is."""
    y = np.concatenate([answers, -answers])

    def reached(shift: float) -> float:
        people = Expecting(beliefs, np.full(len(y), r), y, np.full(len(y), shift))
        return largest_gap(people, curve, scale)

    low, high = 0.0, most
    if reached(high) <= gap:
        return high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if reached(middle) <= gap else (low, middle)
    return low


def amplification(beliefs: Beliefs, r: float, scale: float, curve: Curve) -> float | None:
    """How far a centre that is wrong by a little moves the best answer of somebody who answers as declared, y = 0.

    γ/∂q/∂y: σ²/v where an answer counts linearly. None where q does not move with the answer there.
    """
    one, small = np.array([r]), np.array([_SMALL * beliefs.radius])
    gap = Expecting(beliefs, one, np.zeros(1), small).gaps(curve, scale)
    u, chance = _posterior(beliefs, one, small, np.zeros(1))
    moved = _mean(curve, u, chance, one, np.array([scale]))
    return None if moved[0] < _FLAT * small[0] else float(gap[0] / moved[0])


def _posterior(beliefs: Beliefs, r: Floats, y: Floats, shift: Floats) -> tuple[Floats, Floats]:
    """u + shift/r given y, for u given y − shift: values (a row for each) and their probabilities."""
    off = y - shift
    v, chance, _ = posteriors(beliefs, r, np.abs(off))
    return np.copysign(beliefs.radius, off)[:, None] * v + (shift / r)[:, None], chance


def _mean(curve: Curve, u: Floats, chance: Floats, r: Floats, scale: Floats) -> Floats:
    """r·E[ψ(u)] of each row."""
    return np.asarray(r * np.einsum("ij,ij->i", chance, curve(u, np.repeat(scale[:, None], u.shape[1], 1))))
