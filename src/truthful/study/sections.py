"""The sections of a study file, each checked by itself."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    PlainValidator,
    ValidationError,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from truthful.costs import EmpiricalCosts
from truthful.errors import InputError
from truthful.study.features import INTERCEPT

Number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Positive = Annotated[float, Field(strict=True, allow_inf_nan=False, gt=0)]
Text = Annotated[str, Field(strict=True, min_length=1)]
Flag = Annotated[bool, Field(strict=True)]


def wrong(where: str | tuple[int | str, ...], words: str, joint: str = " ") -> PydanticCustomError:
    """An error in a key of a section: its path from there, and words that follow the key's full name in a sentence."""
    steps = (where,) if isinstance(where, str) else where
    return PydanticCustomError(WRONG, "{words}", {"where": steps, "words": f"{joint}{words}"})


def wrong_at(where: tuple[int | str, ...], sentence: str) -> PydanticCustomError:
    """An error in a key of a section, said in a sentence of its own."""
    return PydanticCustomError(WRONG_AT, "{words}", {"where": where, "words": sentence})


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _without_nul(word: str) -> str:
    if "\0" in word:
        raise InputError(
            f"{word!r} holds a NUL character, which files and arrays do not keep, so no record could match. "
            "Leave it out."
        )
    return word


class Translated(dict[str, str]):
    """A text by language."""


def _words(value: Any) -> Any:
    """Check a text, or one per language."""
    if isinstance(value, Mapping):
        if not value:
            raise wrong((), 'is empty; give a text for each language, such as { en = "…", de = "…" }.')
        for language, text in value.items():
            if not re.fullmatch(LANGUAGE, str(language)):
                raise wrong(str(language), "is no code of a language, such as en or de.")
            _require_text(text, str(language))
        return Translated(value)
    return _require_text(value)


def _require_text(value: Any, *where: str) -> str:
    if not isinstance(value, str):
        raise wrong(where, f"is {value!r}; it must be text, in quotes.")
    if not value:
        raise wrong(where, f"is {value!r}; it must not be empty.")
    return value


#: Language codes, as browsers send them.
LANGUAGE = r"[a-z]{2,3}(-[A-Za-z0-9]{2,8})*"
#: Text that people read, in one language or several.
Words = Annotated[str | Translated, PlainValidator(_words, json_schema_input_type=str | dict[str, str])]
#: A name to match in people's files: a column, a level.
Word = Annotated[Text, AfterValidator(_without_nul)]

# Bounds on declared ranges: their ends are at most this large, their width at least its inverse, so that squares stay
# finite.
LARGEST = 1e50
#: How far a sum of probabilities may be from 1: they are typed by hand, and divided by their sum.
PROBABILITY_SLACK = 1e-6
# The least standard deviation, as a part of its bound: own predictions then keep nine digits for every report.
NARROWEST = 1e-3


#: The type of errors from `wrong`.
WRONG, WRONG_AT = "wrong", "wrong-at"
#: Numbers of levels a rating may have; a number with fewer values than this is refused.
RATING_LEVELS, FEWEST_VALUES = range(3, 11), 11


class Section(BaseModel):
    """A part of the study file. Unknown keys are errors: a misspelt one must not pass as a default."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Response(Section):
    """The sensitive, self-reported answer: a number in a public range, yes or no, or a rating from 1 to `levels`.

    kind is None for a number, as in files of version 0.1. Yes is 1 and no is 0. step: numbers must be multiples of it;
    unit: the unit that people read.
    """

    name: Word
    kind: Literal["yes-no", "rating"] | None = None
    low: Number
    high: Number
    levels: int | None = Field(default=None, strict=True)
    step: Positive | None = None
    question: Words | None = None
    unit: Words | None = None

    @model_validator(mode="before")
    @classmethod
    def _ends(cls, data: Any) -> Any:
        """Fill in the ends of the range: a number declares them, the other kinds imply them."""
        if not isinstance(data, dict):
            return data
        kind, levels = data.get("kind"), data.get("levels")
        if kind == "number":
            return {**data, "kind": None}
        if kind not in (None, "yes-no", "rating"):
            raise wrong("kind", f"is {kind!r}; choose one of 'number', 'yes-no' or 'rating'.")
        if kind == "rating" and not (isinstance(levels, int) and levels in RATING_LEVELS):
            given = "missing" if levels is None else repr(levels)
            raise wrong(
                "levels",
                f"is {given}. A rating needs from {RATING_LEVELS[0]} to {RATING_LEVELS[-1]} levels: with two it "
                "is kind = 'yes-no', and more are a number.",
            )
        if kind is None:
            return data
        ends = (0.0, 1.0) if kind == "yes-no" else (1.0, float(levels or 0))
        for name, end in zip(("low", "high"), ends, strict=True):
            if data.get(name, end) != end:
                raise wrong(
                    name, f"is {data[name]!r}, but kind = {kind!r} has no ends to declare. Leave it out."
                )
        return {**data, "low": ends[0], "high": ends[1]}

    @model_validator(mode="after")
    def _range(self) -> Response:
        _check_range("The response", self.low, self.high)
        if self.kind != "rating" and self.levels is not None:
            raise wrong("levels", "goes with kind = 'rating'. Leave it out.")
        if self.kind is not None and self.step is not None:
            raise wrong("step", f"goes with numbers, and the response is a {self.kind}. Leave it out.")
        if self.step is not None and self.values < FEWEST_VALUES:
            fitting = "'yes-no'" if self.values <= 2 else f"'rating' and levels = {self.values}"
            raise wrong(
                "step",
                f"is {self.step:g}: people choose from {self.values} values only, and what is promised of numbers "
                f"does not hold for so few. Say kind = {fitting}.",
            )
        return self

    @property
    def values(self) -> int:
        """The number of different answers where known; 0: any number in the range."""
        if self.kind == "yes-no":
            return 2
        if self.kind == "rating":
            return self.levels or 0
        return 0 if self.step is None else 1 + int((self.high - self.low) / self.step * (1 + 1e-9))


class Invitation(Section):
    """The text people read before they answer: who asks, why, whom to contact, and who pays.

    payer: the name of the account that pays, shown to people. asker_pays: the asker also pays, so can work answers out
    from amounts and features; people are told so.
    """

    asked_by: Words
    purpose: Words
    contact: Words
    title: Words | None = None
    consent_version: Text | None = None
    consent_sha256: Text | None = None
    payer: Word | None = None
    asker_pays: Flag | None = None
    delete_after: date | None = None

    @field_validator("delete_after", mode="before")
    @classmethod
    def _day(cls, value: Any) -> Any:
        """Turn TOML's date into text, as records have it."""
        if isinstance(value, str):
            with suppress(ValueError):
                return date.fromisoformat(value)
        if value is not None and type(value) is not date:
            raise wrong((), f"is {value!r}; give a day, as 2027-06-30, without quotes and without a time.")
        return value

    @model_validator(mode="after")
    def _whole_document(self) -> Invitation:
        """Require both the version of a consent document, for people, and its hash, which identifies it."""
        if (self.consent_version is None) != (self.consent_sha256 is None):
            lacks = "consent_version" if self.consent_version is None else "consent_sha256"
            raise wrong(lacks, "is missing. A consent document has both a version and a hash.")
        if self.consent_sha256 is not None and not re.fullmatch("[0-9a-f]{64}", self.consent_sha256):
            raise wrong(
                "consent_sha256",
                f"is {self.consent_sha256!r}; give 64 hexadecimal digits, as sha256sum writes them.",
            )
        return self

    @model_validator(mode="after")
    def _one_pays(self) -> Invitation:
        if self.payer is not None and self.asker_pays:
            raise wrong("asker_pays", f"is true, but payer is {self.payer!r}. Leave one of them out.")
        return self


class Feature(Section):
    """A verified fact about a player: a number in a public range, or one of several levels.

    reference: the level that others are compared with, by default the first. Where features are assigned, values lists
    all that a number can be, and probabilities belong to values or levels. label, unit and level_labels are shown to
    people instead of names.
    """

    name: Word
    low: Number | None = None
    high: Number | None = None
    levels: tuple[Word, ...] | None = None
    sensitive: Flag | None = None
    reference: Word | None = None
    label: Words | None = None
    unit: Words | None = None
    level_labels: dict[str, Words] | None = None
    values: tuple[Number, ...] | None = None
    probabilities: tuple[Number, ...] | None = None

    @model_validator(mode="before")
    @classmethod
    def _ends_of_values(cls, data: Any) -> Any:
        """Where `values` are declared, the range runs from the least to the largest."""
        values = data.get("values") if isinstance(data, dict) else None
        if not isinstance(values, list | tuple) or not values or not all(map(_is_number, values)):
            return data
        for name, end in (("low", float(min(values))), ("high", float(max(values)))):
            if data.get(name, end) != end:
                raise wrong(name, f"is {data[name]!r}, but values has the ends of the range. Leave it out.")
            data = {**data, name: end}
        return data

    @field_validator("levels", mode="before")
    @classmethod
    def _numbers_as_text(cls, levels: Any) -> Any:
        if not isinstance(levels, list | tuple):
            return levels
        return [str(v) if _is_number(v) else v for v in levels]

    @field_validator("reference", mode="before")
    @classmethod
    def _number_as_text(cls, reference: Any) -> Any:
        return str(reference) if _is_number(reference) else reference

    @model_validator(mode="after")
    def _range_or_levels(self) -> Feature:
        title = f"Feature {self.name!r}"
        self._check_reference(title)
        self._check_probabilities(title)
        if self.levels is None:
            if (self.low is None) != (self.high is None):
                raise wrong("low" if self.low is None else "high", f"is missing. {title} needs both ends.")
            if self.low is not None and self.high is not None:
                _check_range(title, self.low, self.high)
            return self
        if self.low is not None or self.high is not None:
            raise wrong(
                "levels", f"are given together with low or high. {title} is one of levels or a number."
            )
        if len(self.levels) < 2:
            raise wrong("levels", f"is {list(self.levels)}. {title} needs at least two.")
        if repeated := [level for level, times in Counter(self.levels).items() if times > 1]:
            raise wrong("levels", f"names {repeated[0]!r} twice. {title} needs different levels.")
        return self

    def _check_reference(self, title: str) -> None:
        if unknown := [level for level in self.level_labels or () if level not in (self.levels or ())]:
            raise wrong(
                ("level_labels", unknown[0]),
                f"is given, but {title} has no such level. Leave it out, or declare it.",
            )
        if self.reference is not None and self.reference not in (self.levels or ()):
            known = f"its levels are {', '.join(self.levels)}" if self.levels else "it has no levels"
            raise wrong("reference", f"is {self.reference!r}. {title} has no such level: {known}.")

    def _check_probabilities(self, title: str) -> None:
        """Require as many probabilities as levels or values, all positive, with the sum 1."""
        values, probabilities = self.values, self.probabilities
        if values is not None and (len(values) < 2 or len(set(values)) < len(values)):
            raise wrong("values", f"is {list(values)}. {title} needs two or more, all different.")
        if probabilities is None:
            return
        cases, what = (self.levels, "level") if self.levels is not None else (values, "value")
        if cases is None:
            raise wrong("probabilities", f"goes with levels or values. {title} has neither; leave it out.")
        if len(probabilities) != len(cases):
            raise wrong(
                "probabilities",
                f"has {len(probabilities)} numbers, and {title} has {len(cases)} {what}s. Give one for each {what}.",
            )
        if not min(probabilities) > 0:
            at = min(range(len(cases)), key=lambda place: probabilities[place])
            raise wrong(
                ("probabilities", at),
                f"is {probabilities[at]:g}; it must be above 0. Leave the {what} {cases[at]!r} out if nobody gets it.",
            )
        if not abs(math.fsum(probabilities) - 1) <= PROBABILITY_SLACK:
            raise wrong("probabilities", f"has the sum {math.fsum(probabilities):.9g}; it must be 1.")


class Observed(Section):
    """Features as they come; optionally with a declared least eigenvalue of E[x xᵀ], normalised."""

    kind: Literal["observed"]
    least_eigenvalue: Positive | None = None


class Uniform(Section):
    """Independent features, uniform on their ranges and levels."""

    kind: Literal["uniform"]


class Assigned(Section):
    """Independent features with declared or equal probabilities."""

    kind: Literal["assigned"]


class Covariance(Section):
    """Features of known second moments: the d×d matrix E[x xᵀ] of the normalised x."""

    kind: Literal["covariance"]
    matrix: tuple[tuple[Number, ...], ...]


class UnitBall(Section):
    """x is given directly and is uniform on the unit ball."""

    kind: Literal["unit-ball"]


class PrivacySection(Section):
    """What is protected: answers, or whole records.

    publish_matrix: under `answers`, whether the exact sums of features are published. features_public: features are no
    secret at all, so that rare levels do no harm.
    """

    protects: Literal["answers", "records"]
    publish_matrix: Flag = True
    features_public: Flag = False


#: What a belief that can be given in two ways must be.
EITHER = {
    "centre": 'it must be a number, a table of names and numbers, or "predictions" to ask people.',
    "share": "give two shares, the least and the largest that you think possible.",
    "effect": "it must be a number, or a table of features and numbers.",
}


class DeclaredBeliefs(Section):
    """Beliefs of the players, in normalised units: ‖θ‖ ≤ R, |z| ≤ M.

    In units of the answer: centre; sure, how sure people are of the average (a standard deviation), and unsure, how
    sure the analyst is of their centre, which together set the width of the prior; tolerance, how far people's idea of
    the average may be from the declared one (for shares, as a share). With centre = "predictions" people are asked what
    the others will say, and only differences are declared: spread is the scatter of answers.
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
        """Read a single number as the average answer."""
        return {INTERCEPT: centre} if _is_number(centre) else centre

    @field_validator("centre", "share", "effect", mode="wrap")
    @classmethod
    def _either(cls, value: Any, check: ValidatorFunctionWrapHandler, info: ValidationInfo) -> Any:
        """Say in one sentence what a value of several kinds must be, if it is none of them."""
        try:
            return check(value)
        except ValidationError as problem:
            if info.field_name == "share" and isinstance(value, list | tuple) and len(value) == 2:
                raise problem  # one of the two is not a number
            if info.field_name == "centre" and isinstance(value, dict):
                name = next(last for error in problem.errors() if (last := error["loc"][-1]) in value)
                raise wrong(str(name), f"is {value[name]!r}; it must be a number.") from None
            raise wrong((), f"is {value!r}; {EITHER[str(info.field_name)]}") from None

    @model_validator(mode="after")
    def _consistent(self) -> DeclaredBeliefs:
        if self.share is not None:
            self._check_shares(self.share)
            return self
        if self.asked:
            self._check_asked()
            return self
        self._require_none(
            ("spread", "plausible"), 'goes with centre = "predictions". Leave it out, or say that.'
        )
        self._require_none(
            ("effect", "expected", "agreement", "implausible"),
            'goes with a share, for yes-no answers and ratings, or with centre = "predictions". Leave it out.',
        )
        researchers = (self.radius is not None, self.noise_bound is not None)
        if self.signal is None and researchers != (True, True):
            raise wrong("signal", "is missing. Give it, or both radius and noise_bound.")
        if self.signal is not None and any(researchers):
            raise wrong("signal", "is given together with radius or noise_bound. Give one or the other.")
        # prior_sd declares the width of the prior, or sure and unsure do; then prior_sd follows from them.
        if self.sure is None:
            self._require_none(
                ("unsure",), "goes with sure: say how sure people are of the average, too, or leave it out."
            )
            if (self.prior == "normal") != (self.prior_sd is not None):
                raise wrong("prior_sd", "goes with prior = 'normal', and that prior needs it.")
        elif "prior" in self.model_fields_set and self.prior == "uniform":
            raise wrong(
                "prior", "is 'uniform', but sure makes it a normal. Leave prior out, or leave sure out."
            )
        if self.noise == "uniform":
            self._require_none(("noise_sd",), "goes with noise = 'normal'. Leave it out.")
        R, M = self.bounds
        _check_width("prior_sd", self.prior_sd, "R", R)
        _check_width("noise_sd", self.noise_sd, "M", M)
        return self

    def _require_none(self, names: Iterable[str], words: str) -> None:
        for name in names:
            if getattr(self, name) is not None:
                raise wrong(name, words)

    @property
    def asked(self) -> bool:
        """Whether people are asked what the others will say."""
        return self.centre == "predictions"

    def _check_asked(self) -> None:
        self._require_none(
            ("signal", "radius", "noise_bound", "prior_sd", "noise_sd", "unsure", "agreement"),
            'declares what centre = "predictions" asks people for. Leave it out, and give sure and spread.',
        )
        for name, what, sd in (
            ("sure", "how far people may be off about the average", 10),
            ("spread", "how far answers scatter about it", 15),
        ):
            if getattr(self, name) is None:
                words = f"Say {what}, one standard deviation, such as {name} = {sd}, in units of the answer."
                raise wrong(name, f"is missing. {words}")
        if self.implausible == "flat" and self.plausible is None:
            raise wrong(
                "implausible", '= "flat" needs to know what is plausible, such as plausible = [2, 60].'
            )

    def _check_shares(self, share: tuple[float, float]) -> None:
        names = ["signal", "radius", "noise_bound", "prior_sd", "noise_sd", "spread", "plausible", "unsure"]
        names += [] if self.asked else ["centre", "sure"]
        if self.asked and self.sure is None:
            raise wrong(
                "sure",
                "is missing. Say how far people may be off about the share, one standard deviation, such as "
                "sure = 0.05.",
            )
        words = "goes with answers that are numbers. Leave it out, or leave share out."
        self._require_none(names, words)
        for name in ("prior", "noise"):
            if getattr(self, name) != DeclaredBeliefs.model_fields[name].default:
                raise wrong(name, words)
        low, high = share
        if not 0 <= low < high <= 1:
            raise wrong(
                "share",
                f"is [{low:g}, {high:g}]. Give the least and the largest share that you think possible, the smaller "
                "one first, between 0 and 1.",
            )

    @property
    def bounds(self) -> tuple[float, float]:
        """(R, M): the bounds of ‖θ‖ and of |z|."""
        if self.signal is not None:
            return self.signal, 1.0 - self.signal
        return cast(float, self.radius), cast(float, self.noise_bound)


class PaymentsSection(Section):
    """Composition of payments: predictions earn at most this share of the maximum payment."""

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
    """Quantiles of costs, here or in a file next to the study; the file's content becomes part of the declaration."""

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
            raise wrong("file", "is given together with probabilities or values. Give one or the other.")
        directory: Path | None = (info.context or {}).get("directory")
        if directory is None:
            # A declaration may come from anywhere; it must not make this machine open files.
            raise wrong(
                "file", "is only read for a study that is itself a file. Give probabilities and values."
            )
        costs = EmpiricalCosts.load(directory / data["file"])
        return {**data, "probabilities": costs.probabilities, "values": costs.values}

    @model_validator(mode="after")
    def _quantiles(self) -> Empirical:
        EmpiricalCosts(self.probabilities, self.values)
        return self


def _check_range(title: str, low: float, high: float) -> None:
    if not low < high:
        raise wrong(
            "low", f"is {low:g}, not below high = {high:g}. {title} needs its least possible value as low."
        )
    if not max(-low, high) <= LARGEST:
        name, value = ("high", high) if high > LARGEST else ("low", low)
        raise wrong(name, f"is {value:g}, beyond ±{LARGEST:g}. {title} needs a realistic range.")
    if not high - low >= 1 / LARGEST:
        raise wrong(
            "high",
            f"is {high:g}, less than {1 / LARGEST:g} above low = {low:g}. {title} needs a wider range: choose a larger "
            "unit.",
        )


def _check_width(name: str, sd: float | None, symbol: str, bound: float) -> None:
    # Accept the rounded number that the message suggests.
    if sd is not None and not sd >= NARROWEST * bound * (1 - 1e-5):
        raise wrong(
            name,
            f"is {sd:g}, below {NARROWEST:g} of its bound {symbol} = {bound:g}, too narrow to compute with. Give "
            f"{NARROWEST * bound:g} or more, or a smaller bound.",
        )


def few_values(response: Response) -> str | None:
    """Warn of a numeric response with too few values: judged by the declared range, never by answers."""
    low, high = response.low, response.high
    whole = low == int(low) and high == int(high)
    if response.kind is not None or response.step is not None or not whole or high - low >= FEWEST_VALUES - 1:
        return None
    doing, kind = "answer yes or no", 'kind = "yes-no" in [response]'
    if high - low > 1:
        doing = "choose from so few whole numbers"
        kind = f'kind = "rating" and levels = {high - low + 1:g} in [response], or kind = "yes-no"'
    return (
        f"The response is a number from {low:g} to {high:g}. If people {doing}, what is promised of truthfulness and "
        f"accuracy does not hold for a number: say {kind}."
    )
