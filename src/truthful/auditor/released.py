"""What is released follows from the noisy answers of its draw, and from nothing else that is in the data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from truthful.auditor.product import Halves, Product, estimates_from
from truthful.auditor.record import Finding
from truthful.beliefs import Beliefs
from truthful.check import Floats
from truthful.estimators import Estimate, Query
from truthful.lattice import Bits
from truthful.mechanism import Answer, Estimates, Mechanism
from truthful.release import Release


@dataclass
class Recorder:
    """Passes queries on, and remembers what was answered."""

    answer: Answer
    answers: list[Sequence[int]] = field(default_factory=list)

    def __call__(self, query: Query, epsilon: Fraction) -> Sequence[int]:
        self.answers.append(tuple(self.answer(query, epsilon)))
        return self.answers[-1]


def follows(release: Release, estimates: Estimates) -> bool:
    """Whether a release states these estimates, to the last bit."""
    public, peers = estimates.public, estimates.peers
    return (
        release.theta == _exactly(public.theta)
        and release.peer_thetas == tuple(_exactly(peer.theta) for peer in peers)
        and release.peer_spreads == tuple(tuple(map(_exactly, peer.spread)) for peer in peers)
        and (release.noise.public.scale, release.noise.public.gram_scale) == (public.scale, public.gram_scale)
        and [noise.scale for noise in release.noise.peer] == [peer.scale for peer in peers]
    )


def estimates_finding(
    product: Product, mechanism: Mechanism, beliefs: Beliefs, halves: Halves, bits: Bits
) -> Finding:
    """Whether a release is made of the answers that it was given, also where they are noise alone."""
    recorder = Recorder(product.answer(bits))
    released = product.release(halves, mechanism, beliefs, recorder)
    counts = halves[0].count, halves[1].count
    expected = estimates_from(recorder.answers, counts, mechanism, beliefs)
    names = ("published estimate", "estimate of the first half", "estimate of the second half")
    pairs = zip((released.public, *released.peers), (expected.public, *expected.peers), strict=True)
    faults = [name for name, pair in zip(names, pairs, strict=True) if not _equal(*pair)]
    return Finding(
        name="estimates",
        claim="all three estimates follow from the noisy answers alone, bit for bit",
        found=f"something else in the {', the '.join(faults)}" if faults else "recomputed from the answers",
        confidence="certain, for this draw",
        passed=not faults,
    )


def _equal(one: Estimate, other: Estimate) -> bool:
    return (
        np.array_equal(one.theta, other.theta)
        and np.array_equal(one.spread, other.spread)
        and (one.scale, one.gram_scale) == (other.scale, other.gram_scale)
    )


def _exactly(numbers: Floats) -> tuple[float, ...]:
    return tuple(numbers.tolist())
