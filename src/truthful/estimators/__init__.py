"""Estimate: least squares, and the four private estimators with their sensitivities."""

from typing import TYPE_CHECKING

from truthful.lazily import lazy_names

if TYPE_CHECKING:
    from truthful.estimators.least_squares import least_squares
    from truthful.estimators.private import (
        Estimate,
        Estimator,
        KnownDesign,
        NoisyStatistics,
        RidgeBall,
        RidgeFree,
    )
    from truthful.estimators.sensitivity import Query

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

__getattr__ = lazy_names(
    __name__,
    {
        "least_squares": ("least_squares",),
        "private": (
            "Estimate",
            "Estimator",
            "KnownDesign",
            "NoisyStatistics",
            "RidgeBall",
            "RidgeFree",
        ),
        "sensitivity": ("Query",),
    },
)
