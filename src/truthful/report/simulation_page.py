"""The report of a simulation: one page, the same whenever the same simulation is made again."""

from __future__ import annotations

import shlex

from truthful.agents import all_kinds
from truthful.promises import promises
from truthful.report import simulated
from truthful.report.assumed import assumed, question
from truthful.report.markup import command, facts, paragraph, section, text
from truthful.report.page import page
from truthful.simulation import Simulation
from truthful.version import __version__

INVENTED = "SIMULATION: everybody on this page is invented. Nobody was asked, nobody answered, and no money was paid."


def simulation_report(simulation: Simulation) -> str:
    """The report of a simulation as an HTML page."""
    plan = simulation.plan
    promised = promises(plan, plan.players)
    assumptions = list(dict.fromkeys(words for promise in promised for words in promise.assumptions))
    return page(
        f"{plan.study.name}: simulation",
        _top(plan.study.name),
        question(plan.study, plan.answering),
        simulated.people(simulation),
        simulated.observed(simulation),
        simulated.errors(simulation),
        simulated.payments(simulation),
        simulated.earnings(simulation),
        simulated.responses(simulation),
        assumed(plan.study, assumptions),
        _again(simulation),
    )


def _top(name: str) -> str:
    banner = f'<p class="banner"><strong>{text(INVENTED)}</strong></p>'
    return f'<header>\n<p class="over">Simulation</p>\n<h1>{text(name)}</h1>\n{banner}\n</header>'


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
