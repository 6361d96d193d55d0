"""A study: one question, the people asked, and beliefs about their answers. Everything in it is public.

A Study owns the two maps between the analyst's units and the normalised problem y = θ·x + z with ‖x‖ ≤ 1, ‖θ‖ ≤ R, |z|
≤ M: raw values to x and y, and θ back to raw coefficients. Ranges are declared, never taken from the data, which would
leak.

The response's range [low, high] maps to [−H, H]. Without a centre H = Y = R + M. With a centre θ₀ the problem is solved
for the remainder after θ₀·x, which is bounded by Y, and H = Y + sup|θ₀·x|: every answer the beliefs allow lies in the
declared range. θ₀ is declared in raw units, so what it predicts grows with H: if that is at most k where half the range
is 1, then |θ₀·x| ≤ kH, hence H = Y/(1 − k). So k must be below 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from truthful import check
from truthful.beliefs import Beliefs
from truthful.beliefs.laws import NormalBall, TruncatedNormal, UniformBall, UniformNoise
from truthful.check import Floats
from truthful.costs import PRIVACY_COSTS, Costs, EmpiricalCosts, LognormalCosts, ParetoCosts
from truthful.errors import InputError, Refused
from truthful.files import sha256, write_atomically
from truthful.study.credibility import LevelBeliefs, ShareBeliefs
from truthful.study.declaration import Declaration
from truthful.study.features import (
    Column,
    CovarianceDesign,
    Design,
    IndependentDesign,
    Interaction,
    ObservedDesign,
    RawColumns,
    UnitBallDesign,
    put_place,
)
from truthful.study.parser import declare, parse_toml
from truthful.study.sections import (
    Assigned,
    Covariance,
    Empirical,
    Feature,
    Lognormal,
    Observed,
    Pareto,
    PaymentsSection,
    Response,
    Uniform,
    UnitBall,
)


def template() -> str:
    """A study file to start from, with every option explained."""
    return resources.files("truthful.study").joinpath("template.toml").read_text(encoding="utf-8")


def write_template(directory: Path) -> Path:
    """Write the template into a directory, made if need be. An existing study is kept."""
    path = directory / "study.toml"
    if path.exists():
        raise Refused(f"{str(path)!r} exists already. Edit it, or name another directory.")
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise InputError(f"The directory {str(directory)!r} cannot be made: {problem.strerror}.") from None
    write_atomically(path, template())
    return path


PROTECT_WHAT = (
    "The study does not say what is protected, and its features are people's own. Add a section to the study file:\n"
    '  [privacy]\n  protects = "answers"   # or "records"\n'
    "With answers, people's answers are protected and their features are not: sums over everybody's features are "
    "published as they are. Choose it if features are known to those who will see the result, or are nothing anybody "
    "minds. With records, features are protected like answers, which takes far more people or money. Choose it if a "
    "feature is itself delicate: a diagnosis, religion, the income of people who can be recognised."
)


@dataclass(frozen=True, eq=False)
class Study:
    """The content of a study file, and what follows from it. Studies that declare the same are equal."""

    declared: Declaration
    path: Path | None = None
    """The file it was loaded from; not part of the declaration."""

    @classmethod
    def load(cls, path: str | Path) -> Study:
        """Load a study from a TOML file."""
        path = check.path("path", path)
        try:
            text = path.read_text(encoding="utf-8")
        except FileNotFoundError:
            raise InputError(
                f"There is no study file {str(path)!r}. `truthful new DIR` writes one to start from."
            ) from None
        except OSError as problem:
            raise InputError(f"The study file {str(path)!r} cannot be read: {problem.strerror}.") from None
        except UnicodeDecodeError:
            raise InputError(f"The study file {str(path)!r} is not UTF-8 text.") from None
        return cls(declare(parse_toml(text, path.name), path.name, path.parent)).at(path)

    @classmethod
    def parse(cls, text: str) -> Study:
        """Read a study from the text of a study file, which may not name files to read: anybody may have written it."""
        return cls(declare(parse_toml(check.text("text", text), "study"), "study"))

    @classmethod
    def from_declaration(cls, record: Mapping[str, Any]) -> Study:
        """Read a study from a record written by `declaration`; it may not name files."""
        return cls(declare(record, "study"))

    def declaration(self) -> dict[str, Any]:
        """The declaration as a plain record for JSON, with defaults and the quantiles of a named file."""
        return self.declared.model_dump(mode="json", exclude_none=True)

    def in_language(self, language: str) -> Declaration:
        """The declaration with texts in this language."""
        return _in_language(self, language)

    @cached_property
    def sha256(self) -> str:
        """Hash of the declaration; comments, order of keys and spelt-out defaults do not matter."""
        return sha256(self.declaration())

    def at(self, path: Path) -> Study:
        """This study, with this path."""
        return replace(self, path=path.resolve())  # one study, one ledger, by whatever path it is reached

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Study) and self.sha256 == other.sha256

    def __hash__(self) -> int:
        return hash(self.sha256)

    @property
    def name(self) -> str:
        return self.declared.name

    @property
    def currency(self) -> str:
        return self.declared.currency

    @property
    def response(self) -> Response:
        return self.declared.response

    @property
    def features(self) -> tuple[Feature, ...]:
        return self.declared.features

    @property
    def dimension(self) -> int:
        """d, the columns of x, intercept included."""
        return self.declared.encoding.dimension

    @property
    def kind(self) -> str:
        """The kind of answer: a number, yes or no, or a rating."""
        return self.response.kind or "number"

    @property
    def shares(self) -> ShareBeliefs | None:
        """Beliefs about shares, where answers are yes or no, or ratings."""
        return self.declared.shares

    @property
    def levels(self) -> LevelBeliefs | None:
        """Beliefs about differences, where people are asked what the others will say."""
        return self.declared.levels

    @property
    def prediction_bonus(self) -> float:
        """The share of a person's maximum payment that is for her prediction of the others' answers."""
        return (self.declared.payments or PaymentsSection()).prediction_bonus

    @property
    def prediction_range(self) -> tuple[float, float]:
        """The range of predictions: how many of 100 others say yes, or the average answer."""
        return (0.0, 100.0) if self.kind == "yes-no" else (self.response.low, self.response.high)

    @property
    def believed(self) -> Beliefs | ShareBeliefs | LevelBeliefs:
        """Beliefs about numbers, shares or differences: all know the bound on answers."""
        if self.levels is not None:
            return self.levels
        return self.beliefs if self.shares is None else self.shares

    @cached_property
    def beliefs(self) -> Beliefs:
        """The prior and the noise distribution, about the centre."""
        section, asks = self.declared.beliefs, None
        if self.shares is not None:
            asks = f"for answers of kind {self.kind!r}, of which shares are believed and no numbers"
        elif self.levels is not None:
            asks = "people what the others will say, so that no prior is declared"
        if asks is not None:
            raise InputError(f"Study {self.name!r} asks {asks}: this is not possible for it.")
        R, M = section.bounds
        return Beliefs(
            self.dimension,
            UniformBall(R) if section.prior_sd is None else NormalBall(R, section.prior_sd),
            UniformNoise(M) if section.noise == "uniform" else TruncatedNormal(M, section.noise_sd or M / 2),
        )

    @property
    def tolerance(self) -> float:
        """How far people's idea of the average may be from the declared one, normalised; for shares, as a share."""
        declared = self.declared.beliefs.tolerance or 0.0
        return declared / self.response_unit if declared and self.shares is None else declared

    @property
    def level_tolerance(self) -> float:
        """The tolerance where people are asked what the others will say, half the scale of answers being 1."""
        return (self.declared.beliefs.tolerance or 0.0) / self.response_unit

    def with_tolerance(self, part: float) -> Study:
        """This study with a part of its tolerance."""
        beliefs = self.declared.beliefs
        less = beliefs.model_copy(update={"tolerance": part * (beliefs.tolerance or 0.0) or None})
        return replace(self, declared=self.declared.model_copy(update={"beliefs": less}))

    @property
    def protects(self) -> str:
        """What is protected, "answers" or "records": as declared; answers where features are assigned."""
        if self.declared.privacy is not None:
            return self.declared.privacy.protects
        if any(feature.sensitive for feature in self.features):
            return "records"
        if self.declared.design.kind == "observed":
            raise InputError(PROTECT_WHAT)
        return "answers"

    @property
    def assigned(self) -> bool:
        """Whether the analyst draws features at random, so that they say nothing about anybody."""
        return self.declared.design.kind in ("uniform", "assigned", "unit-ball")

    @property
    def publishes_matrix(self) -> bool:
        """Whether the exact sums of features are published, where answers are protected."""
        return self.declared.privacy is None or self.declared.privacy.publish_matrix

    @cached_property
    def costs(self) -> Costs:
        """The distribution of what privacy is worth to people."""
        section = self.declared.costs
        match section:
            case Pareto():
                return ParetoCosts(tail=section.tail, scale=section.scale)
            case Lognormal():
                return LognormalCosts(median=section.median, sigma=section.sigma)
            case Empirical():
                return EmpiricalCosts(section.probabilities, section.values)

    def privacy_cost(self, epsilon: float) -> float:
        """h(ε), the cost of privacy at level ε per unit of c."""
        return float(PRIVACY_COSTS[self.declared.costs.privacy](check.nonnegative("epsilon", epsilon)))

    # Maps

    @cached_property
    def half_range(self) -> float:
        """H, the normalised half range of the response: Y/(1 − k)."""
        if self.shares is not None or self.levels is not None:
            return self.believed.response_bound
        return float(self.beliefs.response_bound) / (1.0 - self.declared.centre_reach)

    @property
    def centre(self) -> Floats:
        """θ₀, the centre of the prior, normalised. It is part of every prediction but not of θ."""
        return self.half_range * self.declared.centre

    @property
    def response_unit(self) -> float:
        """Raw response per normalised unit."""
        return (self.response.high - self.response.low) / (2 * self.half_range)

    def normalise(self, columns: Mapping[str, Any], rows: int | None = None) -> Floats:
        """x for every row of the raw columns: numbers, places of levels (integers) or levels (text).

        A study without features has no columns; `rows` then gives the number of people.
        """
        return self.declared.encoding.normalise(columns, rows)

    def normalise_response(self, raw: npt.ArrayLike, X: Floats) -> Floats:
        """y for raw responses: mapped to [−H, H], less what the centre predicts. Not clipped."""
        y, low, high = np.empty(np.shape(raw)), self.response.low, self.response.high
        put_place(raw, low, high, self.half_range / (high - low), y)
        return y - self._centre_prediction(X) if self.centre.any() else y

    def normalise_predictions(self, raw: npt.ArrayLike) -> Floats:
        """Predictions of the others' answers, mapped to [−1, 1]. Not clipped."""
        (low, high), m = self.prediction_range, np.empty(np.shape(raw))
        put_place(raw, low, high, 1.0 / (high - low), m)
        return m

    def raw_response(self, y: npt.ArrayLike, X: Floats) -> Floats:
        """Raw responses for y: the inverse of `normalise_response`."""
        normalised = np.asarray(y, dtype=np.float64) + self._centre_prediction(X)
        return np.asarray((self.response.low + self.response.high) / 2 + self.response_unit * normalised)

    def _centre_prediction(self, X: Floats) -> Floats:
        """θ₀·x, summed column by column: a matrix product would round a record differently by batch size."""
        total = np.zeros(len(X))
        for column, weight in zip(X.T, self.centre, strict=True):
            total += column * weight
        return total

    @cached_property
    def coefficient_map(self) -> tuple[Floats, Floats]:
        """(L, offset): raw coefficients are L θ + offset, in the order of `coefficient_names`."""
        encoding = self.declared.encoding
        L = self.response_unit / encoding.scale * encoding.effects
        offset = L @ self.centre
        offset[0] += (self.response.low + self.response.high) / 2
        # Without an intercept column the raw intercept is implied, and left out if it is zero for every θ.
        start = 0 if encoding.intercept or L[0].any() or offset[0] != 0 else 1
        return L[start:], offset[start:]

    @cached_property
    def coefficient_names(self) -> tuple[str, ...]:
        """The intercept first, then features and interactions; `region=north` for the effect of a level."""
        names = self.declared.encoding.names
        return names[len(names) - len(self.coefficient_map[1]) :]

    def raw_coefficients(self, theta: npt.ArrayLike) -> list[tuple[str, float]]:
        """(name, value) in raw units: response = intercept + Σ value·feature + Σ effects of levels + products."""
        L, offset = self.coefficient_map
        raw = L @ check.vector("theta", theta, self.dimension) + offset
        return list(zip(self.coefficient_names, raw.tolist(), strict=True))

    @cached_property
    def differences(self) -> tuple[tuple[str, Floats], ...]:
        """Effects as differences, rows of θ in raw units: of a number between its ends, of a level from the reference.

        A feature that it interacts with is held at its middle: halfway between its ends, or at the mean of its levels.
        For an interaction: how much one feature's difference grows from end to end of the other's.
        """
        return tuple(
            difference for term in self.declared.encoding.terms for difference in self.differences_of(term)
        )

    def differences_of(self, term: Column | Interaction) -> list[tuple[str, Floats]]:
        """Differences of one feature or interaction."""
        encoding, found = self.declared.encoding, []
        for name, codes in term.contrasts:
            row = np.zeros(self.dimension)
            row[encoding.places[term.name]] = self.response_unit / encoding.scale * codes
            found.append((name, row))
        return found

    def theta(self, raw: Mapping[str, float]) -> Floats:
        """θ for raw coefficients: the inverse of `raw_coefficients`. Missing names are 0.

        Without an intercept, the middle of all features predicts the middle of the response's range.
        """
        return self.half_range * (self.declared.normalise_coefficients(raw) - self.declared.centre)

    # Design

    @cached_property
    def design(self) -> Design:
        """The declared distribution of x."""
        section, encoding = self.declared.design, self.declared.encoding
        match section:
            case Observed():
                return ObservedDesign(section.least_eigenvalue)
            case Uniform() | Assigned():
                return IndependentDesign(encoding, section.kind)
            case Covariance():
                return CovarianceDesign(section.matrix)
            case UnitBall():
                return UnitBallDesign(tuple(feature.name for feature in encoding.features))

    @property
    def second_moments(self) -> Floats | None:
        """Σ = E[x xᵀ], or None if features are observed."""
        return self.design.second_moments

    @property
    def least_eigenvalue(self) -> float | None:
        """λ_min(Σ), or None if it is not known."""
        return self.design.least_eigenvalue

    @property
    def even_eigenvalue(self) -> float:
        """λ_min(Σ) if numbers were uniform on their ranges and levels equally frequent."""
        return float(np.linalg.eigvalsh(IndependentDesign(self.declared.encoding).second_moments)[0])

    @property
    def mean_square_norm(self) -> float:
        """E‖x‖², or its bound 1 if features are observed."""
        return 1.0 if self.second_moments is None else float(np.trace(self.second_moments))

    def weighted_moments(self, w: npt.ArrayLike) -> Floats:
        """E[(w·x)² x xᵀ], or for a given covariance an upper bound. An error if features are observed."""
        return self.design.weighted_moments(check.vector("w", w, self.dimension))

    def fourth_moment(self, w: npt.ArrayLike, theta: npt.ArrayLike) -> float:
        """E[(w·x)²(θ·x)²] = θᵀ E[(w·x)² x xᵀ] θ, or its bound, as `weighted_moments`."""
        theta = check.vector("theta", theta, self.dimension)
        return float(theta @ self.weighted_moments(w) @ theta)

    def sample_features(self, rng: np.random.Generator, n: int) -> RawColumns:
        """Draw raw columns for n invented people, for designs that say how features are distributed."""
        return self.design.sample(rng, n)


@lru_cache(maxsize=256)
def _in_language(study: Study, language: str) -> Declaration:
    return study.declared.in_language(language)
