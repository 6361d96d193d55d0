"""What each answer pays against what the others say: lines that cross at the switch point."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from truthful.charts import house
from truthful.charts.labels import Labels
from truthful.check import Floats
from truthful.errors import InputError
from truthful.formatting import money, number, to_within
from truthful.plan import Plan

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

POINTS = 201
#: How much is shown beyond the shares that count, as a part of the scale.
BEYOND = 0.06
#: The room above all lines, where the switch point is named, as a part of what payments differ by.
ABOVE = 0.16


@dataclass(frozen=True, eq=False)
class Paid:
    """What one answer pays at each share of the others."""

    answer: str
    payments: Floats


@dataclass(frozen=True, eq=False)
class Answers:
    """Of people with average features: what all answers pay, the lowest first, and where it does not matter.

    others: the share of yes, or the mean rating, of the others. switch: where the lowest and the highest answer pay the
    same. Beyond the ends of `others` they would be implausible, and everybody is paid `middle`, or there are none.
    """

    paid: tuple[Paid, ...]
    others: Floats
    scale: tuple[float, float]
    switch: float
    middle: float
    currency: str
    rating: bool
    average: bool

    @property
    def title(self) -> str:
        return "What each rating pays" if self.rating else "What yes and no pay"

    @property
    def height(self) -> float:
        return 3.5

    def told(self, value: float) -> str:
        """A share in percent, a rating as it is."""
        return number(value) if self.rating else f"{to_within(100 * value, 2)}%"

    def payment(self, paid: Paid, value: float) -> float:
        """What an answer pays where the others' share is this one."""
        if not self.others[0] <= value <= self.others[-1]:
            return self.middle
        return float(np.interp(value, self.others, paid.payments))

    def describe(self) -> str:
        """The chart in words."""
        lowest, highest = self.paid[0], self.paid[-1]
        ends = [float(end) for end in self.others[[0, -1]]]
        what = "the others' mean rating" if self.rating else "the share of the others who say yes"
        first, last = (
            " and ".join(
                f"{paid.answer} pays {money(self.payment(paid, end), self.currency)}"
                for paid in (highest, lowest)
            )
            for end in ends
        )
        return (
            f"Payments against {what}: two lines that cross at the switch point, {self.told(self.switch)}, where "
            f"{highest.answer} and {lowest.answer} pay the same. At {self.told(ends[0])} {first}; at "
            f"{self.told(ends[1])} {last}."
        )

    def paint(self, figure: Figure) -> None:
        """The lines, the switch point where they cross, and what is paid where shares are implausible."""
        axes = figure.add_axes((0.145, 0.15, 0.8, 0.76))
        self._scales(axes)
        labels = Labels(axes)
        self._implausible(axes, labels)
        for paid in self.paid[1:-1]:
            axes.plot(self.others, paid.payments, color=house.GREY, linewidth=1.2)
        for paid, colour, dashes in (
            (self.paid[0], house.ORANGE, (0, (5, 2))),
            (self.paid[-1], house.BLUE, "-"),
        ):
            axes.plot(self.others, paid.payments, color=colour, linewidth=2.4, linestyle=dashes)
        for paid in self.paid:
            labels.avoid(self.others.tolist(), paid.payments.tolist())
        place = (self.switch, self.payment(self.paid[0], self.switch))
        axes.plot([self.switch] * 2, axes.get_ylim(), color=house.GREY, linewidth=1.2, linestyle=(0, (1, 2)))
        axes.plot(*place, "o", color=house.INK, markersize=6)
        labels.avoid([self.switch] * 2, axes.get_ylim())
        labels.avoid_marker(*place)
        self._names_switch(axes, labels)
        self._names(labels)

    def _scales(self, axes: Axes) -> None:
        low, high = self.scale
        room = BEYOND * (high - low)
        left, right = max(low, self.others[0] - room), min(high, self.others[-1] + room)
        axes.set_xlim(left, right)
        payments = np.concatenate([paid.payments for paid in self.paid])
        least, most = float(payments.min()), float(payments.max())
        spread = (most - least) or max(most, 0.01)
        axes.set_ylim(least - 0.06 * spread, most + ABOVE * spread)
        axes.locator_params(nbins=6, integer=self.rating, axis="x")
        if self.rating:
            axes.xaxis.set_major_formatter(lambda value, place: f"{value:g}")
        else:
            axes.xaxis.set_major_formatter(lambda value, place: f"{100 * value:.3g}%")
        house.label(axes.yaxis, spread)
        axes.tick_params(length=0, pad=5)
        axes.set_xlabel("The others' mean rating" if self.rating else "Share of the others who say yes")
        axes.set_title(f"Payment, {self.currency}", loc="left", fontsize=house.TEXT, pad=8)

    def _implausible(self, axes: Axes, labels: Labels) -> None:
        """A shade where the others' share is beyond all that was thought possible."""
        left, right = axes.get_xlim()
        for start, end in ((left, float(self.others[0])), (float(self.others[-1]), right)):
            if end > start:
                axes.axvspan(start, end, color=house.FAINT, linewidth=0, alpha=0.6)
                axes.plot([start, end], [self.middle] * 2, color=house.GREY, linewidth=2.4)
                labels.avoid([start, end], [self.middle] * 2)
        if left < self.others[0] or right > self.others[-1]:
            axes.set_title(
                "grey: implausible, all get the same",
                loc="right",
                color=house.GREY,
                fontsize=house.SMALL,
                pad=8,
            )

    def _names_switch(self, axes: Axes, labels: Labels) -> None:
        """Above all lines, at the side where there is more room."""
        (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
        side = 1 if self.switch <= (left + right) / 2 else -1
        middle = high - (high - low) * ABOVE / 2 / (1 + ABOVE)
        labels.put(
            f"switch point {self.told(self.switch)}", [(self.switch, middle)], around=((side, 0),), bbox=None
        )

    def _names(self, labels: Labels) -> None:
        """Each line's beside it, near an end."""
        n = len(self.others)
        near = [int(at * (n - 1)) for at in (0.9, 0.85, 0.8, 0.95, 0.75, 0.1, 0.15, 0.2, 0.25)]
        for paid, colour in ((self.paid[-1], house.BLUE), (self.paid[0], house.ORANGE)):
            places = [(float(self.others[at]), float(paid.payments[at])) for at in near]
            labels.put(
                paid.answer,
                places,
                around=((-1, 1), (1, -1), (1, 1), (-1, -1)),
                color=colour,
                fontweight="bold",
            )
        for paid in self.paid[1:-1]:
            places = [(float(self.others[at]), float(paid.payments[at])) for at in near[:4] + near[-4:]]
            labels.put(
                paid.answer,
                places,
                distance=4,
                around=((0, 1), (0, -1)),
                color=house.GREY,
                fontsize=house.SMALL,
            )


def answers(plan: Plan) -> Answers:
    """What a plan's answers pay."""
    mechanism, study = plan.share_mechanism, plan.study
    beliefs = study.shares
    if mechanism is None or beliefs is None:
        raise InputError(
            "What each answer pays is drawn for yes and no, and for ratings; these answers are numbers."
        )
    x = np.eye(1, study.dimension) / beliefs.scale
    expected = beliefs.expects(x)
    low, high = (float(end[0]) for end in (expected.low, expected.high))
    shares = np.linspace(max(0.0, low - mechanism.tolerance), min(1.0, high + mechanism.tolerance), POINTS)
    X, K = np.repeat(x, POINTS, axis=0), beliefs.levels
    names = ["no", "yes"] if study.kind == "yes-no" else [f"rating {k}" for k in range(1, K + 1)]
    paid = tuple(
        Paid(name, mechanism.steps(beliefs, X, np.full(POINTS, 2 * k / (K - 1) - 1), shares)[2])
        for k, name in enumerate(names)
    )
    least, width = study.response.low, study.response.high - study.response.low
    return Answers(
        paid,
        least + width * shares,
        (study.response.low, study.response.high),
        least + width * float(expected.switch[0]),
        mechanism.flat + mechanism.bonus / 2,
        study.currency,
        study.kind == "rating",
        bool(study.features),
    )
