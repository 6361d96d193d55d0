"""Charts of payments: to everybody, for lies, and for each answer by what the others say or by the surprise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from truthful.asked_release import SERUM, AskedRelease, score
from truthful.charts import drawing
from truthful.charts.drawing import BLUE, GREY, INK, ORANGE, Labels
from truthful.check import Floats
from truthful.errors import InputError
from truthful.formatting import money, number, to_within
from truthful.plan import Plan
from truthful.study import Study
from truthful.study.credibility import LevelBeliefs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: The shares of people of whom the table tells what they get at most.
SHARES = (0.05, 0.25, 0.5, 0.75, 0.95)
#: Where the words at D may stand, as shares of the height: the lowest where they are off the curve.
HEIGHTS = tuple(at / 50 for at in range(4, 46))
POINTS = 201
#: How much is shown beyond the shares that count, as a part of the scale.
BEYOND = 0.06
#: The room above all lines, where their mark is named, as a part of what payments differ by.
ABOVE = 0.16
#: The surprises that are drawn, of the largest that counts.
DRAWN = (-0.5, 0.0, 0.5)
#: Where a line's name may stand, as parts of its length, and beside it.
NEAR = (0.9, 0.85, 0.8, 0.95, 0.75, 0.1, 0.15, 0.2, 0.25)
CORNERS = ((-1, 1), (1, -1), (1, 1), (-1, -1))
#: How the line of the lowest answer or surprise looks, and of the highest; grey ones lie between.
LOWEST: dict[str, Any] = {"color": ORANGE, "linestyle": drawing.DASHED, "linewidth": 2.4}
HIGHEST: dict[str, Any] = {"color": BLUE, "linestyle": "-", "linewidth": 2.4}


@dataclass(frozen=True, eq=False)
class PaymentsChart:
    """Payments in currency, of any number of people; the title says whose."""

    payments: Floats
    currency: str
    title: str

    height = 3.2

    @cached_property
    def quantiles(self) -> Sequence[tuple[float, float]]:
        """(share of people, the most they get)."""
        return list(zip(SHARES, np.quantile(self.payments, SHARES).tolist(), strict=True))

    @property
    def rows(self) -> list[tuple[str, str]]:
        """The same for a table."""
        width = float(np.ptp(self.payments))
        return [
            (f"{share:.0%}", f"{to_within(paid, width)} {self.currency}") for share, paid in self.quantiles
        ]

    def describe(self) -> str:
        """The chart in words."""
        said = (f"{share:.0%} get {money(paid, self.currency)} or less" for share, paid in self.quantiles)
        return f"A histogram: {', '.join(said)}."

    def paint(self, figure: Figure) -> None:
        """Bars of the share of people, and the median."""
        median = dict(self.quantiles)[0.5]
        mark = (median, f"half get {money(median, self.currency)} or less", {"color": ORANGE})
        drawing.draw_histogram(figure, self.payments, [mark], f"Payment, {self.currency}", "people")


@dataclass(frozen=True)
class LieRow:
    """A lie in raw units: how far the answer is off, how far it moves the own prediction, its average payment."""

    size: float
    moved: float
    payment: float


@dataclass(frozen=True)
class Lies:
    """Lies of one person by size, the truth (size 0) first, and the size from which none pays.

    D: in units of predictions; None if no size is promised. threshold: the same in answers; None if none of her lies
    is that large.
    """

    curve: tuple[LieRow, ...]
    D: float | None
    threshold: float | None
    currency: str

    title = "What a lie would have earned"
    height = 3.5

    @property
    def truth(self) -> float:
        """The payment for the truth."""
        return self.curve[0].payment

    def at(self, size: float) -> LieRow:
        """A lie of this size, interpolated on the curve."""
        sizes = [lie.size for lie in self.curve]
        moved, payment = (
            float(np.interp(size, sizes, values))
            for values in ([lie.moved for lie in self.curve], [lie.payment for lie in self.curve])
        )
        return LieRow(size, moved, payment)

    def may_pay(self, lie: LieRow) -> bool:
        """Whether this lie may pay: it is below the threshold or, where there is none, below D."""
        if self.threshold is not None:
            return not lie.size > self.threshold
        return self.D is None or not lie.moved > self.D

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
        """The curve, the truth's payment as a level, and a shade over the lies that are too small to be deterred."""
        axes = figure.add_axes((0.165, 0.15, 0.8, 0.76))
        sizes, payments = [lie.size for lie in self.curve], [lie.payment for lie in self.curve]
        least, room = min(payments), (self.truth - min(payments)) or max(abs(self.truth), 1e-6)
        axes.set_xlim(0, sizes[-1])
        axes.set_ylim(least - 0.08 * room, self.truth + 0.22 * room)
        axes.axhline(self.truth, color=GREY, linewidth=1.2, linestyle=drawing.DOTTED)
        axes.plot(sizes, payments, color=BLUE, linewidth=2.4)
        words = f"the truth earns {money(self.truth, self.currency)}"
        axes.annotate(words, (0, self.truth), xytext=(5, 5), textcoords="offset points")
        if self.threshold is not None:
            self._mark(axes, self.threshold)
        axes.locator_params(nbins=5)
        drawing.label_ticks(axes.xaxis, sizes[-1])
        drawing.label_ticks(axes.yaxis, room)
        axes.set_xlabel("How far the answer is from the truth")
        axes.set_title(f"Expected payment, {self.currency}")

    def _mark(self, axes: Axes, threshold: float) -> None:
        axes.axvspan(0, threshold, **drawing.SHADE)
        axes.axvline(threshold, color=ORANGE, linewidth=2)
        labels = Labels(axes)
        labels.avoid([lie.size for lie in self.curve], [lie.payment for lie in self.curve])
        labels.avoid((0, self.curve[-1].size), (self.truth, self.truth))
        low, high = axes.get_ylim()
        places = [(threshold, low + at * (high - low)) for at in HEIGHTS]
        sides = ((1, 0), (-1, 0)) if threshold <= self.curve[-1].size / 2 else ((-1, 0), (1, 0))
        # The shorter, the less room there is beside the line.
        for words in ("D: no larger lie pays", "D: no lie\nlarger pays", "D"):
            if labels.put(words, places, around=sides, fontweight="bold", bbox=None):
                return


@dataclass(frozen=True, eq=False)
class Line:
    """Payments along an axis, under a name."""

    name: str
    payments: Floats


@dataclass(frozen=True, eq=False, kw_only=True)
class PaymentLines:
    """Payments along an axis, one line for each answer or surprise, the lowest first; all meet at the mark."""

    lines: tuple[Line, ...]
    along: Floats
    mark: float
    currency: str

    height = 3.5

    def payment(self, line: Line, at: float) -> float:
        """The payment at a place on the axis."""
        return float(np.interp(at, self.along, line.payments))

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of the lines along the axis."""
        return float(self.along[0]), float(self.along[-1])

    @property
    def places(self) -> tuple[float, ...]:
        """The places along the axis that the table lists: ends, mark, and half-way between them."""
        first, last = self.ends
        return tuple(sorted({first, (first + self.mark) / 2, self.mark, (self.mark + last) / 2, last}))

    def paint_lines(self, axes: Axes, labels: Labels, marked: str) -> None:
        """Paint the lines and the mark, on an axis whose limits are set; each line's name is near an end."""
        between: dict[str, Any] = {"color": GREY, "linestyle": "-", "linewidth": 1.2}
        looks = [LOWEST, *([between] * (len(self.lines) - 2)), HIGHEST]
        # Grey ones below the others.
        drawn = sorted(zip(self.lines, looks, strict=True), key=lambda pair: pair[1] is not between)
        for line, look in drawn:
            axes.plot(self.along, line.payments, **look)
            labels.avoid(self.along.tolist(), line.payments.tolist())
        (left, right), (low, high) = axes.get_xlim(), axes.get_ylim()
        axes.plot([self.mark] * 2, (low, high), color=GREY, linewidth=1.2, linestyle=drawing.DOTTED)
        labels.avoid([self.mark] * 2, (low, high))
        # Above all lines, at the side where there is more room.
        side, middle = (
            1 if self.mark <= (left + right) / 2 else -1,
            high - (high - low) * ABOVE / 2 / (1 + ABOVE),
        )
        labels.put(marked, [(self.mark, middle)], around=((side, 0),), bbox=None)
        for line, look in reversed(drawn):
            places = [
                (float(self.along[at]), float(line.payments[at]))
                for at in (int(part * (len(self.along) - 1)) for part in NEAR)
            ]
            if look is between:
                small: Any = {"distance": 4, "color": GREY, "fontsize": drawing.SMALL}
                labels.put(line.name, places, around=((0, 1), (0, -1), *CORNERS), **small)
            else:
                labels.put(line.name, places, around=CORNERS, color=look["color"], fontweight="bold")

    def scale_payments(self, axes: Axes) -> None:
        """Scale the vertical axis, with room above all lines."""
        payments = np.concatenate([line.payments for line in self.lines])
        least, most = float(payments.min()), float(payments.max())
        spread = (most - least) or max(most, 0.01)
        axes.set_ylim(least - 0.06 * spread, most + ABOVE * spread)
        drawing.label_ticks(axes.yaxis, spread)
        axes.set_title(f"Payment, {self.currency}")


@dataclass(frozen=True, eq=False, kw_only=True)
class Answers(PaymentLines):
    """For people with average features: what each answer pays, the lowest first, and where all pay the same.

    along: the share of yes, or the mean rating, of the others. mark: the switch point, where the lowest and the highest
    answer pay the same. Where the lines end, the others' share is implausible (or impossible); everybody is then paid
    `middle`.
    """

    scale: tuple[float, float]
    middle: float
    rating: bool

    @property
    def title(self) -> str:
        return "What each rating pays" if self.rating else "What yes and no pay"

    def in_words(self, value: float) -> str:
        """A share in percent, a rating as it is."""
        return number(value) if self.rating else f"{to_within(100 * value, 2)}%"

    def payment(self, line: Line, at: float) -> float:
        """The payment for an answer where the others' share is this one."""
        return super().payment(line, at) if self.ends[0] <= at <= self.ends[1] else self.middle

    def describe(self) -> str:
        """The chart in words."""
        lowest, highest = self.lines[0], self.lines[-1]
        what = "the others' mean rating" if self.rating else "the share of the others who say yes"
        first, last = (
            " and ".join(
                f"{line.name} pays {money(self.payment(line, end), self.currency)}"
                for line in (highest, lowest)
            )
            for end in self.ends
        )
        return (
            f"Payments against {what}: two lines that cross at the switch point, {self.in_words(self.mark)}, where "
            f"{highest.name} and {lowest.name} pay the same. At {self.in_words(self.ends[0])} {first}; at "
            f"{self.in_words(self.ends[1])} {last}."
        )

    def paint(self, figure: Figure) -> None:
        """The lines, the switch point where they cross, and what is paid where shares are implausible."""
        axes = figure.add_axes((0.145, 0.15, 0.8, 0.76))
        room = BEYOND * (self.scale[1] - self.scale[0])
        axes.set_xlim(max(self.scale[0], self.ends[0] - room), min(self.scale[1], self.ends[1] + room))
        self.scale_payments(axes)
        axes.locator_params(nbins=6, integer=self.rating, axis="x")
        axes.xaxis.set_major_formatter(
            lambda value, place: f"{value:g}" if self.rating else f"{100 * value:.3g}%"
        )
        axes.set_xlabel("The others' mean rating" if self.rating else "Share of the others who say yes")
        labels = Labels(axes)
        self._shade_implausible(axes, labels)
        crossing = (self.mark, self.payment(self.lines[0], self.mark))
        labels.avoid_marker(*crossing)
        self.paint_lines(axes, labels, f"switch point {self.in_words(self.mark)}")
        axes.plot(*crossing, "o", color=INK, markersize=6)

    def _shade_implausible(self, axes: Axes, labels: Labels) -> None:
        """Shade the shares of the others that are implausible."""
        (left, right), (low, high) = axes.get_xlim(), self.ends
        for start, end in ((left, low), (high, right)):
            if end > start:
                axes.axvspan(start, end, **drawing.SHADE)
                axes.plot([start, end], [self.middle] * 2, color=GREY, linewidth=2.4)
                labels.avoid([start, end], [self.middle] * 2)
        if left < low or right > high:
            words = "grey: implausible, all get the same"
            axes.set_title(words, loc="right", color=GREY, fontsize=drawing.SMALL)


def chart_answers(plan: Plan) -> Answers:
    """The chart of what a plan's answers pay."""
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
    lines = tuple(
        Line(name, mechanism.steps(beliefs, X, np.full(POINTS, 2 * k / (K - 1) - 1), shares)[2])
        for k, name in enumerate(names)
    )
    least, width = study.response.low, study.response.high - study.response.low
    return Answers(
        lines=lines,
        along=least + width * shares,
        scale=(study.response.low, study.response.high),
        mark=least + width * float(expected.switch[0]),
        middle=mechanism.flat + mechanism.bonus / 2,
        currency=study.currency,
        rating=study.kind == "rating",
    )


@dataclass(frozen=True, eq=False, kw_only=True)
class Surprises(PaymentLines):
    """What answers pay where people are asked what the others will say, for average features and without predictions.

    For numbers and ratings, lines are for surprises, and `along` are answers; for yes and no (strict), lines are for
    answers, and `along` is by how many percentage points more people say yes than was predicted. The mark is the
    others' average, or the place where both answers pay the same.
    """

    marked: str
    axis: str
    strict: bool

    @property
    def title(self) -> str:
        return "What yes and no pay" if self.strict else "What an answer pays"

    def describe(self) -> str:
        """The chart in words."""
        said = "; ".join(
            f"{line.name}: "
            + ", ".join(
                f"{money(self.payment(line, end), self.currency)} at {number(end)}" for end in self.ends
            )
            for line in reversed(self.lines)
        )
        return f"Payments against {self.axis[0].lower()}{self.axis[1:]}. {said}. All pay the same at {self.marked}."

    def paint(self, figure: Figure) -> None:
        """The lines, and where they meet."""
        axes = figure.add_axes((0.145, 0.15, 0.8, 0.76))
        axes.set_xlim(*self.ends)
        self.scale_payments(axes)
        axes.locator_params(nbins=6, axis="x")
        axes.xaxis.set_major_formatter(lambda value, place: f"{value:g}".replace("-", "−"))
        axes.set_xlabel(self.axis)
        self.paint_lines(axes, Labels(axes), self.marked)


def chart_surprises(plan: Plan, average: float | None = None) -> Surprises:
    """The chart of what a plan's answers pay at this average of the others; by default a middling one."""
    mechanism, beliefs = plan.asked_mechanism, plan.study.levels
    if mechanism is None or beliefs is None:
        raise InputError("Surprises are paid for where people are asked what the others will say.")
    if mechanism.rule == SERUM:
        return _yes_and_no(plan.study, mechanism)
    low, high = plan.study.prediction_range
    unit = (high - low) / 2
    p = (beliefs.low + beliefs.high) / 2 if average is None else (average - low) / unit - 1
    return _surprises_of_numbers(plan.study, mechanism, beliefs, min(max(p, -1.0), 1.0))


def _yes_and_no(study: Study, mechanism: AskedRelease) -> Surprises:
    """Yes and no, against the surprise in percentage points."""
    clip, nothing = mechanism.clip, np.zeros(POINTS)
    surprise = np.linspace(-clip, clip, POINTS)
    return Surprises(
        lines=tuple(
            Line(name, _pay(mechanism, score(SERUM, nothing, np.array(y), nothing, surprise, clip)))
            for name, y in (("no", -1.0), ("yes", 1.0))
        ),
        along=50 * surprise,
        mark=0.0,
        marked="as predicted",
        axis="How many of 100 say yes beyond what was predicted",
        currency=study.currency,
        strict=True,
    )


def _surprises_of_numbers(
    study: Study, mechanism: AskedRelease, beliefs: LevelBeliefs, p: float
) -> Surprises:
    """A few surprises, against the answer."""
    c, clip = np.eye(1, beliefs.dimension) / beliefs.scale, mechanism.clip
    s, y = np.full(POINTS, float(beliefs.slopes(c, c[0])[0])), np.linspace(-1, 1, POINTS)
    low, high = study.prediction_range
    unit = (high - low) / 2
    average = low + unit * (p + 1)
    scores = (score(mechanism.rule, s, y, np.full(POINTS, p), np.array(part * clip), clip) for part in DRAWN)
    names = (_name_surprise(part * clip * unit) for part in DRAWN)
    return Surprises(
        lines=tuple(Line(name, _pay(mechanism, scored)) for name, scored in zip(names, scores, strict=True)),
        along=low + unit * (y + 1),
        mark=average,
        marked=f"the others' average, {number(average)}",
        axis=f"Answer, “{drawing.shorten(study.response.name, 30)}”",
        currency=study.currency,
        strict=False,
    )


def _name_surprise(by: float) -> str:
    """A surprise in words: how much higher or lower answers are than people expected."""
    if by == 0:
        return "as expected"
    return f"{number(abs(by), 2)} {'higher' if by > 0 else 'lower'}"


def _pay(mechanism: AskedRelease, scores: Floats) -> Floats:
    return np.asarray(mechanism.base_payment + mechanism.score_weight * scores)
