"""The attack surface: how reports become statistics, statistics a release, and a release payments and a settlement.

The auditor uses only these functions, so that a product with a fault can take the place of ours: an auditor that does
not catch it is worth nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from truthful.asked_release import AskedPaymaster, AskedRelease, AskedScored, Level, level_of
from truthful.beliefs import Beliefs, Predictor
from truthful.check import Floats
from truthful.errors import InputError
from truthful.estimators.sensitivity import AddNoise, Query
from truthful.lattice import Bits
from truthful.moments import Sums, grid_features, grid_responses, sums
from truthful.one_release import LeaveOneOut, OneRelease, Scored, paymaster
from truthful.plan import Plan
from truthful.settlement import Settlement, settle
from truthful.settlement.draw import Drawing
from truthful.share_release import SharePaymaster, ShareRelease
from truthful.study.credibility import LevelBeliefs, ShareBeliefs

#: Mechanisms with one release, of numbers, of shares, or with predictions, and what is believed of each.
Attacked = OneRelease | ShareRelease | AskedRelease
Believed = Beliefs | ShareBeliefs | LevelBeliefs
AnyScored = Scored | AskedScored


class Product:
    """The functions that release and pay: ours, the very ones that a settlement calls.

    y holds answers or, where people are also asked what the others will say, rows of answers and predictions.
    """

    def statistics(self, X: Floats, y: Floats, mechanism: Attacked, beliefs: Believed) -> Sums:
        """Exact statistics of any reports, in normalised units."""
        Y = beliefs.response_bound
        found = sums(grid_features(X), grid_responses(answers_of(y), Y), mechanism.transform, mechanism.norm)
        if not isinstance(mechanism, AskedRelease):
            return found
        return replace(found, predictions=int(grid_responses(y[:, 1], Y).sum()))

    def answer(self, bits: Bits) -> AddNoise:
        """The source of noise for all queries of one release."""
        return Drawing(bits)

    def release(self, sums: Sums, mechanism: Attacked, beliefs: Believed, answer: AddNoise) -> LeaveOneOut:
        """The public estimate."""
        return mechanism.release(sums, beliefs, answer)

    def score_players(
        self, estimate: LeaveOneOut, mechanism: Attacked, beliefs: Believed, X: Floats, y: Floats
    ) -> AnyScored:
        """Everybody's scores and payments, given all records."""
        kx, ky = _on_grid(X.tobytes(), answers_of(y).tobytes(), beliefs)
        if isinstance(mechanism, OneRelease) and isinstance(beliefs, Beliefs):
            master = paymaster(mechanism, beliefs, estimate, len(y))
            if not mechanism.clipped:
                master = replace(master, predictor=_remember_predictions(beliefs))
            return master.score_players(kx, ky)
        if isinstance(mechanism, ShareRelease) and isinstance(beliefs, ShareBeliefs):
            return SharePaymaster(mechanism, beliefs, estimate).score_players(kx, ky)
        if isinstance(mechanism, AskedRelease) and isinstance(beliefs, LevelBeliefs):
            km = grid_responses(y[:, 1], beliefs.response_bound)
            return AskedPaymaster(mechanism, beliefs, estimate, level(X, mechanism, beliefs)).score_players(
                kx, ky, km
            )
        raise InputError("The mechanism is for numbers and the beliefs for shares, or the other way round.")

    def settle(self, plan: Plan, reports: Any, *, out: Path, on_bad: str, **options: Any) -> Settlement:
        """A whole settlement, written to a directory; the options are those of `truthful.settle`."""
        return settle(plan, reports, out=out, on_bad=on_bad, **{"accept_less": True, **options})


def answers_of(said: Floats) -> Floats:
    """The answers, without predictions."""
    return said if said.ndim == 1 else np.ascontiguousarray(said[:, 0])


def _remember_predictions(beliefs: Beliefs) -> Predictor:
    """Own predictions where nothing is clipped: no release changes them, and an audit makes thousands from the same
    records."""
    return lambda r, y, scale: _own_predictions(beliefs, r.tobytes(), y.tobytes())


@lru_cache(maxsize=8)
def _own_predictions(beliefs: Beliefs, r: bytes, y: bytes) -> Floats:
    return beliefs.prediction(np.frombuffer(r), np.frombuffer(y))


@lru_cache(maxsize=8)
def _on_grid(X: bytes, y: bytes, beliefs: Believed) -> tuple[Floats, Floats]:
    """Records on the grid. Read only: an audit makes thousands of releases from the same ones."""
    kx = grid_features(np.frombuffer(X).reshape(-1, beliefs.dimension))
    ky = grid_responses(np.frombuffer(y), beliefs.response_bound)
    kx.flags.writeable = ky.flags.writeable = False
    return kx, ky


def level(X: Floats, mechanism: AskedRelease, beliefs: LevelBeliefs) -> Level:
    """Features' part in the average answer."""
    return _level(X.tobytes(), mechanism, beliefs)


@lru_cache(maxsize=8)
def _level(X: bytes, mechanism: AskedRelease, beliefs: LevelBeliefs) -> Level:
    kx = grid_features(np.frombuffer(X).reshape(-1, beliefs.dimension))
    return level_of(beliefs, sums(kx, np.zeros(len(kx)), mechanism.transform), [kx])


@dataclass(frozen=True)
class SpentQuery:
    """A query of a release, and the epsilon spent on it."""

    query: Query
    epsilon: Fraction


def spent_queries(
    product: Product, sums: Sums, mechanism: Attacked, beliefs: Believed
) -> tuple[SpentQuery, ...]:
    """The queries of a release, in their order, each with its epsilon."""
    asked: list[SpentQuery] = []

    def listen(query: Query, epsilon: Fraction) -> Sequence[int]:
        asked.append(SpentQuery(query, epsilon))
        return query.value

    product.release(sums, mechanism, beliefs, listen)
    return tuple(asked)


def unprotected_parts(sums: Sums, mechanism: Attacked) -> tuple[object, ...]:
    """The statistics released without noise: the count and, where answers are protected, all sums of features."""
    if mechanism.protects == "records":
        return (sums.count,)
    parts = (sums.matrix, sums.features, sums.instruments)
    return (sums.count, *(int(k) for part in parts for k in part.ravel()))


def visible_parts(estimate: LeaveOneOut) -> tuple[object, ...]:
    """All parts of an estimate that depend on data, to be compared bit for bit."""
    matrix = None if estimate.matrix is None else tuple(int(k) for k in estimate.matrix.ravel())
    return (
        estimate.theta.tobytes(),
        estimate.inverse.tobytes(),
        (estimate.scale, estimate.matrix_scale, estimate.kept),
        (estimate.transform, estimate.norm),
        matrix,
        estimate.vector,
        estimate.predictions,
    )


FORMAT = "truthful/audit/2"


@dataclass(frozen=True)
class Finding:
    """One attack: what was claimed, what was found, how surely, and whether the claim stands.

    figures are the numbers behind the words, for machines. An informational finding shows what a plan does not protect:
    it breaks no claim.
    """

    name: str
    claim: str
    found: str
    confidence: str
    passed: bool
    figures: dict[str, float] = field(default_factory=dict)
    informational: bool = False


@dataclass(frozen=True)
class Audit:
    """All findings on one plan. The same seed repeats the same attack."""

    plan_sha256: str
    protects: str
    epsilon: float
    samples: int
    seed: int
    findings: tuple[Finding, ...]

    @property
    def passed(self) -> bool:
        """Whether every claim stands."""
        return all(finding.passed for finding in self.findings)

    def record(self) -> dict[str, Any]:
        """The audit for JSON."""
        return {"format": FORMAT, "passed": self.passed, **asdict(self)}
