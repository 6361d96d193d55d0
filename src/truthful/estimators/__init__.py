"""Estimate: least squares, and the four private estimators with their sensitivities."""

from truthful.estimators.least_squares import least_squares
from truthful.estimators.private import (
    Estimate,
    Estimator,
    KnownDesign,
    NoisyStatistics,
    Query,
    RidgeBall,
    RidgeFree,
)

__all__ = [
    "Estimate",
    "Estimator",
    "KnownDesign",
    "NoisyStatistics",
    "Query",
    "RidgeBall",
    "RidgeFree",
    "least_squares",
]
