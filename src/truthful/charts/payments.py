"""What is paid: to all, for a lie, and for each answer where the others say what they say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from truthful.charts import style
from truthful.charts.style import Labels, across, bars
from truthful.check import Floats
from truthful.errors import InputError
from truthful.formatting import money, number, to_within
from truthful.plan import Plan

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: The shares of people of whom the table tells what they get at most.
SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)


@dataclass(frozen=True, eq=False)
class Payments:
    """Payments in currency, of however many people; what they are of is for the title to say."""

    payments: Floats
    currency: str
    title: str

    @cached_property
    def quantiles(self) -> Sequence[tuple[float, float]]:
        """(share of people, what they get at most)."""
        return list(zip(SHARES, np.quantile(self.payments, SHARES).tolist(), strict=True))

    @property
    def height(self) -> float:
        return 3.2

    def describe(self) -> str:
        """The chart in words."""
        said = (f"{share:.0%} get {money(paid, self.currency)} or less" for share, paid in self.quantiles)
        return f"A histogram: {', '.join(said)}."

    def paint(self, figure: Figure) -> None:
        """Bars of the share of people, and the median."""
        axes = figure.add_axes((0.13, 0.165, 0.84, 0.72))
        ends, median = bars(axes, self.payments), dict(self.quantiles)[0.5]
        across(axes, median, f"half get {money(median, self.currency)} or less", ends)
        axes.set_xlabel(f"Payment, {self.currency}")
        axes.set_title("Share of people", loc="left", fontsize=style.TEXT, pad=8)


#: Where the words at D may stand, as shares of the height: the lowest where they are off the curve.
HEIGHTS = tuple(at / 50 for at in range(4, 46))


@dataclass(frozen=True)
class Lie:
    """A lie in raw units: how far the answer is off, how far that moves the own prediction, what is paid on average."""

    size: float
    moved: float
    payment: float


@dataclass(frozen=True)
class Lies:
    """Lies of one person from the truth (of size 0) on, the larger the later, and the size from which none pays.

    D: in units of predictions; None if no size is promised. threshold: the same in answers, as the guarantees have it;
    None if no lie of hers is so large, or if one of that size does not move her own prediction so far.
    """

    curve: tuple[Lie, ...]
    D: float | None
    threshold: float | None
    currency: str

    @property
    def truth(self) -> float:
        """What the truth earns."""
        return self.curve[0].payment

    def at(self, size: float) -> Lie:
        """A lie of this size, between two of the curve."""
        sizes = [lie.size for lie in self.curve]
        moved, payment = (
            float(np.interp(size, sizes, values))
            for values in ([lie.moved for lie in self.curve], [lie.payment for lie in self.curve])
        )
        return Lie(size, moved, payment)

    def may_pay(self, lie: Lie) -> bool:
        """Whether nothing is promised of this lie: of a size below the threshold or, where there is none, below D."""
        if self.threshold is not None:
            return not lie.size > self.threshold
        return self.D is None or not lie.moved > self.D

    @property
    def title(self) -> str:
        return "What a lie would have earned"

    @property
    def height(self) -> float:
        return 3.5

    def describe(self) -> str:
        """The chart in words."""
        worst = self.curve[-1]
        said = (
            f"The truth earns {money(self.truth, self.currency)} on average; an answer that is off by "
            f"{number(worst.size)} earns {money(worst.payment, self.currency)}, and the curve falls in between."
        )
        if self.threshold is None:
            return said
        return f"{said} From {number(self.threshold)} on, marked D, no lie pays."

    def paint(self, figure: Figure) -> None:
        """The curve, the truth's payment as a level, and a shade over the lies that are too small to be promised."""
        axes = figure.add_axes((0.165, 0.15, 0.8, 0.76))
        sizes, payments = [lie.size for lie in self.curve], [lie.payment for lie in self.curve]
        least, room = min(payments), (self.truth - min(payments)) or max(abs(self.truth), 1e-6)
        axes.set_xlim(0, sizes[-1])
        axes.set_ylim(least - 0.08 * room, self.truth + 0.22 * room)
        axes.axhline(self.truth, color=style.GREY, linewidth=1.2, linestyle=(0, (1, 2)))
        axes.plot(sizes, payments, color=style.BLUE, linewidth=2.4)
        axes.annotate(
            f"the truth earns {money(self.truth, self.currency)}",
            (0, self.truth),
            xytext=(5, 5),
            textcoords="offset points",
        )
        if self.threshold is not None:
            self._mark(axes, self.threshold)
        axes.locator_params(nbins=5)
        style.label(axes.xaxis, sizes[-1])
        style.label(axes.yaxis, room)
        axes.tick_params(length=0, pad=5)
        axes.set_xlabel("How far the answer is from the truth")
        axes.set_title(f"Expected payment, {self.currency}", loc="left", fontsize=style.TEXT, pad=8)

    def _mark(self, axes: Axes, threshold: float) -> None:
        axes.axvspan(0, threshold, color=style.FAINT, linewidth=0, alpha=0.6)
        axes.axvline(threshold, color=style.ORANGE, linewidth=2)
        labels = Labels(axes)
        labels.avoid([lie.size for lie in self.curve], [lie.payment for lie in self.curve])
        labels.avoid((0, self.curve[-1].size), (self.truth, self.truth))
        low, high = axes.get_ylim()
        places = [(threshold, low + at * (high - low)) for at in HEIGHTS]
        sides = ((1, 0), (-1, 0)) if threshold <= self.curve[-1].size / 2 else ((-1, 0), (1, 0))
        for words in ("D: no larger lie pays", "D: no lie\nlarger pays"):
            if labels.put(words, places, around=sides, fontweight="bold", bbox=None):
                return
        # Nowhere beside the line is there room for words.
        labels.put("D", places, around=sides, fontweight="bold", bbox=None)


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
            axes.plot(self.others, paid.payments, color=style.GREY, linewidth=1.2)
        for paid, colour, dashes in (
            (self.paid[0], style.ORANGE, (0, (5, 2))),
            (self.paid[-1], style.BLUE, "-"),
        ):
            axes.plot(self.others, paid.payments, color=colour, linewidth=2.4, linestyle=dashes)
        for paid in self.paid:
            labels.avoid(self.others.tolist(), paid.payments.tolist())
        place = (self.switch, self.payment(self.paid[0], self.switch))
        axes.plot([self.switch] * 2, axes.get_ylim(), color=style.GREY, linewidth=1.2, linestyle=(0, (1, 2)))
        axes.plot(*place, "o", color=style.INK, markersize=6)
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
        style.label(axes.yaxis, spread)
        axes.tick_params(length=0, pad=5)
        axes.set_xlabel("The others' mean rating" if self.rating else "Share of the others who say yes")
        axes.set_title(f"Payment, {self.currency}", loc="left", fontsize=style.TEXT, pad=8)

    def _implausible(self, axes: Axes, labels: Labels) -> None:
        """A shade where the others' share is beyond all that was thought possible."""
        left, right = axes.get_xlim()
        for start, end in ((left, float(self.others[0])), (float(self.others[-1]), right)):
            if end > start:
                axes.axvspan(start, end, color=style.FAINT, linewidth=0, alpha=0.6)
                axes.plot([start, end], [self.middle] * 2, color=style.GREY, linewidth=2.4)
                labels.avoid([start, end], [self.middle] * 2)
        if left < self.others[0] or right > self.others[-1]:
            axes.set_title(
                "grey: implausible, all get the same",
                loc="right",
                color=style.GREY,
                fontsize=style.SMALL,
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
        for paid, colour in ((self.paid[-1], style.BLUE), (self.paid[0], style.ORANGE)):
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
                color=style.GREY,
                fontsize=style.SMALL,
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
