"""What a study file says, section by section, checked. What follows from it is computed by truthful.study."""

from __future__ import annotations

import math
from collections import Counter
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, cast

import numpy as np
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from truthful.beliefs import NormalBall, UniformBall
from truthful.check import Floats
from truthful.costs import EmpiricalCosts
from truthful.errors import InputError
from truthful.study.credibility import REACH, LevelBeliefs, ShareBeliefs
from truthful.study.features import (
    INTERCEPT,
    AsGiven,
    Column,
    Encoding,
    Levels,
    Numeric,
    check_second_moments,
)

Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Positive = Annotated[float, Field(strict=True, allow_inf_nan=False, gt=0)]
Text = Annotated[str, Field(strict=True, min_length=1)]
Flag = Annotated[bool, Field(strict=True)]


def _without_nul(word: str) -> str:
    if "\0" in word:
        raise InputError(
            f"{word!r} holds a NUL character, which files and arrays do not keep, so no record could match. "
            "Leave it out."
        )
    return word


#: What is looked for in people's files: the name of a column, a level.
Word = Annotated[Text, AfterValidator(_without_nul)]

# Ends of a declared range at most this large and its width at least its inverse: squares of either stay numbers.
LARGEST = 1e50
# How wide a normal prior may be declared to be, as a part of one that is uniform.
WIDEST = 0.995
# Standard deviations from this share of their bound on: own predictions then keep nine digits wherever a report lies.
NARROWEST = 1e-3

PLAYER = "player"
"""The column of a file of reports that identifies people."""
PREDICTION = "prediction"
"""The column of what people think the others will say, where they are asked."""
# Other columns of receipts and coefficients: no feature may have their names.
RESERVED = (
    PLAYER,
    INTERCEPT,
    "group",
    "leverage",
    "noise_scale",
    "peer_prediction",
    "own_prediction",
    "payment",
)
# And where people are asked what the others will say.
RESERVED_ASKED = (PREDICTION, "others_answer", "others_prediction", "surprise")


#: Levels that a rating may have; numbers of fewer values than this are refused.
RATING_LEVELS, FEWEST_VALUES = range(3, 11), 11


class Section(BaseModel):
    """A part of the study file. Unknown keys are errors: a misspelt one must not pass as a default."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Response(Section):
    """The sensitive, self-reported answer: a number in a public range, yes or no, or a rating from 1 to `levels`.

    kind is None for a number, as files of version 0.1 have it. Yes is 1 and no is 0. step: what answers that are
    numbers are multiples of, if they are.
    """

    name: Word
    kind: Literal["yes-no", "rating"] | None = None
    low: Number
    high: Number
    levels: int | None = Field(default=None, strict=True)
    step: Positive | None = None
    question: Text | None = None

    @model_validator(mode="before")
    @classmethod
    def _ends(cls, data: Any) -> Any:
        """A number says between what it lies; for the other kinds that is known."""
        if not isinstance(data, dict):
            return data
        kind, levels = data.get("kind"), data.get("levels")
        if kind == "number":
            return {**data, "kind": None}
        if kind == "rating" and not (isinstance(levels, int) and levels in RATING_LEVELS):
            given = "missing" if levels is None else repr(levels)
            raise ValueError(
                f"levels is {given}. A rating needs from {RATING_LEVELS[0]} to {RATING_LEVELS[-1]} levels: with two "
                "it is kind = 'yes-no', and more are a number."
            )
        if kind not in ("yes-no", "rating"):
            return data
        ends = (0.0, 1.0) if kind == "yes-no" else (1.0, float(levels or 0))
        for name, end in zip(("low", "high"), ends, strict=True):
            if data.get(name, end) != end:
                raise ValueError(
                    f"{name} is {data[name]!r}, but kind = {kind!r} has no ends to declare. Leave it out."
                )
        return {**data, "low": ends[0], "high": ends[1]}

    @model_validator(mode="after")
    def _range(self) -> Response:
        _check_range("The response", self.low, self.high)
        if self.kind != "rating" and self.levels is not None:
            raise ValueError("levels goes with kind = 'rating'. Leave it out.")
        if self.kind is not None and self.step is not None:
            raise ValueError(f"step goes with numbers, and the response is a {self.kind}. Leave it out.")
        if self.step is not None and self.values < FEWEST_VALUES:
            raise ValueError(
                f"step is {self.step:g}: people choose from {self.values} values only, and what is promised of numbers "
                f"does not hold for so few. Say kind = {_fitting(self.values)}."
            )
        return self

    @property
    def values(self) -> int:
        """How many different answers there are, where that is known; 0: any number in the range."""
        if self.kind == "yes-no":
            return 2
        if self.kind == "rating":
            return self.levels or 0
        return 0 if self.step is None else 1 + int((self.high - self.low) / self.step * (1 + 1e-9))


class Invitation(Section):
    """What people are told before they answer: who asks, what for, and whom to turn to."""

    asked_by: Text
    purpose: Text
    contact: Text


class Feature(Section):
    """A verified fact about a player: a number in a public range, or one of several levels."""

    name: Word
    low: Number | None = None
    high: Number | None = None
    levels: tuple[Word, ...] | None = None
    sensitive: Flag | None = None

    @field_validator("levels", mode="before")
    @classmethod
    def _numbers_as_text(cls, levels: Any) -> Any:
        if not isinstance(levels, list | tuple):
            return levels
        return [str(v) if isinstance(v, int | float) and not isinstance(v, bool) else v for v in levels]

    @model_validator(mode="after")
    def _range_or_levels(self) -> Feature:
        title = f"Feature {self.name!r}"
        if self.levels is None:
            if (self.low is None) != (self.high is None):
                raise ValueError(
                    f"{'low' if self.low is None else 'high'} is missing. {title} needs both ends."
                )
            if self.low is not None and self.high is not None:
                _check_range(title, self.low, self.high)
            return self
        if self.low is not None or self.high is not None:
            raise ValueError(
                f"levels are given together with low or high. {title} is one of levels or a number."
            )
        if len(self.levels) < 2:
            raise ValueError(f"levels is {list(self.levels)}. {title} needs at least two.")
        if repeated := [level for level, times in Counter(self.levels).items() if times > 1]:
            raise ValueError(f"levels names {repeated[0]!r} twice. {title} needs different levels.")
        return self


class Observed(Section):
    """Features as they come; optionally a promise about the least eigenvalue of E[x xᵀ], normalised."""

    kind: Literal["observed"]
    least_eigenvalue: Positive | None = None


class Uniform(Section):
    """Independent features, uniform on their ranges and levels."""

    kind: Literal["uniform"]


class Covariance(Section):
    """Features of known second moments: the d×d matrix E[x xᵀ] of the normalised x."""

    kind: Literal["covariance"]
    matrix: tuple[tuple[Number, ...], ...]


class UnitBall(Section):
    """x is given directly and is uniform on the unit ball."""

    kind: Literal["unit-ball"]


class Privacy(Section):
    """What is protected: people's answers, or their whole records.

    publish_matrix: whether the exact sums of features are published, under `answers`. features_public: that features
    are no secret at all, so that levels held by very few people do no harm.
    """

    protects: Literal["answers", "records"]
    publish_matrix: Flag = True
    features_public: Flag = False


class DeclaredBeliefs(Section):
    """What players are taken to believe, in normalised units: ‖θ‖ ≤ R, |z| ≤ M.

    In units of the answer: centre; sure, how sure people are of the average, one standard deviation, and unsure, how
    sure the analyst is of what they take it to be, which decide the width of the prior together; tolerance, how far
    people's idea of the average may be from the declared one (of shares, as a share). With centre = "predictions"
    people are asked what the others will say, and only differences are declared: spread is how far answers scatter.
    """

    signal: Positive | None = Field(default=None, lt=1)
    radius: Positive | None = None
    noise_bound: Positive | None = None
    prior: Literal["uniform", "normal"] = "uniform"
    prior_sd: Positive | None = None
    centre: Literal["predictions"] | dict[str, Number] | None = None
    sure: Positive | None = None
    unsure: Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0)] | None = None
    tolerance: Positive | None = None
    spread: Positive | None = None
    plausible: tuple[Number, Number] | None = None
    noise: Literal["normal", "uniform"] = "normal"
    noise_sd: Positive | None = None
    share: tuple[Number, Number] | None = None
    effect: Number | dict[str, Number] | None = None
    expected: dict[str, Number] | None = None
    agreement: Number | None = Field(default=None, ge=0, le=1)
    implausible: Literal["flat", "paid"] | None = None

    @field_validator("centre", mode="before")
    @classmethod
    def _average(cls, centre: Any) -> Any:
        """One number is the average answer."""
        alone = isinstance(centre, int | float) and not isinstance(centre, bool)
        return {INTERCEPT: centre} if alone else centre

    @model_validator(mode="after")
    def _consistent(self) -> DeclaredBeliefs:
        if self.share is not None:
            self._check_shares(self.share)
            return self
        if self.asked:
            self._check_asked()
            return self
        for name in ("spread", "plausible"):
            if getattr(self, name) is not None:
                raise ValueError(f'{name} goes with centre = "predictions". Leave it out, or say that.')
        for name in ("effect", "expected", "agreement", "implausible"):
            if getattr(self, name) is not None:
                raise ValueError(
                    f'{name} goes with a share, for yes-no answers and ratings, or with centre = "predictions". Leave '
                    "it out."
                )
        researchers = (self.radius is not None, self.noise_bound is not None)
        if self.signal is None and researchers != (True, True):
            raise ValueError("signal is missing. Give it, or both radius and noise_bound.")
        if self.signal is not None and any(researchers):
            raise ValueError("signal is given together with radius or noise_bound. Give one or the other.")
        self._check_prior()
        if self.noise == "uniform" and self.noise_sd is not None:
            raise ValueError("noise_sd goes with noise = 'normal'. Leave it out.")
        R, M = self.bounds
        _check_width("prior_sd", self.prior_sd, "R", R)
        _check_width("noise_sd", self.noise_sd, "M", M)
        return self

    def _check_prior(self) -> None:
        """Its width is declared by prior_sd, or by sure and unsure; then prior_sd follows from them."""
        if self.sure is None and self.unsure is not None:
            raise ValueError(
                "unsure goes with sure: say how sure people are of the average, too, or leave it out."
            )
        if self.sure is not None and "prior" in self.model_fields_set and self.prior == "uniform":
            raise ValueError(
                "prior is 'uniform', but sure makes it a normal. Leave prior out, or leave sure out."
            )
        if self.sure is None and (self.prior == "normal") != (self.prior_sd is not None):
            raise ValueError("prior_sd goes with prior = 'normal', and that prior needs it.")

    @property
    def asked(self) -> bool:
        """Whether people are asked what the others will say."""
        return self.centre == "predictions"

    def _check_asked(self) -> None:
        declared = ("signal", "radius", "noise_bound", "prior_sd", "noise_sd", "unsure", "agreement")
        if wrong := [name for name in declared if getattr(self, name) is not None]:
            raise ValueError(
                f'{wrong[0]} declares what centre = "predictions" asks people for. Leave it out, and give sure and '
                "spread."
            )
        for name, what in (
            (
                "sure",
                "how far people may be off about the average, one standard deviation, such as sure = 10",
            ),
            ("spread", "how far answers scatter about it, one standard deviation, such as spread = 15"),
        ):
            if getattr(self, name) is None:
                raise ValueError(f"{name} is missing. Say {what}, in units of the answer.")
        if self.implausible == "flat" and self.plausible is None:
            raise ValueError(
                'implausible = "flat" needs to know what is plausible, such as plausible = [2, 60].'
            )

    def _check_shares(self, share: tuple[float, float]) -> None:
        names = ["signal", "radius", "noise_bound", "prior_sd", "noise_sd", "spread", "plausible", "unsure"]
        names += [] if self.asked else ["centre", "sure"]
        if self.asked and self.sure is None:
            raise ValueError(
                "sure is missing. Say how far people may be off about the share, one standard deviation, such as sure "
                "= 0.05."
            )
        numbers = [name for name in names if getattr(self, name) is not None]
        numbers += [
            name
            for name, usual in (("prior", "uniform"), ("noise", "normal"))
            if getattr(self, name) != usual
        ]
        if numbers:
            raise ValueError(
                f"{numbers[0]} goes with answers that are numbers. Leave it out, or leave share out."
            )
        low, high = share
        if not 0 <= low < high <= 1:
            raise ValueError(
                f"share is [{low:g}, {high:g}]. Give the least and the largest share that you think possible, the "
                "smaller one first, between 0 and 1."
            )

    @property
    def bounds(self) -> tuple[float, float]:
        """(R, M): the bounds of ‖θ‖ and of |z|."""
        if self.signal is not None:
            return self.signal, 1.0 - self.signal
        return cast(float, self.radius), cast(float, self.noise_bound)


class Payments(Section):
    """How payments are made up: predictions of what the others will say earn up to this share of the most there is."""

    prediction_bonus: Number = Field(default=0.1, gt=0, le=0.5)


class Pareto(Section):
    """P(cost > c) = (c/scale)^(−tail) for c ≥ scale."""

    kind: Literal["pareto"]
    tail: Positive
    scale: Positive
    privacy: Literal["quadratic", "linear"] = "quadratic"


class Lognormal(Section):
    """ln(cost) is normal with mean ln(median) and standard deviation sigma."""

    kind: Literal["lognormal"]
    median: Positive
    sigma: Positive
    privacy: Literal["quadratic", "linear"] = "quadratic"


class Empirical(Section):
    """Quantiles of the costs, here or in a file next to the study. What the file holds is declared."""

    kind: Literal["empirical"]
    file: Text | None = Field(default=None, exclude=True)
    probabilities: tuple[Number, ...]
    values: tuple[Number, ...]
    privacy: Literal["quadratic", "linear"] = "quadratic"

    @model_validator(mode="before")
    @classmethod
    def _read_file(cls, data: Any, info: ValidationInfo) -> Any:
        if not isinstance(data, dict) or not isinstance(data.get("file"), str):
            return data
        if "probabilities" in data or "values" in data:
            raise ValueError("file is given together with probabilities or values. Give one or the other.")
        directory: Path | None = (info.context or {}).get("directory")
        if directory is None:
            # A declaration may come from anywhere; it must not make this machine open files.
            raise ValueError(
                "file is only read for a study that is itself a file. Give probabilities and values."
            )
        costs = EmpiricalCosts.load(directory / data["file"])
        return {**data, "probabilities": costs.probabilities, "values": costs.values}

    @model_validator(mode="after")
    def _quantiles(self) -> Empirical:
        EmpiricalCosts(self.probabilities, self.values)
        return self


class Declaration(Section):
    """The whole study file."""

    name: Text
    currency: Annotated[str, Field(strict=True, pattern=r"^[A-Z]{3}$")]
    intercept: Flag = True
    invitation: Invitation | None = None
    response: Response
    features: tuple[Feature, ...] = ()
    design: Annotated[Observed | Uniform | Covariance | UnitBall, Field(discriminator="kind")]
    privacy: Privacy | None = None
    beliefs: DeclaredBeliefs
    costs: Annotated[Pareto | Lognormal | Empirical, Field(discriminator="kind")]
    payments: Payments | None = None

    @model_validator(mode="before")
    @classmethod
    def _no_intercept_on_the_ball(cls, data: Any) -> Any:
        design = data.get("design") if isinstance(data, dict) else None
        if isinstance(design, dict) and design.get("kind") == "unit-ball":
            return {"intercept": False, **data}
        return data

    @model_validator(mode="after")
    def _consistent(self) -> Declaration:
        self._check_names()
        self._check_features()
        self._check_design(self.encoding.dimension)
        self._check_privacy()
        self._check_kind()
        self._check_predictions()
        self._check_tolerance()
        if self.beliefs.share is not None:
            self._check_shares()
        elif not self.beliefs.asked:
            self._check_centre()
            self._set_width()
        return self

    @cached_property
    def encoding(self) -> Encoding:
        ball = isinstance(self.design, UnitBall)
        return Encoding(tuple(_column(f, ball) for f in self.features), self.intercept, scaled=not ball)

    @cached_property
    def centre(self) -> Floats:
        """The centre of the prior as coefficients of x, where half the response's range is 1."""
        declared, response = self.beliefs.centre, self.response
        raw = dict(declared) if isinstance(declared, dict) else {}
        if INTERCEPT in raw:
            raw[INTERCEPT] -= (response.low + response.high) / 2
        return self.encoding.codes(raw) * (self.encoding.scale * 2 / (response.high - response.low))

    def _check_names(self) -> None:
        taken = Counter([*RESERVED, self.response.name, *(f.name for f in self.features)])
        taken += Counter(f"{f.name}={level}" for f in self.features for level in f.levels or ())
        if repeated := [name for name, times in taken.items() if times > 1]:
            raise ValueError(
                f"The name {repeated[0]!r} is used twice. The response and every feature need a name of "
                f"their own; {', '.join(map(repr, RESERVED))} are taken."
            )

    def _check_features(self) -> None:
        if not self.features and not self.intercept:
            raise ValueError("There are no features and no intercept: nothing to estimate. Add [[features]].")
        ball = isinstance(self.design, UnitBall)
        if ball and self.intercept:
            raise ValueError("intercept is true, but design.kind = 'unit-ball' has none. Leave it out.")
        for i, feature in enumerate(self.features):
            if ball and feature.levels is not None:
                raise ValueError(
                    f"features[{i}].levels is given, but design.kind = 'unit-ball' takes numbers only."
                )
            if not ball and feature.levels is None and feature.low is None:
                raise ValueError(
                    f"features[{i}].low is missing. Feature {feature.name!r} needs its public range (low and "
                    "high) or its levels. They are never read off the data: that would leak."
                )

    def _check_design(self, d: int) -> None:
        if isinstance(self.design, Covariance):
            check_second_moments(self.design.matrix, d, self.intercept)
        if isinstance(self.design, Observed) and not (self.design.least_eigenvalue or 0.0) <= 1 / d + 1e-9:
            raise ValueError(
                f"design.least_eigenvalue is {self.design.least_eigenvalue:g}; with {d} columns of x it is "
                f"at most 1/{d} = {1 / d:g}."
            )

    def _check_privacy(self) -> None:
        sensitive = [feature.name for feature in self.features if feature.sensitive]
        if self.privacy is not None and self.privacy.protects == "answers" and sensitive:
            raise ValueError(
                f"Feature {sensitive[0]!r} is sensitive, but privacy.protects = 'answers' publishes sums of features "
                "as they are. Say protects = 'records', or leave the feature out."
            )

    def _check_kind(self) -> None:
        kind = self.response.kind
        if (kind is None) == (self.beliefs.share is None):
            return
        if kind is None:
            raise ValueError(
                "beliefs.share goes with kind = 'yes-no' or 'rating' in [response], which is a number here. Say the "
                "kind, or declare beliefs.signal."
            )
        raise ValueError(share_missing(kind))

    def _check_predictions(self) -> None:
        """What goes with asking people for predictions of the others' answers."""
        if not self.beliefs.asked:
            if self.payments is not None:
                raise ValueError(
                    'payments.prediction_bonus goes with beliefs.centre = "predictions". Leave it out, or say that.'
                )
            return
        if not self.intercept:
            raise ValueError(
                'intercept is false, but beliefs.centre = "predictions" asks for the level, which needs one.'
            )
        if self.privacy is not None and (
            self.privacy.protects != "answers" or not self.privacy.publish_matrix
        ):
            raise ValueError(
                'beliefs.centre = "predictions" takes the mean of features from those who answer, and everybody must '
                'be able to check it: it needs privacy.protects = "answers" and publish_matrix = true.'
            )
        for name in (self.response.name, *(feature.name for feature in self.features)):
            if name in RESERVED_ASKED:
                raise ValueError(
                    f"The name {name!r} is taken: where people are asked for predictions, {', '.join(RESERVED_ASKED)} "
                    "are columns of reports and receipts. Rename it."
                )
        try:
            level_beliefs(self)
        except InputError as problem:
            raise ValueError(f"beliefs: {problem}") from None

    def _check_shares(self) -> None:
        if not self.intercept:
            raise ValueError(
                f"intercept is false, but a study with kind = {self.response.kind!r} needs one. Leave it out."
            )
        if self.response.kind == "yes-no" and self.beliefs.agreement is not None:
            raise ValueError("beliefs.agreement goes with kind = 'rating'. Leave it out.")
        if self.features and self.beliefs.effect is None:
            raise ValueError(
                "beliefs.effect is missing. Say how much one feature, from one end to the other, can change the share "
                "at most, such as effect = 0.1."
            )
        if not self.features and (self.beliefs.effect is not None or self.beliefs.expected):
            raise ValueError("beliefs.effect is given, but there are no features. Leave it out.")
        try:
            share_beliefs(self)
        except InputError as problem:
            raise ValueError(f"beliefs: {problem}") from None

    def _check_centre(self) -> None:
        try:
            furthest = self.centre_reach
        except InputError as problem:
            raise ValueError(f"beliefs.centre: {problem}") from None
        if not furthest < 1:
            raise ValueError(
                f"beliefs.centre predicts up to {furthest:.3g} of half the response's range away from its middle; it "
                "must be below 1, so that predictions stay in the range. Widen the range or shrink the centre."
            )

    def _check_tolerance(self) -> None:
        tolerance, width = self.beliefs.tolerance, self.response.high - self.response.low
        unit, most = ("units of the answer", width) if self.beliefs.share is None else ("shares", 1.0)
        if tolerance is not None and not tolerance < most:
            raise ValueError(
                f"beliefs.tolerance is {tolerance:g}; it is in {unit}, which range over {most:g}. Give less than that."
            )

    def _set_width(self) -> None:
        """The prior of people who are so sure of the average, less so by what the analyst is unsure of.

        With prior_sd in the record it stands as it is there, if it is that.
        """
        beliefs = self.beliefs
        if beliefs.sure is None:
            return
        sd = self._width(math.hypot(beliefs.sure, beliefs.unsure or 0.0))
        if beliefs.prior_sd is None:
            known = beliefs.model_copy(update={"prior": "normal", "prior_sd": sd})
            object.__setattr__(self, "beliefs", known)
        elif not math.isclose(beliefs.prior_sd, sd, rel_tol=1e-4):
            raise ValueError(
                f"beliefs.prior_sd is {beliefs.prior_sd:g}, but with sure it follows: {sd:g}. Leave prior_sd out."
            )

    def _width(self, spread: float) -> float:
        """The sd of the normal cut off at R with which the average answer has this one, to six digits."""
        if not self.intercept:
            raise ValueError(
                "beliefs.sure is about the average answer, but intercept is false. Declare prior_sd instead."
            )
        (R, M), d = self.beliefs.bounds, self.encoding.dimension
        half = (R + M) / (1 - self.centre_reach)
        unit = (self.response.high - self.response.low) / (2 * half) / self.encoding.scale
        least, most = NARROWEST * R * unit, WIDEST * UniformBall(R).variance(d) ** 0.5 * unit
        if not least <= spread <= most:
            end, limit, advice = (
                ("most", most, "Raise signal, or lower") if spread > most else ("least", least, "Raise")
            )
            raise ValueError(
                f"beliefs.sure and unsure come to a standard deviation of {spread:.4g} of the average answer; with "
                f"these bounds and {d} coefficient{'s' if d > 1 else ''} it can be {limit:.4g} at {end}. {advice} them."
            )
        low, high = math.log(spread / unit), math.log(spread / unit * 1e3)
        for _ in range(60):
            middle = (low + high) / 2
            wide = NormalBall(R, math.exp(middle)).variance(d) > (spread / unit) ** 2
            low, high = (low, middle) if wide else (middle, high)
        return float(f"{math.exp(low):.6g}")

    @cached_property
    def centre_reach(self) -> float:
        """The furthest that the centre predicts from the middle of the range, half the range being 1.

        Over all features that the ranges allow. Studies without a privacy section keep the bound of version 0.1, the
        length of the centre, as long as it is below 1: what was settled with it can be verified for ever.
        """
        length = float(np.linalg.norm(self.centre))
        if not self.centre.any() or (self.privacy is None and length < 1):
            return length
        return min(length, self.encoding.reach(self.centre))


def share_missing(kind: str) -> str:
    """What to declare where people answer yes or no, or with a rating."""
    scale = ", of the way from the lowest rating to the highest" if kind == "rating" else ""
    return (
        f"beliefs.share is missing. For kind = {kind!r} say which share you think possible{scale}, such as share = "
        "[0.05, 0.40]."
    )


def _fitting(values: int) -> str:
    return "'yes-no'" if values <= 2 else f"'rating' and levels = {values}"


def _check_range(title: str, low: float, high: float) -> None:
    if not low < high:
        raise ValueError(
            f"low is {low:g}, not below high = {high:g}. {title} needs its least possible value as low."
        )
    if not max(-low, high) <= LARGEST:
        name, value = ("high", high) if high > LARGEST else ("low", low)
        raise ValueError(f"{name} is {value:g}, beyond ±{LARGEST:g}. {title} needs a realistic range.")
    if not high - low >= 1 / LARGEST:
        raise ValueError(
            f"high is {high:g}, less than {1 / LARGEST:g} above low = {low:g}. {title} needs a wider range: "
            "choose a larger unit."
        )


def _check_width(name: str, sd: float | None, symbol: str, bound: float) -> None:
    # The number that the message names, rounded to six digits, must do.
    if sd is not None and not sd >= NARROWEST * bound * (1 - 1e-5):
        raise ValueError(
            f"{name} is {sd:g}, below {NARROWEST:g} of its bound {symbol} = {bound:g}, too narrow to compute with. "
            f"Give {NARROWEST * bound:g} or more, or a smaller bound."
        )


def share_beliefs(declared: Declaration) -> ShareBeliefs:
    """What is believed of shares, for answers that are yes or no, or ratings."""
    beliefs = declared.beliefs
    return ShareBeliefs.of(
        declared.encoding,
        beliefs.share or (0.0, 1.0),
        _effects(declared),
        dict(beliefs.expected or {}),
        levels=declared.response.values,
        agreement=0.3 if beliefs.agreement is None else beliefs.agreement,
    )


def level_beliefs(declared: Declaration) -> LevelBeliefs:
    """What is believed of the level, which people are asked for, and of differences."""
    beliefs, response = declared.beliefs, declared.response
    sure, encoding = float(cast(float, beliefs.sure)), declared.encoding
    places = tuple(
        (place.start, place.stop)
        for feature, place in zip(encoding.features, encoding.slices, strict=True)
        if isinstance(feature, Levels)
    )
    if beliefs.share is not None:
        _check_sure(sure, beliefs.share)
        return LevelBeliefs.of_shares(share_beliefs(declared), sure, places)
    half = (response.high - response.low) / 2
    if declared.features and beliefs.effect is None:
        raise InputError(
            "effect is missing. Say how much one feature, from one end to the other, can change the average answer at "
            "most, in units of the answer."
        )
    ends = beliefs.plausible or (response.low, response.high)
    if not response.low <= ends[0] < ends[1] <= response.high:
        raise InputError(
            f"plausible is [{ends[0]:g}, {ends[1]:g}]. Give the least and the largest average that you think possible, "
            f"the smaller one first, between {response.low:g} and {response.high:g}."
        )
    # As of shares: half the range is the unit here, and a share is a part of the whole range.
    each = {name: effect / (2 * half) for name, effect in _effects(declared).items()}
    expected = {name: value / (2 * half) for name, value in (beliefs.expected or {}).items()}
    low, high = ((end - response.low) / (2 * half) for end in ends)
    means, numbers, factors = (
        tuple(2 * part for part in parts) for parts in ShareBeliefs.moves(encoding, each, expected)
    )
    return LevelBeliefs(
        sure / half,
        float(cast(float, beliefs.spread)) / half,
        means,
        numbers,
        factors,
        places,
        encoding.scale,
        2 * low - 1,
        2 * high - 1,
    )


def _check_sure(sure: float, share: tuple[float, float]) -> None:
    low, high = share
    widest = (high - low) / (2 * REACH)
    if not sure <= widest * (1 + 1e-9):
        raise InputError(
            f"sure is {sure:g}, but within [{low:g}, {high:g}] nobody can be less sure than {widest:.3g}. Give less, "
            "or a wider share."
        )


def _effects(declared: Declaration) -> dict[str, float]:
    """The largest effect of each feature."""
    effect, names = declared.beliefs.effect, [feature.name for feature in declared.encoding.features]
    if not isinstance(effect, dict):
        return {name: float(cast(float, effect)) for name in names}
    if unknown := sorted(set(effect) - set(names)):
        raise InputError(
            f"effect names {unknown[0]!r}, which is no feature; the features are {', '.join(names)}."
        )
    if missing := [name for name in names if name not in effect]:
        raise InputError(f"effect says nothing of {missing[0]!r}. Give the largest effect of every feature.")
    return dict(effect)


def _column(feature: Feature, ball: bool) -> Column:
    if ball:
        return AsGiven(feature.name)
    if feature.levels is not None:
        return Levels(feature.name, feature.levels)
    if feature.low is None or feature.high is None:
        raise ValueError(f"Feature {feature.name!r} has neither a range nor levels.")
    return Numeric(feature.name, feature.low, feature.high)
