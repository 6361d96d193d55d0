"""The five guarantees as records, always in this order: privacy, truthfulness, accuracy, participation, budget. Each
says what is guaranteed, with what probability and under which assumptions.

All follows from public numbers. A number that cannot be promised is None, never a guess.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, NamedTuple

import numpy as np

from truthful.bounds.precision import Precision
from truthful.check import Floats

TRUTHFUL_PEERS = "players tell the truth, all but those with the highest privacy costs (the absent share)"
BELIEFS = "answers follow the declared linear model, prior and noise"
FEATURES = "features are drawn independently from the declared design"
GIVEN_FEATURES = (
    "whether somebody takes part does not depend on how far her answer is from what the model predicts"
)
#: The share of people for whom it is stated how wrong beliefs may be, and which lies are deterred.
NINE_IN_TEN = 0.9
#: Sizes of the lies whose cost is stated, as parts of the range of answers.
SHADED = (0.2, 0.4)
COSTS = "privacy costs follow the declared law, whatever the coefficients are"


@dataclass(frozen=True)
class Privacy:
    """ε-joint differential privacy, for every data set, whatever anybody does.

    protects: answers, or whole records; not_protected: what the release may reveal exactly.
    """

    epsilon: float
    probability: float = 1.0
    assumptions: tuple[str, ...] = ()
    protects: str | None = None
    not_protected: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Shading:
    """A typical person's average loss, in currency, from an answer this far off: in raw units, or in steps.

    Everybody else is honest, and beliefs are as declared. Her features have typical length, and her true answer is the
    one expected of people like her. For yes and no it is the mean over both.
    """

    by: float
    costs: float


@dataclass(frozen=True, kw_only=True)
class Truthfulness:
    """No lie that moves the own prediction by more than `lie` pays; no lie at all gains more than `slack`.

    This holds for all players whose privacy cost is at most a threshold: all but the absent share, with this
    probability. `share` is the share of people, at features of typical length, who could tell a lie beyond `lie` at
    all. `slope` is the least ∂q/∂y over the central 90 % of reports there. For nine people in ten, of the design or the
    roster, every answer that is off the truth by more than `lie_in_answer`, in raw units, moves q by more than `lie`;
    None where more than one in ten can give any answer without doing so. `undeterred` is the share of possible answers
    that move q by no more than `lie`, on average over people and their truthful answers: nothing deters those.
    `typical_length` and `typical_noise` are ‖x‖ and the scale of the peers' noise along its unit vector, of a typical
    person. `shading` is what lies cost her on average, beside the `typical_pay` that her honest answer earns.

    For yes and no and for ratings: no lie of `steps` steps or more pays for a `share` of people, and on average the
    truth earns `gain` more than such a lie, in currency; None where nothing is promised. For the average person the
    lowest and the highest answer pay the same if the share is `switch`, and those who would give the highest answer
    expect the share expects_yes, the others expects_no. lie, slack and slope belong to numbers.

    If people believe otherwise: centre_tolerance is how far their idea of the average may be from the declared one, in
    raw units, if no lie that moves the own prediction by more than centre_lie is to pay; none then gains more than
    centre_slack. A centre that is wrong by 1 moves the best answer by centre_amplification. With the right centre the
    slope may be wrong by slope_tolerance. All this is for the typical person and answers from the 1 % to the 99 %
    quantile; where a tolerance is declared, for everybody. For yes and no and for ratings, centre_tolerance is how far
    the share that somebody expects, given her answer, may be off if the truth is to pay for centre_share of people.

    Where people are asked what the others will say, slope is how much an answer moves what is expected of them, and no
    lie of `lie_in_answer` or more pays. centre_tolerance is then how far what a person expects may be from what she
    takes others to expect.
    """

    lie: float | None = None
    slack: float | None = None
    share: float
    slope: float
    lie_in_answer: float | None = None
    probability: float
    assumptions: tuple[str, ...] = (TRUTHFUL_PEERS, BELIEFS, FEATURES, COSTS)
    undeterred: float | None = None
    typical_length: float | None = None
    typical_noise: float | None = None
    steps: int | None = None
    gain: float | None = None
    switch: float | None = None
    expects_yes: float | None = None
    expects_no: float | None = None
    centre_tolerance: float | None = None
    centre_lie: float | None = None
    centre_slack: float | None = None
    centre_amplification: float | None = None
    slope_tolerance: float | None = None
    centre_share: float | None = None
    typical_pay: float | None = None
    shading: tuple[Shading, ...] | None = None


@dataclass(frozen=True)
class Accuracy:
    """Errors of estimates: quantiles that hold with this probability, and root mean squares.

    `quantile` covers all predictions at once: it is that of the length of the coefficients' error (‖x‖ ≤ 1), in raw
    units of the response. `prediction_quantile` is that of the root mean square over people whose features follow the
    design. Where answers are shares, `effect_quantile` covers any difference between features' ends or levels. `rmse`,
    `prediction_rmse` and `effect_rmse` are root mean squares of the same errors over studies in which no more people
    lie than the absent share: a third of errors can be larger. mean_squared_error is the square of the first,
    normalised. `numbers` has the widths of future intervals; `of` says which accuracy was asked for, "predictions" or
    "centre".
    """

    mean_squared_error: float | None
    rmse: float | None
    prediction_rmse: float | None
    probability: float
    assumptions: tuple[str, ...] = (TRUTHFUL_PEERS, BELIEFS, FEATURES, COSTS)
    effect_rmse: float | None = None
    quantile: float | None = None
    prediction_quantile: float | None = None
    effect_quantile: float | None = None
    numbers: tuple[Precision, ...] | None = None
    of: str | None = None


@dataclass(frozen=True)
class Participation:
    """Taking part pays, in expectation, for everybody whose privacy cost is at most the threshold: this share of
    people.
    """

    share: float | None
    cost_threshold: float | None
    probability: float = 1.0
    assumptions: tuple[str, ...] = (TRUTHFUL_PEERS, BELIEFS, FEATURES, COSTS)


@dataclass(frozen=True)
class Budget:
    """The total of all payments: never more than `cap`, whatever anybody does; on average at most `expected`.

    `likely` is exceeded with at most twice the failure probability. `expected` and `likely` rest on the assumptions.
    `cap` needs none, and exists if payments are never negative.
    """

    expected: float | None
    cap: float | None
    likely: float | None
    probability: float = 1.0
    assumptions: tuple[str, ...] = (TRUTHFUL_PEERS, BELIEFS, FEATURES, COSTS)


ADDED = (
    *("protects", "not_protected", "undeterred", "typical_length", "typical_noise"),
    *("steps", "gain", "switch", "expects_yes", "expects_no", "effect_rmse"),
    *("centre_tolerance", "centre_lie", "centre_slack", "centre_amplification", "slope_tolerance"),
    *("centre_share", "quantile", "prediction_quantile", "effect_quantile", "numbers", "of"),
    *("typical_pay", "shading"),
)


@dataclass(frozen=True)
class Guarantees:
    """The five, in their order."""

    privacy: Privacy
    truthfulness: Truthfulness
    accuracy: Accuracy
    participation: Participation
    budget: Budget

    def asked_of(self, of: str | None) -> Guarantees:
        """These guarantees for a plan whose accuracy was asked for of predictions, or of the centre."""
        return replace(self, accuracy=replace(self.accuracy, of=None if of == "coefficients" else of))

    def record(self) -> dict[str, Any]:
        """The record in plans and releases. Fields newer than format 1 are left out where empty."""
        return {
            name: {
                key: list(value) if isinstance(value, tuple) else value
                for key, value in group.items()
                if not (key in ADDED and value is None)
            }
            for name, group in asdict(self).items()
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Guarantees:
        """Read guarantees from a record."""
        groups = (Privacy, Truthfulness, Accuracy, Participation, Budget)
        return cls(
            *(
                group(**{key: _from_record(key, value) for key, value in record[field.name].items()})
                for group, field in zip(groups, fields(cls), strict=True)
            )
        )


def _from_record(key: str, value: Any) -> Any:
    of = {"numbers": Precision, "shading": Shading}.get(key)
    if not isinstance(value, list):
        return value
    return tuple(value) if of is None else tuple(of(**row) for row in value)


class ErrorBounds(NamedTuple):
    """Normalised mean squares and quantiles for all coefficients, for predictions, and for effects if there are any.

    numbers are in raw units.
    """

    squares: tuple[float, float, float | None]
    quantiles: tuple[float, float, float | None]
    numbers: tuple[Precision, ...]


class GuaranteeParts(NamedTuple):
    """What differs between kinds of answers; the bill states its part of `Budget`."""

    truth: Truthfulness
    joining: float
    bill: tuple[float, float, float]
    errors: ErrorBounds


def finite_or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def shadings(sizes: Floats, costs: Floats) -> tuple[Shading, ...]:
    return tuple(Shading(by, loss) for by, loss in zip(sizes.tolist(), costs.tolist(), strict=True))


def step_lies(levels: int) -> Floats:
    """Lies of one step and of two, as parts of the whole scale."""
    return np.arange(1, min(levels, 3)) / (levels - 1)
