"""The frontier of a plan as a chart: the guaranteed error at each budget, and the plan itself."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from truthful.charts import drawing
from truthful.charts.drawing import AROUND, BLUE, GREY, INK, Labels, draw_chart
from truthful.charts.payment_charts import chart_answers, chart_surprises
from truthful.deterrence import Deterrence
from truthful.formatting import money, number
from truthful.one_release import OneRelease
from truthful.plan import Plan
from truthful.planner import Goals
from truthful.planner.number_planning import FrontierPoint, Purchase, budgets_around, frontier
from truthful.planner.panel import panel_of_design
from truthful.study import Study

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


BEST, PRIOR = "the best plan", "answering with the prior mean, asking nobody"

Curve = list[tuple[float, Purchase]]
#: ε is written at every so many points of a curve.
EVERY = 3
ABOVE, BELOW = ((1, 1), (0, 1), (-1, 1)), ((-1, -1), (0, -1), (1, -1))
#: The least ratio of the ends of an axis.
NARROWEST = 4.0
#: From here on cents are left out.
WHOLE = 100.0


def draw_plan(plan: Plan, path: str | Path) -> None:
    """Write the chart of a plan: its frontier or, for yes and no, ratings and predictions, what answers pay."""
    if plan.asked_mechanism is not None:
        draw_chart(chart_surprises(plan), path)
    elif plan.share_mechanism is not None:
        draw_chart(chart_answers(plan), path)
    else:
        draw_frontier(plan, path)


def draw_frontier(plan: Plan, path: str | Path) -> None:
    """Write the chart of a plan's frontier to an SVG or PNG file."""
    drawing.check_suffix(path)
    draw_chart(chart_frontier(plan), path, drawing.WIDTH)


def chart_frontier(plan: Plan) -> Frontier:
    """The plan next to what other budgets would buy, for its goals; if it has none, for its lie size and cost."""
    study, promised, mechanism, solved = plan.study, plan.guarantees, plan.number_mechanism, plan.solution
    cost = promised.budget.cap or promised.budget.expected or 1.0
    goals = solved.goals if solved is not None else _goals(plan, mechanism, cost)
    accuracy = promised.accuracy
    return Frontier(
        study=study,
        players=plan.players,
        accuracy_of=goals.accuracy_of,
        points=frontier(study, goals, plan.players, budgets_around(cost)),
        prior=study.response_unit * math.sqrt(goals.prior_error(study)),
        budget=cost,
        error=accuracy.rmse if goals.accuracy_of == "coefficients" else accuracy.prediction_rmse,
        epsilon=mechanism.epsilon,
        lie=study.response_unit * goals.lie_size(study),
        capped=goals.payments == "never-negative",
    )


def _goals(plan: Plan, mechanism: OneRelease, cost: float) -> Goals:
    """The goals that a plan with given numbers would meet: as much deterred, at the same cost."""
    panel = plan.panel
    if panel is None and mechanism.estimator == "instruments":
        # Raises, with what to do, where only the people themselves could tell.
        panel = panel_of_design(plan.study, plan.response_share)
    return Goals(
        players=plan.players,
        budget=cost,
        lie=_lie_without_clip(plan, mechanism),
        estimator=mechanism.estimator,
        rule=mechanism.rule,
        payments=mechanism.payments,
        failure_probability=plan.failure_probability,
        panel=panel,
    )


def _lie_without_clip(plan: Plan, mechanism: OneRelease) -> float | None:
    """The lie that leaves a typical person as much undeterred at c = R as the plan's lie at its clip level."""
    promised, beliefs = plan.guarantees.truthfulness, plan.study.beliefs
    lie, length, noise = promised.lie, promised.typical_length, promised.typical_noise
    R = beliefs.radius
    if lie is None or length is None or noise is None:
        return lie
    if not mechanism.clipped or not mechanism.clip < R:
        return lie
    person = Deterrence(beliefs, np.array([length]), np.array([length]))
    free = person.undeterred_share(lie, mechanism.clip, noise)
    if not free < person.undeterred_share(2 * R, R, noise):
        return lie * R / mechanism.clip
    from scipy.optimize import brentq  # takes long to load, and most charts need none

    return float(brentq(lambda size: person.undeterred_share(size, R, noise) - free, 0.0, 2 * R))


@dataclass(frozen=True)
class Frontier:
    """The frontier, errors in raw response units: budget, error and epsilon are the plan's own.

    error: None where none is guaranteed. prior: the error of the prior mean. lie: the largest that may pay.
    capped: whether budgets are never exceeded; else they hold on average.
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

    height = drawing.HEIGHT

    @property
    def curve(self) -> Curve:
        """The best plans: budgets, and the error that each buys."""
        return [(point.budget, point.best) for point in self.points if point.best is not None]

    @property
    def title(self) -> str:
        return drawing.shorten(f"What money buys: {self.study.name}, {self.players:,} players", 84)

    def describe(self) -> str:
        """The chart in words."""
        said = [f"The guaranteed error of {self.accuracy_of} against the budget, both on logarithmic scales."]
        if self.error is not None:
            said.append(
                f"This plan guarantees {self._describe_purchase(self.budget, self.error, self.epsilon)}."
            )
        if self.curve:
            first, last = (
                self._describe_purchase(budget, offer.error, offer.epsilon)
                for budget, offer in (self.curve[0], self.curve[-1])
            )
            said.append(f"{BEST[0].upper()}{BEST[1:]}: from {first} to {last}.")
        return " ".join([*said, f"{PRIOR[0].upper()}{PRIOR[1:]}: {number(self.prior)}."])

    def _describe_purchase(self, budget: float, error: float, epsilon: float) -> str:
        return f"{number(error)} for {money(budget, self.study.currency)} at ε {epsilon:.2g}"

    def paint(self, figure: Figure) -> None:
        """Lines first, so that labels avoid them; then the labels, the most important first."""
        axes = figure.add_axes((0.095, 0.105, 0.86, 0.73))
        self._write_head(figure, axes)
        self._scale(axes)
        labels = Labels(axes)
        axes.axhline(self.prior, color=GREY, linewidth=1.2, linestyle=drawing.DOTTED)
        labels.avoid(axes.get_xlim(), (self.prior, self.prior))
        budgets, errors = [budget for budget, _ in self.curve], [offer.error for _, offer in self.curve]
        # One point alone has no line to show it.
        marker = "o" if len(budgets) == 1 else ""
        axes.plot(budgets, errors, color=BLUE, linewidth=2.4, marker=marker, markersize=4.5)
        labels.avoid(budgets, errors)
        self._mark_plan(axes, labels)
        self._name_prior(axes, labels)
        self._shade_too_little(axes, labels)
        _name_curve(labels, self.curve)
        _write_epsilons(axes, labels, self.curve)

    def _write_head(self, figure: Figure, axes: Axes) -> None:
        figure.text(0.02, 0.955, self.title, fontsize=drawing.TITLE, fontweight="bold", va="center")
        lies = f"No lie that moves a prediction by more than {number(self.lie)} pays. "
        privacy = "ε is the privacy level, the smaller the safer."
        figure.text(0.02, 0.907, lies + privacy, color=GREY, va="center")
        error = f"Guaranteed error of {self.accuracy_of}, in units of “{self.study.response.name}”"
        figure.text(0.02, 0.86, error, va="center")
        held = "never exceeded" if self.capped else "on average"
        axes.set_xlabel(f"Budget, {self.study.currency}: {held}", labelpad=8)

    def _scale(self, axes: Axes) -> None:
        """Two logarithmic axes, with room around everything."""
        errors = [self.prior, *(offer.error for _, offer in self.curve)]
        if self.error is not None:
            errors.append(self.error)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(_widen([self.budget, *(point.budget for point in self.points)], 0.02))
        axes.set_ylim(_widen(errors, 0.09))
        drawing.label_logarithms(axes)
        axes.tick_params(pad=6)

    def _shade_too_little(self, axes: Axes, labels: Labels) -> None:
        """Shade the budgets with which nothing deters lies."""
        without = [point.budget for point in self.points if point.best is None]
        if not without:
            return
        left, right = axes.get_xlim()
        end = math.sqrt(without[-1] * self.curve[0][0]) if self.curve else right
        axes.axvspan(left, end, **drawing.SHADE)
        low, high = axes.get_ylim()
        middle = math.sqrt(left * end)
        places = [(middle, low * (high / low) ** part) for part in (0.3, 0.2, 0.4, 0.5, 0.6, 0.7, 0.8)]
        text = "too little money\nto make lies\nunprofitable"
        labels.put(text, places, around=((0, 0),), color=GREY, multialignment="center", bbox=None)

    def _mark_plan(self, axes: Axes, labels: Labels) -> None:
        """Mark the plan itself, with its numbers."""
        if self.error is None:
            return
        place = (self.budget, self.error)
        looks: Any = {"markersize": 9, "markeredgecolor": "white", "markeredgewidth": 1.5, "zorder": 5}
        axes.plot(*place, "o", color=INK, **looks)
        labels.avoid_marker(*place)
        text = (
            f"this plan: {money(self.budget, self.study.currency, 0 if self.budget >= WHOLE else None)}\n"
            f"error {number(self.error)} at ε {self.epsilon:.2g}"
        )
        labels.put(text, [place], distance=9, around=(*ABOVE, *BELOW), fontweight="bold")

    def _name_prior(self, axes: Axes, labels: Labels) -> None:
        left, right = axes.get_xlim()
        places = [(left * (right / left) ** part, self.prior) for part in (0.985, 0.8, 0.65, 0.5)]
        text = f"{PRIOR}: {number(self.prior)}"
        for distance in (3, 24, 48):
            if labels.put(text, places, distance=distance, around=((-1, 1), (-1, -1)), color=GREY):
                return


def _widen(values: list[float], room: float) -> tuple[float, float]:
    """A range with some room on both sides, and wide enough that tiny differences look tiny."""
    low, high = min(values), max(values)
    spread = math.log(high / low)
    factor = math.exp(max(room * spread, (math.log(NARROWEST) - spread) / 2))
    return low / factor, high * factor


def _name_curve(labels: Labels, curve: Curve) -> None:
    """Name a curve, near its middle if there is room."""
    middle = (len(curve) - 1) / 2
    order = sorted(range(len(curve)), key=lambda at: abs(at - middle))
    places = [(curve[at][0], curve[at][1].error) for at in order]
    for side in (BELOW, AROUND):
        if labels.put(BEST, places, around=side, color=BLUE, fontweight="bold"):
            return


def _write_epsilons(axes: Axes, labels: Labels, curve: Curve) -> None:
    """Write ε at a few points of a curve, where there is room."""
    for budget, offer in curve[::EVERY]:
        place = (budget, offer.error)
        if labels.put(f"ε {offer.epsilon:.2g}", [place], color=BLUE, fontsize=drawing.SMALL):
            axes.plot(*place, "o", color=BLUE, markersize=4.5)
