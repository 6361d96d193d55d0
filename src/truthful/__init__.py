"""Buy honest answers to sensitive questions, fit a linear model, keep every answer private, pay everybody fairly.

    Study ──design──▶ Plan ──collect──▶ reports ──settle──▶ Settlement ──publish──▶ Release + Receipts
                                                                                      └──verify──▶ Verdict

Each arrow is one function from record to record. Names are loaded when they are first used, so that a command
that needs little starts quickly.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from truthful.formatting import set_viewer
from truthful.lazily import lazy_names
from truthful.version import __version__

if TYPE_CHECKING:
    from truthful import bounds
    from truthful.auditor import Audit, audit
    from truthful.beliefs import (
        Beliefs,
        CustomNoise,
        NormalBall,
        TruncatedNormal,
        UniformBall,
        UniformNoise,
    )
    from truthful.costs import EmpiricalCosts, LognormalCosts, ParetoCosts
    from truthful.errors import InputError, Refused, TruthfulError, WorseThanPromised
    from truthful.one_release import OneRelease
    from truthful.plan import Plan, design
    from truthful.planner import Infeasible
    from truthful.regression import Mechanism, private_regression, truthful_regression
    from truthful.release import Receipt, Release, Verdict, verify
    from truthful.scoring import basic_brier, brier, quadratic
    from truthful.settlement import Preview, Settlement, preview, settle
    from truthful.simulation import Simulation, simulate
    from truthful.study import Study

__all__ = [
    "Audit",
    "Beliefs",
    "CustomNoise",
    "EmpiricalCosts",
    "Infeasible",
    "InputError",
    "LognormalCosts",
    "Mechanism",
    "NormalBall",
    "OneRelease",
    "ParetoCosts",
    "Plan",
    "Preview",
    "Receipt",
    "Refused",
    "Release",
    "Settlement",
    "Simulation",
    "Study",
    "TruncatedNormal",
    "TruthfulError",
    "UniformBall",
    "UniformNoise",
    "Verdict",
    "WorseThanPromised",
    "__version__",
    "audit",
    "basic_brier",
    "bounds",
    "brier",
    "design",
    "preview",
    "private_regression",
    "quadratic",
    "settle",
    "simulate",
    "truthful_regression",
    "verify",
]

__getattr__ = lazy_names(
    __name__,
    {
        "auditor": ("Audit", "audit"),
        "bounds": (),
        "beliefs": ("Beliefs", "CustomNoise", "NormalBall", "TruncatedNormal", "UniformBall", "UniformNoise"),
        "costs": ("EmpiricalCosts", "LognormalCosts", "ParetoCosts"),
        "errors": ("InputError", "Refused", "TruthfulError", "WorseThanPromised"),
        "one_release": ("OneRelease",),
        "plan": ("Plan", "design"),
        "planner": ("Infeasible",),
        "regression": ("Mechanism", "private_regression", "truthful_regression"),
        "release": ("Receipt", "Release", "Verdict", "verify"),
        "scoring": ("basic_brier", "brier", "quadratic"),
        "settlement": ("Preview", "Settlement", "preview", "settle"),
        "simulation": ("Simulation", "simulate"),
        "study": ("Study",),
    },
)


set_viewer(lambda: import_module("truthful.show.notebook"))


def __dir__() -> list[str]:
    return __all__
