"""The content of a study file, checked as a whole. `truthful.study` computes what follows from it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Annotated, Any, cast

import numpy as np
from pydantic import Field, ValidationInfo, field_validator, model_validator

from truthful.beliefs import NormalBall, UniformBall
from truthful.check import Floats
from truthful.errors import InputError
from truthful.study.credibility import LevelBeliefs, ShareBeliefs
from truthful.study.features import (
    INTERCEPT,
    MOST_COMBINATIONS,
    AsGiven,
    Column,
    Encoding,
    Interaction,
    Levels,
    Numeric,
    combinations,
    group_interactions,
)
from truthful.study.sections import (
    LANGUAGE,
    NARROWEST,
    Assigned,
    Covariance,
    DeclaredBeliefs,
    Empirical,
    Feature,
    Flag,
    Invitation,
    Lognormal,
    Observed,
    Pareto,
    PaymentsSection,
    PrivacySection,
    Response,
    Section,
    Text,
    Translated,
    Uniform,
    UnitBall,
    Word,
    wrong,
    wrong_at,
)

# The largest width of a normal prior, as a part of the uniform one's.
WIDEST = 0.995

PLAYER = "player"
"""The column of a file of reports that identifies people."""
PREDICTION = "prediction"
"""The column of predictions of the others' answers, where people are asked for them."""
# Other columns of receipts and coefficients: no feature may have these names.
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
# More of them, where people are asked what the others will say.
RESERVED_ASKED = (PREDICTION, "others_answer", "others_prediction", "surprise")


class Declaration(Section):
    """The whole study file."""

    name: Text
    language: Annotated[str, Field(strict=True, pattern=f"^{LANGUAGE}$")] | None = None
    currency: Annotated[str, Field(strict=True, pattern=r"^[A-Z]{3}$")]
    intercept: Flag = True
    invitation: Invitation | None = None
    response: Response
    features: tuple[Feature, ...] = ()
    interactions: tuple[tuple[Word, Word], ...] | None = None
    design: Annotated[Observed | Uniform | Assigned | Covariance | UnitBall, Field(discriminator="kind")]
    privacy: PrivacySection | None = None
    beliefs: DeclaredBeliefs
    costs: Annotated[Pareto | Lognormal | Empirical, Field(discriminator="kind")]
    payments: PaymentsSection | None = None

    @model_validator(mode="before")
    @classmethod
    def _no_intercept_on_the_ball(cls, data: Any) -> Any:
        design = data.get("design") if isinstance(data, dict) else None
        if isinstance(design, dict) and design.get("kind") == "unit-ball":
            return {"intercept": False, **data}
        return data

    @field_validator("interactions", mode="before")
    @classmethod
    def _pairs(cls, interactions: Any) -> Any:
        """Take an empty list as None; say in one sentence what is not a list of pairs."""
        for at, pair in enumerate(interactions if isinstance(interactions, list | tuple) else ()):
            if not isinstance(pair, list | tuple) or len(pair) != 2 or pair[0] == pair[1]:
                raise wrong((at,), f"is {pair!r}; give the names of two different features, in [ ].")
        return interactions or None

    @field_validator("beliefs", mode="before")
    @classmethod
    def _share_is_declared(cls, beliefs: Any, info: ValidationInfo) -> Any:
        """For yes or no and for ratings, report a missing share before anything else."""
        response: Response | None = info.data.get("response")
        known = not isinstance(beliefs, dict) or beliefs.get("share") is not None
        if known or response is None or response.kind is None:
            return beliefs
        scale = ", of the way from the lowest rating to the highest" if response.kind == "rating" else ""
        raise wrong(
            "share",
            f"is missing. For kind = {response.kind!r} say which share you think possible{scale}, such as share = "
            "[0.05, 0.40].",
        )

    @model_validator(mode="after")
    def _consistent(self) -> Declaration:
        self._check_languages()
        self._check_names()
        self._check_features()
        self._check_interactions()
        self._check_design(self.encoding.dimension)
        self._check_predictions()
        self._check_tolerance()
        if self.beliefs.share is not None:
            self._check_shares()
        elif not self.beliefs.asked:
            self._check_centre()
            self._set_width()
        try:
            _ = self.shares, self.levels
        except InputError as problem:
            raise wrong("beliefs", str(problem), ": ") from None
        return self

    def in_language(self, language: str) -> Declaration:
        """Translate each text into this language, or the study's own if it lacks this one."""
        return cast(Declaration, _speak(self, self.spoken(language) or "")) if self.languages else self

    @property
    def title(self) -> Any:
        """What people read as the study's name."""
        return (self.invitation and self.invitation.title) or self.name

    def spoken(self, language: str) -> str | None:
        """The language shown to somebody who asks for this one; None if the study declares none."""
        return language if language in self.languages else self.language

    @cached_property
    def languages(self) -> tuple[str, ...]:
        """The languages of all translated texts."""
        texts = list(_translations(self))
        return tuple(texts[0]) if texts else ()

    def _check_languages(self) -> None:
        for text in _translations(self):
            if self.language is None:
                raise wrong(
                    "language",
                    f"is missing. Texts are given in {', '.join(text)}: say which of them is read by people who speak "
                    f"none of these, such as language = {next(iter(text))!r}.",
                )
            if self.language not in text or set(text) != set(self.languages):
                wanted = ", ".join(dict.fromkeys((self.language, *self.languages)))
                raise ValueError(
                    f"A text is given in {', '.join(text)}. Give every text of several languages in the same ones, "
                    f"{wanted}, so that nobody reads two at once."
                )

    @cached_property
    def encoding(self) -> Encoding:
        ball = isinstance(self.design, UnitBall)
        columns: dict[str, Column] = {}
        for feature in self.features:
            name, likely = feature.name, feature.probabilities
            if ball:
                columns[name] = AsGiven(name)
            elif feature.levels is not None:
                columns[name] = Levels(name, feature.levels, feature.reference, likely)
            else:
                ends = cast(float, feature.low), cast(float, feature.high)
                columns[name] = Numeric(name, *ends, feature.values, likely)
        products = tuple(
            Interaction(columns[first], columns[second]) for first, second in self.interactions or ()
        )
        return Encoding(tuple(columns.values()), self.intercept, scaled=not ball, products=products)

    @cached_property
    def centre(self) -> Floats:
        """The centre of the prior, normalised by `normalise_coefficients`."""
        return self.normalise_coefficients(
            self.beliefs.centre if isinstance(self.beliefs.centre, dict) else {}
        )

    def normalise_coefficients(self, raw: Mapping[str, float]) -> Floats:
        """Coefficients of x from raw ones, half the response's range being 1."""
        values, low, high = dict(raw), self.response.low, self.response.high
        if INTERCEPT in values:
            values[INTERCEPT] -= (low + high) / 2
        return self.encoding.codes(values) * (self.encoding.scale * 2 / (high - low))

    def _check_names(self) -> None:
        taken = set(RESERVED)
        for where, name in self._names():
            if name in taken:
                raise wrong_at(
                    where,
                    f"The name {name!r} is used twice. The response and every feature need a name of their own; "
                    f"{', '.join(map(repr, RESERVED))} are taken.",
                )
            taken.add(name)

    def _names(self) -> Iterator[tuple[tuple[int | str, ...], str]]:
        """The names of columns and coefficients, each with where it is declared."""
        yield ("response", "name"), self.response.name
        for i, feature in enumerate(self.features):
            yield ("features", i, "name"), feature.name
        for i, feature in enumerate(self.features):
            yield from (
                (("features", i, "levels"), f"{feature.name}={level}") for level in feature.levels or ()
            )
        for i, pair in enumerate(self.interactions or ()):
            yield ("interactions", i), ":".join(pair)

    def _check_features(self) -> None:
        if not self.features and not self.intercept:
            raise ValueError("There are no features and no intercept: nothing to estimate. Add [[features]].")
        ball = isinstance(self.design, UnitBall)
        if ball and self.intercept:
            raise wrong("intercept", "is true, but design.kind = 'unit-ball' has none. Leave it out.")
        for i, feature in enumerate(self.features):
            if ball and feature.levels is not None:
                raise wrong(
                    ("features", i, "levels"), "is given, but design.kind = 'unit-ball' takes numbers only."
                )
            if not ball and feature.levels is None and feature.low is None:
                raise wrong(
                    ("features", i, "low"),
                    f"is missing. Feature {feature.name!r} needs its public range (low and high) or its levels. They "
                    "are never read off the data: that would leak.",
                )
            for key in ("values", "probabilities"):
                if getattr(feature, key) is not None and not isinstance(self.design, Assigned):
                    raise wrong(
                        ("features", i, key),
                        f"is given, but design.kind is {self.design.kind!r}. It goes with features that you assign by "
                        "it: say design.kind = 'assigned', or leave it out.",
                    )
            if feature.sensitive and self.privacy is not None and self.privacy.protects == "answers":
                raise wrong_at(
                    ("features", i),
                    f"Feature {feature.name!r} is sensitive, but privacy.protects = 'answers' publishes sums of "
                    "features as they are. Say protects = 'records', or leave the feature out.",
                )

    def _check_interactions(self) -> None:
        """Check interactions before computing with them: pairs of declared features, each once, and not too many."""
        names = [feature.name for feature in self.features]
        seen: set[frozenset[str]] = set()
        for at, pair in enumerate(self.interactions or ()):
            if isinstance(self.design, UnitBall):
                raise wrong(
                    "interactions",
                    "are given, but design.kind = 'unit-ball' has none: products of features that are uniform on the "
                    "ball have another law. Leave them out, or give features a range.",
                )
            if unknown := [name for name in pair if name not in names]:
                raise wrong(
                    ("interactions", at),
                    f"names {unknown[0]!r}, which is no feature; the features are {', '.join(names) or 'none'}.",
                )
            if frozenset(pair) in seen:
                raise wrong(("interactions", at), f"is {list(pair)}, which is there already. Leave it out.")
            seen.add(frozenset(pair))
        most = max(map(combinations, group_interactions(self.encoding)), default=0)
        if self.interactions and most > MOST_COMBINATIONS:
            raise wrong(
                "interactions",
                f"link features of {most:,} combinations, one with the next; at most {MOST_COMBINATIONS:,} can be "
                "computed with (a number counts three). Leave some out.",
            )

    def _check_design(self, d: int) -> None:
        if isinstance(self.design, Covariance):
            _check_second_moments(self.design.matrix, d, self.intercept)
        if isinstance(self.design, Observed) and not (self.design.least_eigenvalue or 0.0) <= 1 / d + 1e-9:
            raise wrong(
                ("design", "least_eigenvalue"),
                f"is {self.design.least_eigenvalue:g}; with {d} columns of x it is at most 1/{d} = {1 / d:g}.",
            )

    def _check_predictions(self) -> None:
        """Check that what is declared fits whether people are asked for predictions."""
        if not self.beliefs.asked:
            if self.payments is not None:
                raise wrong(
                    ("payments", "prediction_bonus"),
                    'goes with beliefs.centre = "predictions". Leave it out, or say that.',
                )
            return
        if not self.intercept:
            raise wrong(
                "intercept",
                'is false, but beliefs.centre = "predictions" asks for the level, which needs one.',
            )
        privacy = self.privacy or PrivacySection(protects="answers")
        if privacy.protects != "answers" or not privacy.publish_matrix:
            raise wrong(
                ("beliefs", "centre"),
                '= "predictions" takes the mean of features from those who answer, and everybody must be able to check '
                'it: it needs privacy.protects = "answers" and publish_matrix = true.',
            )
        for where, name in self._names():
            if name in RESERVED_ASKED:
                raise wrong_at(
                    where,
                    f"The name {name!r} is taken: where people are asked for predictions, {', '.join(RESERVED_ASKED)} "
                    "are columns of reports and receipts. Rename it.",
                )

    def _check_shares(self) -> None:
        if self.response.kind is None:
            raise wrong(
                ("beliefs", "share"),
                "goes with kind = 'yes-no' or 'rating' in [response], which is a number here. Say the kind, or declare "
                "beliefs.signal.",
            )
        if not self.intercept:
            raise wrong(
                "intercept",
                f"is false, but a study with kind = {self.response.kind!r} needs one. Leave it out.",
            )
        if self.response.kind == "yes-no" and self.beliefs.agreement is not None:
            raise wrong(("beliefs", "agreement"), "goes with kind = 'rating'. Leave it out.")
        if self.features and self.beliefs.effect is None:
            raise wrong(
                ("beliefs", "effect"),
                "is missing. Say how much one feature, from one end to the other, can change the share at most, such "
                "as effect = 0.1.",
            )
        if not self.features and (self.beliefs.effect is not None or self.beliefs.expected):
            raise wrong(("beliefs", "effect"), "is given, but there are no features. Leave it out.")

    def _check_centre(self) -> None:
        try:
            furthest = self.centre_reach
        except InputError as problem:
            raise wrong(("beliefs", "centre"), str(problem), ": ") from None
        if not furthest < 1:
            raise wrong(
                ("beliefs", "centre"),
                f"predicts up to {furthest:.3g} of half the response's range away from its middle; it must be below 1, "
                "so that predictions stay in the range. Widen the range or shrink the centre.",
            )

    def _check_tolerance(self) -> None:
        tolerance, width = self.beliefs.tolerance, self.response.high - self.response.low
        unit, most = ("units of the answer", width) if self.beliefs.share is None else ("shares", 1.0)
        if tolerance is not None and not tolerance < most:
            raise wrong(
                ("beliefs", "tolerance"),
                f"is {tolerance:g}; it is in {unit}, which range over {most:g}. Give less than that.",
            )

    def _set_width(self) -> None:
        """Set prior_sd from `sure`, widened by `unsure`.

        A prior_sd that is declared already is kept if it agrees.
        """
        beliefs = self.beliefs
        if beliefs.sure is None:
            return
        sd = self._width(math.hypot(beliefs.sure, beliefs.unsure or 0.0))
        if beliefs.prior_sd is None:
            known = beliefs.model_copy(update={"prior": "normal", "prior_sd": sd})
            object.__setattr__(self, "beliefs", known)
        elif not math.isclose(beliefs.prior_sd, sd, rel_tol=1e-4):
            raise wrong(
                ("beliefs", "prior_sd"),
                f"is {beliefs.prior_sd:g}, but with sure it follows: {sd:g}. Leave prior_sd out.",
            )

    def _width(self, spread: float) -> float:
        """The sd (six digits) of a normal prior truncated at R that gives the average answer this spread."""
        if not self.intercept:
            raise wrong(
                ("beliefs", "sure"),
                "is about the average answer, but intercept is false. Declare prior_sd instead.",
            )
        (R, M), d = self.beliefs.bounds, self.encoding.dimension
        half = (R + M) / (1 - self.centre_reach)
        unit = (self.response.high - self.response.low) / (2 * half) / self.encoding.scale
        least, most = NARROWEST * R * unit, WIDEST * UniformBall(R).variance(d) ** 0.5 * unit
        if not least <= spread <= most:
            end, limit, advice = (
                ("most", most, "Raise signal, or lower") if spread > most else ("least", least, "Raise")
            )
            raise wrong(
                ("beliefs", "sure"),
                f"and unsure come to a standard deviation of {spread:.4g} of the average answer; with these bounds and "
                f"{d} coefficient{'s' if d > 1 else ''} it can be {limit:.4g} at {end}. {advice} them.",
            )
        low, high = math.log(spread / unit), math.log(spread / unit * 1e3)
        for _ in range(60):
            middle = (low + high) / 2
            wide = NormalBall(R, math.exp(middle)).variance(d) > (spread / unit) ** 2
            low, high = (low, middle) if wide else (middle, high)
        return float(f"{math.exp(low):.6g}")

    @cached_property
    def shares(self) -> ShareBeliefs | None:
        """Beliefs about shares, where answers are yes or no, or ratings."""
        beliefs = self.beliefs
        if beliefs.share is None:
            return None
        return ShareBeliefs.of(
            self.encoding,
            beliefs.share,
            self.effects,
            beliefs.expected or {},
            levels=self.response.values,
            agreement=0.3 if beliefs.agreement is None else beliefs.agreement,
        )

    @cached_property
    def levels(self) -> LevelBeliefs | None:
        """Beliefs about differences, where people are asked what the others will say."""
        beliefs, response = self.beliefs, self.response
        if not beliefs.asked or beliefs.sure is None:
            return None
        if self.shares is not None:
            return LevelBeliefs.of_shares(self.encoding, self.shares, beliefs.sure)
        if self.features and beliefs.effect is None:
            raise wrong(
                ("beliefs", "effect"),
                "is missing. Say how much one feature, from one end to the other, can change the average answer at "
                "most, in units of the answer.",
            )
        ends = beliefs.plausible or (response.low, response.high)
        if not response.low <= ends[0] < ends[1] <= response.high:
            raise wrong(
                ("beliefs", "plausible"),
                f"is [{ends[0]:g}, {ends[1]:g}]. Give the least and the largest average that you think possible, the "
                f"smaller one first, between {response.low:g} and {response.high:g}.",
            )
        return LevelBeliefs.of_numbers(
            self.encoding,
            (response.low, response.high),
            ends,
            self.effects,
            beliefs.expected or {},
            beliefs.sure,
            beliefs.spread or 0.0,
        )

    @property
    def effects(self) -> dict[str, float]:
        """The largest effect of each feature and each interaction."""
        effect, names = self.beliefs.effect, [term.name for term in self.encoding.terms]
        if not isinstance(effect, dict):
            return dict.fromkeys(names, effect or 0.0)
        if unknown := sorted(set(effect) - set(names)):
            raise wrong(
                ("beliefs", "effect"),
                f"names {unknown[0]!r}, which is no feature; the features are {', '.join(names)}.",
            )
        if missing := [name for name in names if name not in effect]:
            raise wrong(
                ("beliefs", "effect"),
                f"says nothing of {missing[0]!r}. Give the largest effect of every feature.",
            )
        return effect

    @cached_property
    def centre_reach(self) -> float:
        """The largest distance, over all features, of the centre's prediction from the middle of the range, in half
        ranges.
        """
        return min(float(np.linalg.norm(self.centre)), self.encoding.reach(self.centre))


def _speak(value: Any, language: str) -> Any:
    if isinstance(value, Translated):
        return value[language]
    if isinstance(value, Section):
        said = {name: _speak(getattr(value, name), language) for name in type(value).model_fields}
        return value.model_copy(
            update={name: part for name, part in said.items() if part is not getattr(value, name)}
        )
    if isinstance(value, Mapping):
        return {name: _speak(part, language) for name, part in value.items()}
    return tuple(_speak(part, language) for part in value) if isinstance(value, tuple) else value


def _translations(value: Any) -> Iterator[Translated]:
    """Find every translated text."""
    if isinstance(value, Translated):
        yield value
    elif isinstance(value, Section):
        yield from _translations(tuple(getattr(value, name) for name in type(value).model_fields))
    elif isinstance(value, Mapping | tuple):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _translations(part)


def _check_second_moments(rows: tuple[tuple[float, ...], ...], d: int, intercept: bool) -> None:
    """Check E[x xᵀ] for d columns in [−1/√d, 1/√d], the first of them 1/√d if there is an intercept."""
    place = ("design", "matrix")
    if len(rows) != d or any(len(row) != d for row in rows):
        shape = f"{len(rows)}×{'/'.join(str(n) for n in sorted({len(row) for row in rows}))}"
        raise wrong(place, f"is {shape}; x has {d} columns, so it must be {d}×{d}.")
    matrix = np.array(rows)
    if not np.allclose(matrix, matrix.T, rtol=0, atol=1e-12):
        i, j = np.unravel_index(np.argmax(np.abs(matrix - matrix.T)), matrix.shape)
        raise wrong(
            place, f"is not symmetric: [{i}][{j}] is {matrix[i, j]:g}, [{j}][{i}] is {matrix[j, i]:g}."
        )
    least = float(np.linalg.eigvalsh(matrix)[0])
    if not least > 0:
        raise wrong(place, f"has the eigenvalue {least:g}; all must be above 0.")
    largest = int(np.argmax(np.diag(matrix)))
    if not matrix[largest, largest] <= 1 / d + 1e-9:
        raise wrong(
            (*place, largest, largest),
            f"is {matrix[largest, largest]:g}, above 1/{d}: the columns of the normalised x lie in ±1/√{d}, so the "
            "trace is at most 1.",
        )
    if intercept and not abs(matrix[0, 0] - 1 / d) <= 1e-6:
        raise wrong((*place, 0, 0), f"is {matrix[0, 0]:g}; the intercept makes it 1/{d} = {1 / d:g}.")
