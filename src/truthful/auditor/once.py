"""Solving once: a thousand releases of the same two data sets need their certified solves only once."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy

from truthful.beliefs import Beliefs
from truthful.estimators import Estimate, Estimator, Query
from truthful.estimators.private import Epsilon
from truthful.mechanism import Mechanism
from truthful.moments import Moments


class Remembering:
    """An estimator that remembers the queries of the data sets it has seen."""

    def __init__(self, estimator: Estimator) -> None:
        self._estimator = estimator
        self._seen: dict[str, tuple[Query, ...]] = {}

    @property
    def name(self) -> str:
        return self._estimator.name

    def queries(self, moments: Moments) -> tuple[Query, ...]:
        digest = moments.digest()
        if digest not in self._seen:
            self._seen[digest] = self._estimator.queries(moments)
        return self._seen[digest]

    def estimate(self, answers: Sequence[Sequence[int]], count: int, epsilon: Epsilon) -> Estimate:
        return self._estimator.estimate(answers, count, epsilon)

    def sensitivity(self, count: int) -> float:
        return self._estimator.sensitivity(count)

    def noise_scale(self, count: int, epsilon: Epsilon) -> float:
        return self._estimator.noise_scale(count, epsilon)


def solving_once(mechanism: Mechanism, beliefs: Beliefs) -> Mechanism:
    """The same mechanism, whose estimators for these beliefs remember."""
    public = Remembering(mechanism.public_estimator(beliefs))
    half = Remembering(mechanism.half_estimator(beliefs))
    patient = copy(mechanism)
    # On the copy alone, whatever kind of mechanism it is; a record is frozen for everybody else.
    object.__setattr__(patient, "public_estimator", lambda beliefs: public)
    object.__setattr__(patient, "half_estimator", lambda beliefs: half)
    return patient
