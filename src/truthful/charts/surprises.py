"""What answers pay where people are asked what the others will say: more for high ones if answers come out higher."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from truthful.asked_release import SERUM, AskedRelease, score
from truthful.charts import style
from truthful.charts.style import Labels
from truthful.check import Floats
from truthful.errors import InputError
from truthful.formatting import money, number
from truthful.plan import Plan
from truthful.study import Study
from truthful.study.credibility import LevelBeliefs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POINTS = 201
#: The surprises that are drawn, of the largest that counts.
DRAWN = (-0.5, 0.0, 0.5)
#: How lines look, from the first to the last; grey ones lie between.
FIRST: dict[str, Any] = {"color": style.ORANGE, "linestyle": (0, (5, 2)), "linewidth": 2.4}
BETWEEN: dict[str, Any] = {"color": style.GREY, "linestyle": "-", "linewidth": 1.6}
LAST: dict[str, Any] = {"color": style.BLUE, "linestyle": "-", "linewidth": 2.4}
#: The room above all lines, as a part of what payments differ by.
ABOVE = 0.16


@dataclass(frozen=True, eq=False)
class Paid:
    """What is paid along the axis, under this name."""

    name: str
    payments: Floats


@dataclass(frozen=True, eq=False)
class Surprises:
    """What answers pay, predictions left out, of people with average features.

    Of numbers and ratings lines are for surprises, the lowest first, and `along` are answers; of yes and no lines are
    the answers, and `along` is by how many percentage points more say yes than was predicted. `mark` is where the
    others' average is, or where both answers pay the same.
    """

    lines: tuple[Paid, ...]
    along: Floats
    mark: float
    marked: str
    axis: str
    currency: str
    strict: bool

    @property
    def title(self) -> str:
        return "What yes and no pay" if self.strict else "What an answer pays"

    @property
    def height(self) -> float:
        return 3.5

    def payment(self, line: Paid, at: float) -> float:
        """What is paid at one place of the axis."""
        return float(np.interp(at, self.along, line.payments))

    def describe(self) -> str:
        """The chart in words."""
        ends = [float(end) for end in self.along[[0, -1]]]
        said = "; ".join(
            f"{line.name}: {money(self.payment(line, ends[0]), self.currency)} at {number(ends[0])}, "
            f"{money(self.payment(line, ends[1]), self.currency)} at {number(ends[1])}"
            for line in reversed(self.lines)
        )
        return f"Payments against {self.axis[0].lower()}{self.axis[1:]}. {said}. All pay the same at {self.marked}."

    def paint(self, figure: Figure) -> None:
        """The lines, and where they meet."""
        axes = figure.add_axes((0.145, 0.15, 0.8, 0.76))
        self._scales(axes)
        labels, styles = Labels(axes), self._styles()
        for line, looks in zip(self.lines, styles, strict=True):
            axes.plot(self.along, line.payments, **looks)
            labels.avoid(self.along.tolist(), line.payments.tolist())
        axes.plot([self.mark] * 2, axes.get_ylim(), color=style.GREY, linewidth=1.2, linestyle=(0, (1, 2)))
        labels.avoid([self.mark] * 2, axes.get_ylim())
        self._names_mark(axes, labels)
        for line, looks in zip(self.lines, styles, strict=True):
            self._name(labels, line, looks["color"])

    def _styles(self) -> list[dict[str, Any]]:
        return [FIRST, *([BETWEEN] * (len(self.lines) - 2)), LAST]

    def _scales(self, axes: Axes) -> None:
        payments = np.concatenate([line.payments for line in self.lines])
        least, most = float(payments.min()), float(payments.max())
        spread = (most - least) or max(most, 0.01)
        axes.set_xlim(float(self.along[0]), float(self.along[-1]))
        axes.set_ylim(least - 0.06 * spread, most + ABOVE * spread)
        axes.locator_params(nbins=6, axis="x")
        axes.xaxis.set_major_formatter(lambda value, place: f"{value:g}".replace("-", "−"))
        style.label(axes.yaxis, spread)
        axes.tick_params(length=0, pad=5)
        axes.set_xlabel(self.axis)
        axes.set_title(f"Payment, {self.currency}", loc="left", fontsize=style.TEXT, pad=8)

    def _names_mark(self, axes: Axes, labels: Labels) -> None:
        """Above all lines, at the side where there is more room."""
        (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
        side = 1 if self.mark <= (left + right) / 2 else -1
        middle = high - (high - low) * ABOVE / 2 / (1 + ABOVE)
        labels.put(self.marked, [(self.mark, middle)], around=((side, 0),), bbox=None)

    def _name(self, labels: Labels, line: Paid, colour: str) -> None:
        """Beside its line, near an end."""
        n = len(self.along)
        near = [int(at * (n - 1)) for at in (0.9, 0.8, 0.7, 0.1, 0.2, 0.3, 0.95, 0.05, 0.6, 0.4)]
        places = [(float(self.along[at]), float(line.payments[at])) for at in near]
        for around in (((-1, 1), (1, 1)), ((0, 1), (0, -1), (1, -1), (-1, -1))):
            if labels.put(line.name, places, around=around, color=colour, fontweight="bold"):
                return


def surprises(plan: Plan, average: float | None = None) -> Surprises:
    """What a plan's answers pay where the others' average is this one; else in the middle of what can be."""
    mechanism, beliefs = plan.asked_mechanism, plan.study.levels
    if mechanism is None or beliefs is None:
        raise InputError("Surprises are paid for where people are asked what the others will say.")
    if mechanism.rule == SERUM:
        return _of_answers(plan.study, mechanism)
    low, high = plan.study.prediction_range
    unit = (high - low) / 2
    p = (beliefs.low + beliefs.high) / 2 if average is None else (average - low) / unit - 1
    return _of_surprises(plan.study, mechanism, beliefs, min(max(p, -1.0), 1.0))


def _of_answers(study: Study, mechanism: AskedRelease) -> Surprises:
    """Yes and no, against the surprise in percentage points."""
    surprise = np.linspace(-mechanism.clip, mechanism.clip, POINTS)
    nothing = np.zeros(POINTS)
    return Surprises(
        tuple(
            Paid(
                name, _paid(mechanism, score(SERUM, nothing, np.array(y), nothing, surprise, mechanism.clip))
            )
            for name, y in (("no", -1.0), ("yes", 1.0))
        ),
        50 * surprise,
        0.0,
        "as predicted",
        "How many of 100 say yes beyond what was predicted",
        study.currency,
        strict=True,
    )


def _of_surprises(study: Study, mechanism: AskedRelease, beliefs: LevelBeliefs, p: float) -> Surprises:
    """A few surprises, against the answer."""
    c = np.eye(1, beliefs.dimension) / beliefs.scale
    s, y = np.full(POINTS, float(beliefs.slopes(c, c[0])[0])), np.linspace(-1, 1, POINTS)
    low, high = study.prediction_range
    unit = (high - low) / 2
    average = low + unit * (p + 1)
    lines = tuple(
        Paid(
            surprised(part * mechanism.clip * unit),
            _paid(
                mechanism,
                score(
                    mechanism.rule, s, y, np.full(POINTS, p), np.array(part * mechanism.clip), mechanism.clip
                ),
            ),
        )
        for part in DRAWN
    )
    return Surprises(
        lines,
        low + unit * (y + 1),
        average,
        f"the others' average, {number(average)}",
        f"Answer, “{style.fitted(study.response.name, 30)}”",
        study.currency,
        strict=False,
    )


def surprised(by: float) -> str:
    """How much higher or lower answers are than people expected."""
    if by == 0:
        return "as expected"
    return f"{number(abs(by), 2)} {'higher' if by > 0 else 'lower'}"


def _paid(mechanism: AskedRelease, scores: Floats) -> Floats:
    return np.asarray(mechanism.base_payment + mechanism.score_weight * scores)
