"""An analyst's goals for a plan: some of players, budget, accuracy, privacy and lie size; the rest is solved for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from truthful import check
from truthful.asked_release import AskedRelease
from truthful.errors import InputError
from truthful.guarantees import model, require_failure_probability
from truthful.noise import NORMS
from truthful.one_release import EPSILON_RANGE, ESTIMATORS, PAYMENTS, PROTECTS, OneRelease
from truthful.planner.panel import Panel
from truthful.scoring import RULES
from truthful.share_release import ShareRelease
from truthful.study import Study

ACCURACIES = ("coefficients", "predictions", "centre")
#: Parameters that an analyst may fix; the search then leaves them alone.
PINS = ("absent_share", "clip", "gram_share")
#: Public names of a plan's parameters: for numbers, shares and predictions.
RELEASE_PARAMETERS = (
    "estimator",
    "epsilon",
    "gram_share",
    "rule",
    "payments",
    "clip",
    "base_payment",
    "score_weight",
)
SHARE_PARAMETERS = ("estimator", "epsilon", "flat", "bonus", "margin", "tolerance", "norm")
ASKED_PARAMETERS = (
    "estimator",
    "epsilon",
    "rule",
    "ratio",
    "clip",
    "base_payment",
    "score_weight",
    "prediction_weight",
)
PARAMETERS = (
    *dict.fromkeys((*RELEASE_PARAMETERS, *SHARE_PARAMETERS, *ASKED_PARAMETERS)),
    "absent_share",
    "failure_probability",
)


#: Each mechanism's parameters, as in a plan file.
PARAMETERS_OF: dict[type, tuple[str, ...]] = {
    OneRelease: RELEASE_PARAMETERS,
    ShareRelease: SHARE_PARAMETERS,
    AskedRelease: ASKED_PARAMETERS,
}

MOST_PLAYERS = 1_000_000_000
#: A bound on the accuracy that can be asked for, in normalised units.
LOOSEST = 1e100


def require_usual_epsilon(epsilon: float) -> None:
    """Refuse an ε so small that nothing is learned, or so large that nobody is protected."""
    low, high = EPSILON_RANGE
    if not low <= epsilon <= high:
        raise InputError(
            f"epsilon is {epsilon:g}; it must lie between {low:g}, where noise drowns everything, "
            f"and {high:g}, where nobody is protected.",
            argument="epsilon",
        )


def require_absent_share(share: float) -> None:
    """Refuse a share of liars outside [0, 1)."""
    if not 0 <= check.finite("absent_share", share) < 1:
        raise InputError(
            f"absent_share is {share!r}; it must be 0 or above, and below 1.", argument="absent_share"
        )


def require_fitting(study: Study, given: dict[str, Any]) -> None:
    """Refuse parameters of another mechanism, and an estimator that protects something else."""
    estimator = given.get("estimator")
    if of_shares := [name for name in SHARE_PARAMETERS[2:] if name in given]:
        raise InputError(
            f"{of_shares[0]} is {given[of_shares[0]]!r}; it goes with answers of kind 'yes-no' or 'rating', and these "
            "are numbers. Give a score_weight, or leave both out."
        )
    if estimator is not None and PROTECTS[check.choice("estimator", estimator, ESTIMATORS)] != study.protects:
        raise InputError(
            f"Estimator {estimator!r} protects {PROTECTS[estimator]}, and the study declares that it protects "
            f"{study.protects}. Leave the estimator out to have one that fits, or change privacy.protects."
        )


def require_only(weight: str, asked: dict[str, Any]) -> None:
    """A given weight means a given plan: refuse goals beside it, and require players and ε."""
    if goals := [name for name in ("budget", "accuracy", "lie") if asked[name] is not None]:
        raise InputError(
            f"{goals[0]} and {weight} are both given: then nothing is left to solve for. Leave one of them out."
        )
    if missing := [name for name in ("epsilon", "players") if asked[name] is None]:
        raise InputError(
            f"{missing[0]} is missing: with a {weight} nothing is solved for. Give {missing[0]}, or leave {weight} out "
            "and give a budget or an accuracy."
        )


@dataclass(frozen=True)
class Goals:
    """Requirements of a plan. None: free, to be solved for.

    budget: the most all payments may cost (for certain if payments are never negative, else on average). accuracy: the
    largest error allowed, in raw response units, of coefficients, of predictions, or of the centre of people's beliefs,
    where a pilot asks for it (`accuracy_of`). lie: the largest lie that may pay, in units of the own prediction; R/2 if
    not given. norm: the norm of the noise, where answers are shares. panel: the people expected to answer, where
    answers are protected numbers.
    """

    players: int | None = None
    budget: float | None = None
    accuracy: float | None = None
    epsilon: float | None = None
    lie: float | None = None
    accuracy_of: str = "coefficients"
    estimator: str | None = None
    rule: str = "quadratic"
    payments: str = "never-negative"
    failure_probability: float = 0.01
    pins: dict[str, float] = field(default_factory=dict)
    norm: str | None = None
    panel: Panel | None = field(default=None, compare=False, repr=False)

    def __post_init__(self) -> None:
        if self.players is not None and check.integer("players", self.players, least=2) > MOST_PLAYERS:
            raise InputError(
                f"players is {self.players}; plans are made for up to {MOST_PLAYERS:,}.", argument="players"
            )
        for name in ("budget", "accuracy", "epsilon", "lie"):
            if getattr(self, name) is not None:
                check.positive(name, getattr(self, name))
        if self.epsilon is not None:
            require_usual_epsilon(self.epsilon)
        check.choice("accuracy_of", self.accuracy_of, ACCURACIES)
        if self.norm is not None:
            check.choice("norm", self.norm, NORMS)
        check.choice("rule", self.rule, tuple(RULES))
        check.choice("payments", self.payments, PAYMENTS)
        require_failure_probability(self.failure_probability)
        if self.estimator is not None:
            check.choice("estimator", self.estimator, ESTIMATORS)
        for name, value in self.pins.items():
            if name == "clip":
                check.positive(name, value)
            elif name == "absent_share":
                require_absent_share(value)
            else:
                check.share(name, value)
        # Players and one more of budget, accuracy, epsilon; or two of those three.
        given = [name for name in ("budget", "accuracy", "epsilon") if getattr(self, name) is not None]
        if len(given) + (self.players is not None) < 2:
            have = f"{given[0]} alone" if given else "players alone" if self.players else "nothing"
            raise InputError(
                f"A plan cannot be solved for from {have}. Give two of players, budget, accuracy and epsilon: "
                "for example players and budget, or players and accuracy."
            )

    @property
    def minimises_error(self) -> bool:
        """Whether to minimise the error: a budget is given, and no accuracy."""
        return self.accuracy is None and self.budget is not None

    def lie_size(self, study: Study) -> float:
        """The largest lie that may pay; by default half the largest prediction."""
        return study.beliefs.radius / 2 if self.lie is None else self.lie

    def error(self, study: Study) -> float | None:
        """The accuracy asked for, as a mean squared error in normalised units."""
        # Beyond the range of answers it asks for nothing; its square must stay finite.
        return None if self.accuracy is None else min(self.accuracy / study.response_unit, LOOSEST) ** 2

    def prior_error(self, study: Study) -> float:
        """The mean squared error, normalised, of answering with the prior mean and asking nobody."""
        if study.shares is not None:
            return study.shares.prior_error
        if study.levels is not None:
            return study.levels.prior_error(self.accuracy_of)
        if self.accuracy_of == "coefficients":
            return model(study).prior_square
        roster = None if self.panel is None else self.panel.roster
        if roster is None:
            return model(study).mean_square
        return model(study).prior_square / study.dimension * float((roster**2).sum() / len(roster))

    def record(self) -> dict[str, Any]:
        """The goals as written into a plan."""
        names = ("players", "budget", "accuracy", "epsilon", "lie")
        asked = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        said = self.accuracy is not None or self.accuracy_of != ACCURACIES[0]
        return {**asked, **({"accuracy_of": self.accuracy_of} if said else {})}
