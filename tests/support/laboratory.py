"""Plans that tests of the laboratory share: with one release, and with random halves."""

from __future__ import annotations

from typing import Any

from support.studies import CASES, DESIGNED, OBSERVED, UNIT_BALL
from truthful.plan import Plan, design
from truthful.study import Study

RECORDS = '[privacy]\nprotects = "records"\n'
#: How one release with each estimator is planned: study text and parameters. Features of all of them can be drawn.
RELEASES: dict[str, tuple[str, dict[str, Any]]] = {
    "instruments": (DESIGNED, {}),
    "known-design": (DESIGNED + RECORDS, {"estimator": "known-design"}),
    "noisy-statistics": (DESIGNED + RECORDS, {"estimator": "noisy-statistics"}),
}
#: The same of random halves.
HALVES: dict[str, tuple[str, dict[str, Any]]] = {
    f"halves, {name}": (
        DESIGNED if text == OBSERVED else text,
        {"estimator": name, "peers": "halves", **parameters},
    )
    for name, (text, parameters) in CASES.items()
}


def plan_of(text: str = UNIT_BALL, players: int = 400, **parameters: Any) -> Plan:
    """A plan with everyday parameters: payments start from the least with which none is negative, 3bR²."""
    study, b = Study.parse(text), parameters.get("score_weight", 0.2)
    halves = {"public_share": 0.7} if parameters.get("peers") == "halves" else {}
    linear = 1.0 if parameters.get("rule") == "brier" else 0.0
    base = b * (3 * study.beliefs.radius**2 + linear * study.beliefs.radius)
    chosen = {
        "epsilon": 2.0,
        "score_weight": b,
        "absent_share": 0.002,
        "base_payment": base,
        **halves,
        **parameters,
    }
    return design(study, players=players, **chosen)


def planned_like(name: str, players: int, **parameters: Any) -> Plan:
    """The plan of this name in RELEASES or HALVES."""
    text, known = {**RELEASES, **HALVES}[name]
    return plan_of(text, players, **{**known, **parameters})
