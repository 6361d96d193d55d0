"""The report of a simulation: one page, the same whenever the same simulation is made again.

Every chart has its numbers in a table.
"""

from __future__ import annotations

import inspect
import shlex
from itertools import groupby

import numpy as np

from truthful.agents import all_kinds
from truthful.charts.payment_charts import Payments
from truthful.charts.simulation_charts import BestReports, Earned, Earnings, Errors
from truthful.formatting import number, percent, to_within
from truthful.promises import promises
from truthful.report.declared import assumed, question
from truthful.report.markup import (
    command,
    facts,
    figure,
    grouped_table,
    page,
    paragraph,
    section,
    table,
    text,
)
from truthful.simulation import AskedSimulation, ShareSimulation, Simulation
from truthful.simulation.best_responses import typical_reports
from truthful.simulation.observations import (
    EARNINGS,
    answer_name,
    best_reports,
    beyond,
    compared_with,
    earnings_rows,
    observations,
)
from truthful.simulation.population import Role
from truthful.version import __version__

INVENTED = "SIMULATION: everybody on this page is invented. Nobody was asked, nobody answered, and no money was paid."
#: Of the answers in the chart of best reports, every so many stands in its table.
EVERY = 5
#: Of the earnings, what has no other place on the page: who, paid each, after privacy, over the truth.
COLUMNS = (0, 3, 4, 5)


def simulation_report(simulation: Simulation) -> str:
    """The report of a simulation as an HTML page."""
    plan = simulation.plan
    promised = promises(plan, plan.players)
    assumptions = list(dict.fromkeys(words for promise in promised for words in promise.assumptions))
    return page(
        f"{plan.study.name}: simulation",
        _top(plan.study.name),
        question(plan.study, plan.answering),
        people(simulation),
        observed(simulation),
        errors(simulation),
        payments(simulation),
        earnings(simulation),
        responses(simulation),
        assumed(plan.study, assumptions),
        _again(simulation),
    )


def _top(name: str) -> str:
    banner = f'<p class="banner"><strong>{text(INVENTED)}</strong></p>'
    return f'<header>\n<p class="over">Simulation</p>\n<h1>{text(name)}</h1>\n{banner}\n</header>'


def people(simulation: Simulation) -> str:
    """The kinds of people, and how each answers."""
    return section(
        "Who took part",
        paragraph(f"Invented people, {simulation.plan.answering:,} in each of {simulation.runs:,} studies:"),
        facts(
            [
                (role.agent.name, _told(role, one.joined.value))
                for role, one in zip(simulation.roles, simulation.earnings, strict=True)
            ]
        ),
    )


def _told(role: Role, joined: float) -> str:
    """How many, how they answer by the first sentence of their kind's docstring, and with which parameters."""
    parameters = ", ".join(f"{name} {value}" for name, value in role.record()["parameters"].items())
    answers = (inspect.getdoc(role.agent) or "").split("\n")[0].split(". ")[0].replace("`", "").rstrip(".")
    came = "" if joined == role.count else f", of whom {joined:,.1f} joined on average"
    return (
        f"{role.count:,} ({percent(role.share)}){came}. {answers}{f' ({parameters})' if parameters else ''}."
    )


def _sentence(words: str) -> str:
    # A symbol keeps its case: a capital η reads as an H.
    return words[0].upper() + words[1:] if words[0].isascii() else words


def observed(simulation: Simulation) -> str:
    """The five guarantees, each with what was seen."""
    groups = [
        (name.capitalize(), [(_sentence(row.words), row.observed, row.guaranteed) for row in rows])
        for name, rows in groupby(observations(simulation), key=lambda row: row.guarantee)
    ]
    warned, unit = beyond(simulation), simulation.plan.study.response.name
    which = compared_with(simulation)
    units = f"Errors and predictions are in units of “{unit}”. "
    if simulation.plan.study.kind == "yes-no":
        units = ""  # points, as they say
    return section(
        "Observed, and guaranteed",
        *([paragraph(warned, "banner")] if warned else []),
        grouped_table("The five guarantees", ("Number", "Observed", "Guaranteed"), groups),
        *([paragraph(which, "note")] if which else []),
        paragraph(
            f"{units}After ± stands the standard error of what was observed: "
            "chance alone moves it by about twice as much. Privacy cannot be seen in answers and payments; "
            "truthful audit attacks it.",
            "note",
        ),
    )


def errors(simulation: Simulation) -> str:
    """How far what was published was off, study by study."""
    if isinstance(simulation, ShareSimulation | AskedSimulation):
        shown = _share_errors(simulation)
        off = f"the {shown.what} that each simulated study published was from the true one"
    else:
        shown = _coefficient_errors(simulation)
        off = "the coefficients that each simulated study published were from the true ones, all of them together"
    in_points = ", percentage points" if simulation.plan.study.kind == "yes-no" else ""
    return section(
        "How far the simulated studies were off",
        figure(
            shown,
            "errors",
            f"How far {off}. The guarantee is about the root of the mean square, not about every single study.",
        ),
        table(
            f"Errors of the {shown.what}{in_points}",
            ("Share of studies", "Off by at most"),
            [(f"{share:.0%}", number(error)) for share, error in shown.quantiles],
        ),
    )


def _coefficient_errors(simulation: Simulation) -> Errors:
    study = simulation.plan.study
    off = study.response_unit * np.sqrt([run.squared_error for run in simulation.studies])
    return Errors(off, simulation.guaranteed.accuracy.rmse, study.response.name)


def _share_errors(simulation: ShareSimulation | AskedSimulation) -> Errors:
    """Of the average of everybody, in percentage points, levels or units of the answer."""
    study, promised = simulation.plan.study, simulation.guaranteed.accuracy.prediction_rmse
    yes_no = study.kind == "yes-no"
    unit, what = (100.0, "share of yes") if yes_no else (1.0, "mean rating")
    what = "average answer" if isinstance(simulation, AskedSimulation) else what
    off = unit * np.abs([run.share_error for run in simulation.studies])
    guaranteed = None if promised is None else unit * promised
    return Errors(off, guaranteed, "percentage points" if yes_no else study.response.name, what)


def payments(simulation: Simulation) -> str:
    """How payments spread over people, all studies together."""
    currency = simulation.plan.study.currency
    paid = np.concatenate([run.payments for run in simulation.studies])
    shown, width = Payments(paid, currency, "What people were paid"), float(np.ptp(paid))
    return section(
        "What the invented people were paid",
        figure(shown, "payments", "Payments of all invented people in all simulated studies, honest or not."),
        table(
            "Payments",
            ("Share of people", "Get at most"),
            [(f"{share:.0%}", f"{to_within(most, width)} {currency}") for share, most in shown.quantiles],
        ),
    )


def earnings(simulation: Simulation) -> str:
    """What honest people and liars earned."""
    currency = simulation.plan.study.currency
    shown = Earnings([Earned(one.agent, one.payment, one.gain) for one in simulation.earnings], currency)
    return section(
        "What the honest and the liars among them earned",
        figure(
            shown,
            "earnings",
            "Means over all studies, with 95% intervals. On the right is what lies added to payments: each liar's "
            "payment less what she alone would have been paid for the truth. On the left of the line lies cost.",
        ),
        table(
            f"Earnings, {currency} a person",
            [_sentence(EARNINGS[column]) for column in COLUMNS],
            [[row[column] for column in COLUMNS] for row in earnings_rows(simulation)],
        ),
    )


def responses(simulation: Simulation) -> str:
    """The report that pays a typical person most, here and under the paper's rule."""
    if isinstance(simulation, ShareSimulation):
        return _answers(simulation)
    if isinstance(simulation, AskedSimulation):
        found_best = (paragraph(sentence) for sentence in best_reports(simulation))
        return section("The report that pays most", *found_best)
    study = simulation.plan.study
    found = typical_reports(simulation.plan, simulation.guaranteed.truthfulness)
    width = float(np.ptp(found.truth))
    columns = (found.truth, found.ours, found.papers)
    caption = (
        "A typical person, of whom the middle of the range is expected, and the report that pays her most on average, "
        "for every true answer. Computed from the declared beliefs, with others telling the truth."
    )
    if found.within is not None:
        caption += " The band is the guarantee: it allows for liars among the others, and for privacy that a lie saves."
    return section(
        "The report that pays most",
        *(paragraph(sentence) for sentence in best_reports(simulation)),
        figure(BestReports(found, study.response.name), "best", caption),
        table(
            "Best reports of a typical person",
            ("True answer", "Pays most here", "Under the paper's rule"),
            [
                tuple(to_within(float(value), width) for value in row)
                for row in zip(*(column[::EVERY] for column in columns), strict=True)
            ],
        ),
    )


def _answers(simulation: ShareSimulation) -> str:
    """What every answer would have earned, for every true one."""
    study, paid = simulation.plan.study, simulation.shares.payments
    names = [answer_name(study, place).capitalize() for place in range(len(paid))]
    width = max(value for row in paid for value in row) - min(value for row in paid for value in row)
    return section(
        "The answer that pays most",
        *(paragraph(sentence) for sentence in best_reports(simulation)),
        paragraph(
            "What people were paid who told the truth, and what each would have been paid for another answer, the "
            "others' answers being the same. Means over all studies."
        ),
        table(
            f"Paid on average, {study.currency}",
            ("True answer", *(f"Says {name}" for name in names)),
            [
                (name, *(to_within(value, width) for value in row))
                for name, row in zip(names, paid, strict=True)
            ],
        ),
    )


def _again(simulation: Simulation) -> str:
    """All that makes the same simulation again."""
    brought = simulation.features
    drawn = "coefficients" if simulation.plan.study.shares is None else "shares"
    features = "drawn anew in every study"
    if brought.rows is not None:
        taken = "the same in every study," if brought.everybody else "drawn from"
        features = f"{taken} {brought.rows:,} rows (features.csv), normalised of SHA-256 {brought.sha256}"
    return section(
        "How to make it again",
        paragraph(
            f"In each study {drawn}, answers and privacy costs were drawn from the declared laws, and the code that "
            "settles real studies settled it. All chance comes from the seed: the same program makes the same page "
            "again."
        ),
        command(_call(simulation)),
        facts(
            [
                ("Plan", f"{simulation.plan.sha256} (plan.json)"),
                ("Study", simulation.plan.study.sha256),
                ("Studies", f"{simulation.runs:,}"),
                ("Seed", f"{simulation.seed}"),
                ("Features", features),
                ("Program", f"truthful {__version__}"),
            ]
        ),
    )


def _call(simulation: Simulation) -> str:
    """The command, or if people have parameters that no command can give, the call from Python."""
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
