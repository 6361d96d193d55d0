"""The public Release and a player's Receipt, as written and read.

A release holds what was released about people's answers, and public numbers, nothing else: with it, everybody can
recompute her own payment from her own record, and nobody else's.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from truthful import check
from truthful.asked_release import OWN_CENTRE, SERUM, AskedRelease, Level
from truthful.errors import InputError
from truthful.files import pretty_json, sha256, write_atomically
from truthful.formatting import Viewable
from truthful.one_release import LeaveOneOut, OneRelease
from truthful.share_release import SWITCH, ShareRelease
from truthful.study import Study

#: Parts of a release that belong to the study as declared.
DECLARED = (
    "language",
    "invitation",
    "response",
    "features",
    "interactions",
    "intercept",
    "design",
    "privacy",
    "beliefs",
    "costs",
    "payments",
)
#: Parts of a release that exist only for yes and no and for ratings (differences only with features); only with
#: predictions; only for some rules.
OF_SHARES = ("shares", "differences", "odds_ratios")
OF_PREDICTIONS = ("predictions", "payments")
OF_RULES = ("clip", "margin", "tolerance", "ratio", "prediction", "plausible")


class Record(BaseModel):
    """A part of a release: frozen, and strict about its fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Document(Record):
    """A record with a file of its own; of a private one, only its owner can read the file."""

    noun: ClassVar[str]
    private: ClassVar[bool] = False
    format: str

    def record(self) -> dict[str, Any]:
        """The record as written."""
        return self.model_dump(mode="json")

    def save(self, path: str | Path) -> None:
        """Write the record as JSON, whole or not at all."""
        write_atomically(check.path("path", path), pretty_json(self.record()), private=self.private)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read the record from its file."""
        return cls.parse(*read_content(path, cls.noun))

    @classmethod
    def parse(cls, content: bytes, where: str) -> Self:
        """Read the record from the content of its file."""
        try:
            return cls.model_validate_json(content)
        except ValidationError as error:
            reason = error.errors()[0]
            field = ".".join(map(str, reason["loc"])) or "the file"
            raise InputError(f"{where} is not a {cls.noun}: {field}: {reason['msg']}.") from None


def read_content(source: str | Path | bytes, noun: str) -> tuple[bytes, str]:
    """The content of a file, or content given as such, and a name for it."""
    if isinstance(source, bytes):
        return source, f"the {noun}"
    try:
        return check.path(noun, source).read_bytes(), str(source)
    except FileNotFoundError:
        raise InputError(f"There is no {noun} at {str(source)!r}.") from None


class Named(Record):
    """The origin of a record."""

    name: str
    sha256: str


class Epsilon(Record):
    """The privacy level for a change of one answer, and of a whole record; None where features are not protected."""

    answers: float
    records: float | None


class Instruments(Record):
    """T of the instruments ζ = Tx/max(1, ‖Tx‖), in whole units; by the sup norm each entry of Tx is cut to ±1."""

    transform: tuple[tuple[int, ...], ...]
    unit: float


class ReleasedStatistics(Record):
    """The released statistics, in whole units: integers as text, since not every JSON reader keeps large ones exact.

    vector is b̃. matrix is M, the exact sum (instruments) or with its noise (noisy-statistics); None where it is
    declared, or withheld: then its hash is given. mean is that of x, where shares have features: it determines the
    share of everybody.
    """

    matrix: tuple[tuple[str, ...], ...] | None
    matrix_sha256: str | None
    vector: tuple[str, ...]
    unit: float
    mean: tuple[float, ...] | None = None


class ReleasedNoise(Record):
    """The scale of the Laplace noise in the vector, and in the matrix if it has any, in normalised units of sums.

    norm is that of the vector's noise, where answers are shares; else it is omitted, and L2.
    """

    scale: float
    matrix_scale: float | None
    norm: str | None = None


class Coefficient(Record):
    """A coefficient in raw units, and the interval that covers the truth with the stated probability."""

    name: str
    value: float
    low: float
    high: float


class Payment(Record):
    """The payment rule, on predictions within ±clip·‖x‖ and with the base max(a, b·loss(clip·‖x‖)).

    With the rule "switch", for yes and no and for ratings, a is flat for everybody and b a bonus that depends on what
    the others say; margin widens the range of shares that count, and where a share is further than tolerance beyond all
    thought possible, half of the bonus is paid whatever the answer. None: no share is.

    Where people are asked what the others will say, clip is C, prediction the weight of squared errors of predictions,
    and plausible the range of the others' average outside which all answers are paid a.
    """

    rule: str
    payments: str
    a: float
    b: float
    clip: float | None = None
    currency: str
    margin: float | None = None
    tolerance: float | None = None
    ratio: float | None = None
    prediction: float | None = None
    plausible: tuple[float, float] | None = None


class Predictions(Record):
    """The released predictions of the others, and features' part in the average answer.

    total is ρ·Σm with its noise, in the units of statistics. mean is c, the mean of x. weight, weighted and offset are
    sums of k, kx and ko over everybody, in steps of 2⁻²⁰ and 2⁻⁴⁰. answer and prediction are the averages of both, and
    centre is what people expected before they knew their own answers, in units of the answer.
    """

    total: str
    mean: tuple[float, ...]
    weight: str
    weighted: tuple[str, ...]
    offset: str
    answer: Coefficient
    prediction: Coefficient
    centre: float | None


class Release(Document, Viewable):
    """The public result. Only `statistics`, and what follows from it, depends on people's answers."""

    noun = "release"
    format: Literal["truthful/release/2"] = "truthful/release/2"
    version: str
    rehearsal: bool
    study: Named
    plan_sha256: str
    protects: Literal["answers", "records"]
    players: int
    epsilon: Epsilon
    estimator: str
    gram_share: float | None
    instruments: Instruments | None
    statistics: ReleasedStatistics
    inverse: tuple[tuple[float, ...], ...] | None
    noise: ReleasedNoise
    theta: tuple[float, ...]
    coefficients: tuple[Coefficient, ...]
    interval_level: float
    language: str | None = None
    invitation: dict[str, Any] | None = None
    response: dict[str, Any]
    features: list[dict[str, Any]]
    interactions: list[list[str]] | None = None
    intercept: bool
    design: dict[str, Any]
    privacy: dict[str, Any] | None = None
    beliefs: dict[str, Any]
    costs: dict[str, Any]
    payment: Payment
    guarantees: dict[str, Any]
    promised: dict[str, Any]
    warnings: tuple[str, ...]
    shares: tuple[Coefficient, ...] | None = None
    differences: tuple[Coefficient, ...] | None = None
    odds_ratios: tuple[Coefficient, ...] | None = None
    predictions: Predictions | None = None
    payments: dict[str, Any] | None = None

    def to_frame(self) -> Any:
        """The coefficients as a pandas DataFrame: value, low and high, by name."""
        try:
            import pandas as pd
        except ModuleNotFoundError:
            raise InputError("to_frame needs pandas, which is not installed: pip install pandas") from None
        rows = [coefficient.model_dump() for coefficient in self.coefficients]
        return pd.DataFrame(rows, columns=["name", "value", "low", "high"]).set_index("name")

    @property
    def sha256(self) -> str:
        """The hash that names this release."""
        return sha256(self.record())

    def declared_study(self) -> Study:
        """The study as declared, rebuilt from the release, with the same hash."""
        record = self.record()
        declared = {name: record[name] for name in DECLARED if record.get(name) is not None}
        study = Study.from_declaration(
            {"name": self.study.name, "currency": record["payment"]["currency"], **declared}
        )
        if study.sha256 != self.study.sha256:
            raise InputError(
                f"The release names study {self.study.sha256[:12]}…, but the declaration in it has hash "
                f"{study.sha256[:12]}…: it was changed. Get the release again from where it was published."
            )
        return study

    @property
    def total_epsilon(self) -> float:
        """The level at which answers, or records, are protected."""
        return self.epsilon.answers if self.epsilon.records is None else self.epsilon.records

    def record(self) -> dict[str, Any]:
        """The release as written."""
        record = super().record()
        for part, names in (
            (record, (*OF_SHARES, *OF_PREDICTIONS, "interactions", "language")),
            (record["payment"], OF_RULES),
            (record["noise"], ("norm",)),
            (record["statistics"], ("mean",)),
        ):
            for name in names:
                if part[name] is None:
                    del part[name]
        return record

    def mechanism(self, study: Study) -> OneRelease | ShareRelease | AskedRelease:
        """The mechanism that was run."""
        transform = None if self.instruments is None else self.instruments.transform
        if self.payment.rule in (OWN_CENTRE, SERUM):
            return AskedRelease(
                epsilon=self.total_epsilon,
                transform=transform,
                rule=self.payment.rule,
                ratio=self.payment.ratio or 0.0,
                base_payment=self.payment.a,
                score_weight=self.payment.b,
                prediction_weight=self.payment.prediction or 0.0,
                clip=self.payment.clip or 0.0,
                plausible=self.payment.plausible or (-math.inf, math.inf),
            )
        if self.payment.rule == SWITCH:
            return ShareRelease(
                epsilon=self.total_epsilon,
                estimator=self.estimator,
                transform=transform,
                norm=self.noise.norm or "l2",
                flat=self.payment.a,
                bonus=self.payment.b,
                margin=self.payment.margin or 0.0,
                tolerance=math.inf if self.payment.tolerance is None else self.payment.tolerance,
            )
        return OneRelease(
            epsilon=self.total_epsilon,
            base_payment=self.payment.a,
            score_weight=self.payment.b,
            clip=self.payment.clip or study.beliefs.radius,
            estimator=self.estimator,
            rule=self.payment.rule,
            payments=self.payment.payments,
            gram_share=0.5 if self.gram_share is None else self.gram_share,
            transform=transform,
            design=study.second_moments,
        )

    def estimate(self) -> LeaveOneOut | None:
        """The estimate from which anybody's report can be removed; None where the matrix is withheld."""
        if self.inverse is None:
            return None
        matrix = self.statistics.matrix
        return LeaveOneOut(
            theta=np.array(self.theta),
            inverse=np.array(self.inverse),
            scale=self.noise.scale,
            transform=None if self.instruments is None else self.instruments.transform,
            kept=(self.players - 1) / self.players if self.estimator == "known-design" else None,
            matrix=None
            if matrix is None
            else np.array([[int(k) for k in row] for row in matrix], dtype=object),
            vector=tuple(int(k) for k in self.statistics.vector),
            matrix_scale=self.noise.matrix_scale,
            predictions=None if self.predictions is None else int(self.predictions.total),
            norm=self.noise.norm or "l2",
        )

    def level(self) -> Level | None:
        """Features' part in the average answer, where people were asked what the others will say."""
        found = self.predictions
        if found is None:
            return None
        weighted = tuple(int(w) for w in found.weighted)
        return Level(self.players, np.array(found.mean), int(found.weight), weighted, int(found.offset))


class Receipt(Document):
    """A player's private record: her data as used, the steps to her payment, and the payment.

    leverage is the weight of her own answer in the prediction for her, from which it is removed; noise_scale is that of
    the noise in peer_prediction, the others' prediction for her. Where she is asked what the others will say,
    prediction is her prediction; others_answer and others_prediction are the others' averages, surprise is by how much
    answers exceed predictions, clipped, all from −1 to 1, and there is no own_prediction.
    """

    noun = "receipt"
    private = True
    format: Literal["truthful/receipt/2"] = "truthful/receipt/2"
    player: str
    features: dict[str, float | str]
    report: float
    leverage: float
    noise_scale: float
    peer_prediction: float
    own_prediction: float | None = None
    payment: float
    prediction: float | None = None
    others_answer: float | None = None
    others_prediction: float | None = None
    surprise: float | None = None

    def record(self) -> dict[str, Any]:
        """The receipt as written."""
        return self.model_dump(mode="json", exclude_none=True)


#: The columns after the record itself, which ends with the report.
LAST = ("leverage", "noise_scale", "peer_prediction", "own_prediction", "payment")
#: The last columns where people are asked what the others will say; the record then ends with the prediction.
LAST_ASKED = (
    *("leverage", "noise_scale", "peer_prediction", "others_answer", "others_prediction", "surprise"),
    "payment",
)


def read_release(source: str | Path | bytes) -> Release:
    """A release, from its file or the content of one."""
    content, where = read_content(source, "release")
    if b'"format": "truthful/release/1"' in content:
        raise InputError(
            f"{where} was released by version 0.1, which scored people against random halves. Verify it with that "
            "version."
        )
    return Release.parse(content, where)


def read_receipt(path: Path, player: str | None = None) -> Receipt:
    """A receipt from one player's JSON file, or from a Parquet file of many."""
    if path.suffix != ".parquet":
        return Receipt.load(path)
    if player is None:
        raise InputError(f"{path.name} holds many receipts. Say whose with --player.")
    import pyarrow as pa  # one's own receipt does not need it
    import pyarrow.parquet

    try:
        return find_receipt(pa.parquet.read_table(path), player)
    except FileNotFoundError:
        raise InputError(f"There is no file {str(path)!r}.") from None
    except (pa.ArrowException, OSError) as problem:
        reason = str(problem).splitlines()[0].rstrip(".")
        raise InputError(
            f"{path} cannot be read as Parquet: {reason}. Give the settlement's receipts.parquet."
        ) from None


def find_receipt(receipts: Any, player: str | int) -> Receipt:
    """One player's receipt from a table of receipts."""
    import pyarrow.compute

    names = receipts.column_names
    last = LAST_ASKED if tuple(names[-len(LAST_ASKED) :]) == LAST_ASKED else LAST
    if names[:1] != ["player"] or tuple(names[-len(last) :]) != last or len(names) < 2 + len(last):
        raise InputError(
            f"A table with the columns {', '.join(names)} holds no receipts. Give receipts.parquet."
        )
    wanted = pyarrow.compute.equal(receipts.column("player").cast("string"), str(player))
    found = receipts.filter(wanted).to_pylist()
    if not found:
        raise InputError(f"There is no receipt of player {str(player)!r} among {receipts.num_rows:,}.")
    row, said = found[0], names[1 : -len(last)]
    *features, report = said[:-1] if last is LAST_ASKED else said
    asked = {said[-1]: row[said[-1]]} if last is LAST_ASKED else {}
    try:
        return Receipt(
            player=str(row["player"]),
            features={name: row[name] for name in features},
            report=row[report],
            **asked,
            **{name: row[name] for name in last},
        )
    except ValidationError as problem:
        first = problem.errors()[0]
        raise InputError(
            f"The receipt of player {str(player)!r} is broken: {first['loc'][0]}: {first['msg']}."
        ) from None
