"""The report of a simulation: one page, the same whenever the same simulation is made again.

Every chart has its numbers in a table.
"""

from __future__ import annotations

import inspect
import shlex
from itertools import groupby
from typing import Any

import numpy as np

from truthful.agents import all_kinds
from truthful.charts.payment_charts import PaymentsChart
from truthful.charts.simulation_charts import BestReports, EarningsChart, Errors
from truthful.formatting import number, percent, to_within
from truthful.promises import promises
from truthful.report.page import Facts, all_assumptions, declared_beliefs, render, sentence
from truthful.simulation import AskedSimulation, ShareSimulation, Simulation
from truthful.simulation.best_responses import typical_reports
from truthful.simulation.observations import (
    EARNINGS,
    answer_name,
    best_reports,
    earnings_rows,
    excess_liars,
    name_guarantees,
    observations,
)
from truthful.simulation.population import PopulationRole
from truthful.version import __version__

INVENTED = "SIMULATION: everybody on this page is invented. Nobody was asked, nobody answered, and no money was paid."
#: Of the answers in the chart of best reports, every so many stands in its table.
EVERY = 5
#: Of the earnings, what has no other place on the page: who, paid each, after privacy, over the truth.
COLUMNS = (0, 3, 4, 5)


def simulation_report(simulation: Simulation) -> str:
    """The report of a simulation as an HTML page."""
    plan, study = simulation.plan, simulation.plan.study
    errors, paid = _errors(simulation), np.concatenate([run.payments for run in simulation.studies])
    return render(
        "simulation.html",
        study,
        plan.answering,
        all_assumptions(promises(plan)),
        kind="simulation",
        notices=[INVENTED],
        answer="",
        plan=plan,
        simulation=simulation,
        people=[
            (role.agent.name, _describe(role, earnings.joined.value))
            for role, earnings in zip(simulation.roles, simulation.earnings, strict=True)
        ],
        beyond=excess_liars(simulation),
        observed=[
            (name.capitalize(), [(sentence(row.words), row.observed, row.guaranteed) for row in rows])
            for name, rows in groupby(observations(simulation), key=lambda row: row.guarantee)
        ],
        compared_with=name_guarantees(simulation),
        errors=errors,
        error_rows=[(f"{share:.0%}", number(error)) for share, error in errors.quantiles],
        payments=PaymentsChart(paid, study.currency, "What people were paid"),
        earnings=EarningsChart(simulation.earnings, study.currency),
        earned=(
            [sentence(EARNINGS[column]) for column in COLUMNS],
            [[row[column] for column in COLUMNS] for row in earnings_rows(simulation)],
        ),
        best=_best(simulation),
        declared=declared_beliefs(study),
        command=_call(simulation),
        identity=_identity(simulation),
    )


def _describe(role: PopulationRole, joined: float) -> str:
    """A role in words: how many, how they answer (the first sentence of the docstring), with which parameters."""
    parameters = ", ".join(f"{name} {value}" for name, value in role.record()["parameters"].items())
    answers = (inspect.getdoc(role.agent) or "").split("\n")[0].split(". ")[0].replace("`", "").rstrip(".")
    came = "" if joined == role.count else f", of whom {joined:,.1f} joined on average"
    return (
        f"{role.count:,} ({percent(role.share)}){came}. {answers}{f' ({parameters})' if parameters else ''}."
    )


def _errors(simulation: Simulation) -> Errors:
    """The error of the published coefficients, or of everybody's average, study by study."""
    study, promised = simulation.plan.study, simulation.guaranteed.accuracy
    if not isinstance(simulation, ShareSimulation | AskedSimulation):
        off = study.response_unit * np.sqrt([run.squared_error for run in simulation.studies])
        return Errors(off, promised.rmse, study.response.name)
    yes_no = study.kind == "yes-no"
    unit, what = (100.0, "share of yes") if yes_no else (1.0, "mean rating")
    what = "average answer" if isinstance(simulation, AskedSimulation) else what
    off = unit * np.abs([run.share_error for run in simulation.studies])
    guaranteed = None if promised.prediction_rmse is None else unit * promised.prediction_rmse
    return Errors(off, guaranteed, "percentage points" if yes_no else study.response.name, what)


def _best(simulation: Simulation) -> dict[str, Any]:
    """The report that pays most: the payment of every answer or, for numbers, a typical person's best reports."""
    best: dict[str, Any] = {"sentences": best_reports(simulation), "answers": None, "chart": None}
    if isinstance(simulation, ShareSimulation):
        return {**best, "answers": _best_answers(simulation)}
    if isinstance(simulation, AskedSimulation):
        return best
    found = typical_reports(simulation.plan, simulation.guaranteed.truthfulness)
    width = float(np.ptp(found.truth))
    columns = (column[::EVERY].tolist() for column in (found.truth, found.ours, found.papers))
    return {
        **best,
        "chart": BestReports(found, simulation.plan.study.response.name),
        "rows": [[to_within(value, width) for value in row] for row in zip(*columns, strict=True)],
    }


def _best_answers(simulation: ShareSimulation) -> tuple[list[str], list[list[str]]]:
    """The payment of every answer, for every true answer."""
    paid = simulation.shares.payments
    names = [answer_name(simulation.plan.study, place).capitalize() for place in range(len(paid))]
    width = float(np.ptp(paid))
    return ["True answer", *(f"Says {name}" for name in names)], [
        [name, *(to_within(value, width) for value in row)] for name, row in zip(names, paid, strict=True)
    ]


def _identity(simulation: Simulation) -> Facts:
    """The data that repeat the simulation."""
    brought, features = simulation.features, "drawn anew in every study"
    if brought.rows is not None:
        taken = "the same in every study," if brought.everybody else "drawn from"
        features = f"{taken} {brought.rows:,} rows (features.csv), normalised of SHA-256 {brought.sha256}"
    return [
        ("Plan", f"{simulation.plan.sha256} (plan.json)"),
        ("Study", simulation.plan.study.sha256),
        ("Studies", f"{simulation.runs:,}"),
        ("Seed", f"{simulation.seed}"),
        ("Features", features),
        ("Program", f"truthful {__version__}"),
    ]


def _call(simulation: Simulation) -> str:
    """The command that repeats it or, if it cannot express people's parameters, the call from Python."""
    roles, brought = simulation.roles, simulation.features.rows is not None
    kinds = all_kinds()
    if any(kinds.get(role.agent.name) is None or kinds[role.agent.name]() != role.agent for role in roles):
        agents = ", ".join(f"{role.agent!r}: {role.share!r}" for role in roles)
        features = ", features=X" if brought else ""
        return (
            f'simulate(Plan.load("plan.json"), {{{agents}}}, runs={simulation.runs}, '
            f"seed={simulation.seed}{features})"
        )
    shares = ",".join(f"{role.agent.name}={role.share!r}" for role in roles)
    words = ["truthful", "simulate", "plan.json", "--runs", f"{simulation.runs}", "--agents", shares]
    words += ["--features", "features.csv"] if brought else []
    return shlex.join([*words, "--seed", f"{simulation.seed}", "--report", "simulation.html"])
