"""The frontier of a plan as a chart: the guaranteed error at each budget, ours and the paper's, and the plan itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any

import numpy as np

from truthful.charts import style
from truthful.charts.chart import draw_chart
from truthful.charts.payments import answers
from truthful.charts.style import AROUND, Labels
from truthful.charts.surprises import surprises
from truthful.deterrence import Deterrence
from truthful.formatting import money, number
from truthful.mechanism import Mechanism
from truthful.one_release import OneRelease
from truthful.plan import Plan
from truthful.planner import Goals
from truthful.planner.budget_frontier import FrontierPoint, Offer, budgets_around, frontier, rivals
from truthful.planner.number_planning import prior_error
from truthful.planner.panel import panel_of_design
from truthful.study import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


OURS, PAPER, PRIOR = (
    "truthful, at its best",
    "the paper's mechanism, at its best",
    "answering with the prior mean, asking nobody",
)
LONGEST_TITLE = 84

Curve = list[tuple[float, Offer]]
#: ε is written at every so many points of a curve.
EVERY = 3
ABOVE, BELOW = ((1, 1), (0, 1), (-1, 1)), ((-1, -1), (0, -1), (1, -1))
DASHES = (0, (5, 2))
#: The least ratio of the ends of an axis.
NARROWEST = 4.0
#: From here on cents are left out.
WHOLE = 100.0


@dataclass(frozen=True)
class Picture:
    """What the chart shows, errors in raw response units: budget, error and epsilon are the plan's own.

    error: None where none is guaranteed. prior: the error of the prior mean. lie: the largest that may pay.
    capped: whether our budgets are never exceeded; else they hold on average.
    """

    study: Study
    players: int
    accuracy_of: str
    points: tuple[FrontierPoint, ...]
    prior: float
    budget: float
    error: float | None
    epsilon: float
    lie: float
    capped: bool

    @property
    def ours(self) -> Curve:
        """Our best plans: budgets, and what each buys."""
        return [(point.budget, point.ours) for point in self.points if point.ours is not None]

    @property
    def paper(self) -> Curve:
        """The paper's mechanism."""
        return [(point.budget, point.paper) for point in self.points if point.paper is not None]


def picture(plan: Plan) -> Picture:
    """The plan among what other budgets would buy, for its own goals; if it has none, for its own lie size and cost."""
    study, promised, mechanism, solved = plan.study, plan.guarantees, plan.number_mechanism, plan.answer
    cost = promised.budget.cap or promised.budget.expected or 1.0
    if solved is not None:
        goals = solved.goals
        pairs = rivals((solved.best, *solved.others))
    else:
        goals = _goals(plan, mechanism, cost)
        peers = mechanism.peers if isinstance(mechanism, Mechanism) else mechanism.estimator
        pairs = [(mechanism.estimator, peers)]
    accuracy = promised.accuracy
    return Picture(
        study=study,
        players=plan.players,
        accuracy_of=goals.accuracy_of,
        points=frontier(study, goals, plan.players, budgets_around(cost), pairs),
        prior=study.response_unit * math.sqrt(prior_error(study, goals)),
        budget=cost,
        error=accuracy.rmse if goals.accuracy_of == "coefficients" else accuracy.prediction_rmse,
        epsilon=mechanism.epsilon,
        lie=study.response_unit * goals.lie_size(study),
        capped=goals.payments == "never-negative",
    )


def _goals(plan: Plan, mechanism: OneRelease | Mechanism, cost: float) -> Goals:
    """What would be asked for, where a plan's numbers were given: as much deterred, at the same cost."""
    panel = plan.panel
    if panel is None and mechanism.estimator == "instruments":
        # Raises, with what to do, where only the people themselves could tell.
        panel = panel_of_design(plan.study, plan.response_share)
    return Goals(
        players=plan.players,
        budget=cost,
        lie=_lie_without_clip(plan, mechanism),
        rule=mechanism.rule,
        payments=mechanism.payments,
        failure_probability=plan.failure_probability,
        peers="halves" if isinstance(mechanism, Mechanism) else mechanism.peers,
        panel=panel,
    )


def _lie_without_clip(plan: Plan, mechanism: OneRelease | Mechanism) -> float | None:
    """The lie that at c = R leaves as much undeterred of a typical person as the plan's does at its clip level."""
    promised, beliefs = plan.guarantees.truthfulness, plan.study.beliefs
    lie, length, noise = promised.lie, promised.typical_length, promised.typical_noise
    R = beliefs.radius
    if isinstance(mechanism, Mechanism) or lie is None or length is None or noise is None:
        return lie
    if not mechanism.clipped or not mechanism.clip < R:
        return lie
    person = Deterrence(beliefs, np.array([length]), np.array([length]))
    free = person.undeterred(lie, mechanism.clip, noise)
    if not free < person.undeterred(2 * R, R, noise):
        return lie * R / mechanism.clip
    from scipy.optimize import brentq  # takes long to load, and most charts need none

    return float(brentq(lambda size: person.undeterred(size, R, noise) - free, 0.0, 2 * R))


def describe(shown: Picture) -> str:
    """The chart in words."""
    currency = shown.study.currency
    said = [f"The guaranteed error of {shown.accuracy_of} against the budget, both on logarithmic scales."]
    if shown.error is not None:
        said.append(f"This plan guarantees {_bought(shown.budget, shown.error, shown.epsilon, currency)}.")
    for name, curve in ((OURS, shown.ours), (PAPER, shown.paper)):
        if curve:
            first, last = (
                _bought(budget, offer.error, offer.epsilon, currency)
                for budget, offer in (curve[0], curve[-1])
            )
            said.append(f"{_sentence(name)}: from {first} to {last}.")
    said.append(f"{_sentence(PRIOR)}: {number(shown.prior)}.")
    return " ".join(said)


def _bought(budget: float, error: float, epsilon: float, currency: str) -> str:
    return f"{number(error)} for {money(budget, currency)} at ε {epsilon:.2g}"


def _sentence(words: str) -> str:
    return words[0].upper() + words[1:]


def title(shown: Picture) -> str:
    """At the head of the chart."""
    return shorten(
        f"What money buys: {shown.study.name}, {shown.players:,} players", LONGEST_TITLE, placeholder=" …"
    )


def draw_plan(plan: Plan, path: str | Path) -> None:
    """Write the chart of a plan: its frontier, or what answers pay of yes and no, ratings, and with predictions."""
    if plan.asked_mechanism is not None:
        draw_chart(surprises(plan), path)
    elif plan.share_mechanism is not None:
        draw_chart(answers(plan), path)
    else:
        draw_frontier(plan, path)


def draw_frontier(plan: Plan, path: str | Path) -> None:
    """Write the chart of a plan's frontier to an SVG or PNG file."""
    path = Path(path)
    style.check_suffix(path)
    draw(picture(plan), path)


def draw(shown: Picture, path: Path) -> None:
    """Write the chart of a picture."""
    with style.canvas() as figure:
        _paint(figure, shown)
        style.write(figure, path, title(shown), describe(shown))


def _paint(figure: Figure, shown: Picture) -> None:
    """Lines first, so that labels keep off them; then the labels, those that matter most first."""
    axes = figure.add_axes((0.095, 0.105, 0.86, 0.73))
    _words(figure, axes, shown)
    _scales(axes, shown)
    labels = Labels(axes)
    axes.axhline(shown.prior, color=style.GREY, linewidth=1.2, linestyle=(0, (1, 2)))
    labels.avoid(axes.get_xlim(), (shown.prior, shown.prior))
    _line(axes, labels, shown.ours, style.BLUE, "-")
    _line(axes, labels, shown.paper, style.ORANGE, DASHES)
    _plan(axes, labels, shown)
    _prior(axes, labels, shown)
    _too_little(axes, labels, shown)
    _name(labels, shown.ours, OURS, style.BLUE, BELOW)
    _name(labels, shown.paper, PAPER, style.ORANGE, ABOVE)
    _epsilons(axes, labels, shown.ours, style.BLUE)
    _epsilons(axes, labels, shown.paper, style.ORANGE)


def _words(figure: Figure, axes: Axes, shown: Picture) -> None:
    response = shown.study.response.name
    figure.text(0.02, 0.955, title(shown), fontsize=style.TITLE, fontweight="bold", va="center")
    figure.text(
        0.02,
        0.907,
        f"No lie that moves a prediction by more than {number(shown.lie)} pays. "
        "ε is the privacy level, the smaller the safer.",
        color=style.GREY,
        va="center",
    )
    figure.text(0.02, 0.86, f"Guaranteed error of {shown.accuracy_of}, in units of “{response}”", va="center")
    axes.set_xlabel(f"Budget, {shown.study.currency}{_meaning(shown)}", labelpad=8)


def _meaning(shown: Picture) -> str:
    """What the budget bounds: the paper's payments can be negative, and their total has no bound."""
    ours = "never exceeded" if shown.capped else "on average"
    return f": {ours} (the paper's mechanism: on average)" if shown.paper and shown.capped else f": {ours}"


def _scales(axes: Axes, shown: Picture) -> None:
    """Both logarithmic, with room around all that is shown."""
    errors = [shown.prior, *(offer.error for _, offer in shown.ours + shown.paper)]
    if shown.error is not None:
        errors.append(shown.error)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(_widened([shown.budget, *(point.budget for point in shown.points)], 0.02))
    axes.set_ylim(_widened(errors, 0.09))
    for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        places = style.ticks(low, high)
        axis.set_ticks(places, [style.plain(place) for place in places])
        axis.set_ticks([], minor=True)
    axes.tick_params(length=0, pad=6)


def _widened(values: list[float], room: float) -> tuple[float, float]:
    """A range with some room on both sides, and never so narrow that a hair's breadth looks like a difference."""
    low, high = min(values), max(values)
    spread = math.log(high / low)
    factor = math.exp(max(room * spread, (math.log(NARROWEST) - spread) / 2))
    return low / factor, high * factor


def _line(axes: Axes, labels: Labels, curve: Curve, colour: str, dashes: Any) -> None:
    budgets, errors = [budget for budget, _ in curve], [offer.error for _, offer in curve]
    # One point alone has no line to show it.
    marker = "o" if len(curve) == 1 else ""
    axes.plot(budgets, errors, color=colour, linewidth=2.4, linestyle=dashes, marker=marker, markersize=4.5)
    labels.avoid(budgets, errors)


def _too_little(axes: Axes, labels: Labels, shown: Picture) -> None:
    """A shade over the budgets with which nothing deters lies."""
    without = [point.budget for point in shown.points if point.ours is None]
    if not without:
        return
    left, right = axes.get_xlim()
    end = math.sqrt(without[-1] * shown.ours[0][0]) if shown.ours else right
    axes.axvspan(left, end, color=style.FAINT, linewidth=0, alpha=0.6)
    low, high = axes.get_ylim()
    middle = math.sqrt(left * end)
    places = [(middle, low * (high / low) ** part) for part in (0.3, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8)]
    text = "too little money\nto make lies\nunprofitable"
    labels.put(text, places, around=((0, 0),), color=style.GREY, multialignment="center", bbox=None)


def _plan(axes: Axes, labels: Labels, shown: Picture) -> None:
    """The plan itself, and its numbers."""
    if shown.error is None:
        return
    place = (shown.budget, shown.error)
    axes.plot(
        *place, "o", color=style.INK, markersize=9, markeredgecolor="white", markeredgewidth=1.5, zorder=5
    )
    labels.avoid_marker(*place)
    text = (
        f"this plan: {money(shown.budget, shown.study.currency, 0 if shown.budget >= WHOLE else None)}\n"
        f"error {number(shown.error)} at ε {shown.epsilon:.2g}"
    )
    labels.put(text, [place], distance=9, around=(*ABOVE, *BELOW), fontweight="bold")


def _prior(axes: Axes, labels: Labels, shown: Picture) -> None:
    left, right = axes.get_xlim()
    places = [(left * (right / left) ** part, shown.prior) for part in (0.985, 0.8, 0.65, 0.5)]
    text = f"{PRIOR}: {number(shown.prior)}"
    for distance in (3, 24, 48):
        if labels.put(text, places, distance=distance, around=((-1, 1), (-1, -1)), color=style.GREY):
            return


def _name(labels: Labels, curve: Curve, name: str, colour: str, around: Sequence[tuple[int, int]]) -> None:
    """The name of a curve beside it, near its middle if there is room."""
    middle = (len(curve) - 1) / 2
    order = sorted(range(len(curve)), key=lambda at: abs(at - middle))
    places = [(curve[at][0], curve[at][1].error) for at in order]
    for side in (around, AROUND):
        if labels.put(name, places, around=side, color=colour, fontweight="bold"):
            return


def _epsilons(axes: Axes, labels: Labels, curve: Curve, colour: str) -> None:
    """ε at a few points of a curve, where there is room."""
    for budget, offer in curve[::EVERY]:
        place = (budget, offer.error)
        text = f"ε {offer.epsilon:.2g}"
        if labels.put(text, [place], color=colour, fontsize=style.SMALL):
            axes.plot(*place, "o", color=colour, markersize=4.5)
