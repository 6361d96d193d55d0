"""A simulation as people read it in a terminal: observed next to guaranteed, who earned what, the best response."""

from __future__ import annotations

import math

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from truthful.show import table
from truthful.simulation import Simulation
from truthful.simulation.found import Found
from truthful.words import money, number, percent


def simulation_view(simulation: Simulation) -> list[RenderableType]:
    """The five guarantees, the earnings of every kind of people, and what the greediest would report."""
    views: list[RenderableType] = [observed_table(simulation), beyond_line(simulation)]
    views += [earnings_table(simulation), response_lines(simulation)]
    return [view for view in views if view]


def observed_table(simulation: Simulation) -> Table:
    """Observed next to guaranteed, in the guarantees' order."""
    grid = table(
        f"Observed in {simulation.runs:,} studies of {simulation.plan.players:,} players, and guaranteed",
        "",
        "number",
        "observed",
        "guaranteed",
        right=("observed", "guaranteed"),
    )
    before = ""
    rows = (
        *_privacy(simulation),
        *_truthfulness(simulation),
        *_accuracy(simulation),
        *_participation(simulation),
        *_budget(simulation),
    )
    for name, words, observed, guaranteed in rows:
        grid.add_row(Text("" if name == before else name, "bold"), words, observed, guaranteed)
        before = name
    return grid


def beyond_line(simulation: Simulation) -> str:
    """Where more lied than the plan allows for, its guarantees are silent."""
    seen, allowed = simulation.observed.truthfulness, simulation.plan.absent_share
    if not seen.beyond:
        return ""
    return (
        f"In {percent(seen.beyond)} of the studies more people lied than the plan allows for ({percent(allowed)}): of "
        "those\nnothing is guaranteed about truthfulness, accuracy and average cost.\n"
    )


def earnings_table(simulation: Simulation) -> Table:
    """What people of each kind were paid, what privacy left of it, and what lying earned them over the truth."""
    columns = ("players", "joined", "paid each", "after privacy", "over the truth")
    grid = table(f"Earnings ({simulation.plan.study.currency})", "agent", *columns, right=columns)
    for one in simulation.earnings:
        grid.add_row(
            one.agent,
            f"{one.players:,}",
            f"{one.joined.value:,.0f}",
            _number(one.payment),
            _number(one.utility),
            _number(one.gain),
        )
    return grid


def response_lines(simulation: Simulation) -> str:
    """Best reports under this plan and under the paper's rule."""
    plan, ours, papers = simulation.plan, simulation.best_response, simulation.papers_best_response
    unit, width = plan.study.response_unit, f"{plan.study.response.high - plan.study.response.low:,g}"
    told = (
        "no report was found that pays more than the truth"
        if ours.gain == 0
        else f"the best report moves a prediction by {number(ours.move * unit)}"
    )
    return (
        f"If the others are truthful, {told}.\nUnder the paper's ridge at this size the best report is up to "
        f"{number(papers.lie)} (of {width}) off the truth, and moves a prediction\nby up to "
        f"{number(papers.move * unit)} (truthful errata E21).\n"
    )


Row = tuple[str, str, str, str]


def _privacy(simulation: Simulation) -> list[Row]:
    return [("privacy", "total ε", "as claimed", f"{simulation.plan.guarantees.privacy.epsilon:.4g}")]


def _truthfulness(simulation: Simulation) -> list[Row]:
    seen, promised = simulation.observed.truthfulness, simulation.plan.guarantees.truthfulness
    unit, currency, name = simulation.plan.study.response_unit, simulation.plan.study.currency, "truthfulness"
    return [
        (
            name,
            "peers' predictions off own ones by",
            _number(seen.gap.times(unit)),
            _maybe(simulation.guaranteed_gap * unit),
        ),
        (name, "payment that the best lie found adds", f"{_number(seen.gain)} {currency}", ""),
        (name, "any lie gains at most", _money(seen.slack, currency), _money(promised.slack, currency)),
        (
            name,
            "a lie pays up to a change in prediction of",
            _maybe(seen.lie * unit),
            _maybe(None if promised.lie is None else promised.lie * unit),
        ),
    ]


def _accuracy(simulation: Simulation) -> list[Row]:
    seen, promised = simulation.observed.accuracy, simulation.plan.guarantees.accuracy
    name = "accuracy"
    return [
        (
            name,
            "mean squared error, normalised",
            _number(seen.mean_squared_error),
            _maybe(promised.mean_squared_error),
        ),
        (name, "error of coefficients", number(seen.rmse), _maybe(promised.rmse)),
        (
            name,
            "error of predictions, on average",
            number(seen.prediction_rmse),
            _maybe(promised.prediction_rmse),
        ),
    ]


def _participation(simulation: Simulation) -> list[Row]:
    seen, promised = simulation.observed.participation, simulation.plan.guarantees.participation
    name, share = "participation", promised.share
    return [
        (name, "taking part pays for", percent(seen.share.value), "–" if share is None else percent(share)),
        (name, "of those who are promised it", _percent(seen.covered), "100%" if share else "–"),
        (name, "and in the end it paid for", _percent(seen.covered_paid), ""),
    ]


def _budget(simulation: Simulation) -> list[Row]:
    seen, promised = simulation.observed.budget, simulation.plan.guarantees.budget
    currency, name = simulation.plan.study.currency, "budget"
    surely = percent(1 - 2 * simulation.plan.failure_probability)
    likely = "–" if seen.above_likely is None else percent(1 - seen.above_likely)
    return [
        (name, "total, on average", money(seen.total.value, currency), _money(promised.expected, currency)),
        (name, "largest total", money(seen.largest, currency), _money(promised.cap, currency)),
        (name, f"totals within {_money(promised.likely, currency)}", likely, surely),
    ]


def _number(found: Found) -> str:
    """A mean, with its standard error."""
    if not math.isfinite(found.value):
        return "–"
    error = f" ± {number(found.error, 2)}" if found.error > 0 else ""
    return f"{number(found.value)}{error}"


def _percent(found: Found) -> str:
    return percent(found.value) if math.isfinite(found.value) else "–"


def _maybe(value: float | None) -> str:
    return number(value) if value is not None and math.isfinite(value) else "–"


def _money(value: float | None, currency: str) -> str:
    return money(value, currency) if value is not None and math.isfinite(value) else "–"
