"""The tables of the service's database, the same for SQLite and PostgreSQL.

Answers have a table of their own, which only submitting, settling and a player's own pages read: the analyst's pages
only count its rows and join them to features. Answers, payments and codes are sealed; links and sign-ins are stored as
hashes. No network address is stored, nor the time of an answer.
"""

from __future__ import annotations

import enum
from datetime import UTC, datetime
from typing import Any, ClassVar

from sqlalchemy import (
    JSON,
    BigInteger,
    DateTime,
    Dialect,
    Enum,
    ForeignKey,
    ForeignKeyConstraint,
    LargeBinary,
    String,
    Text,
    TypeDecorator,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

#: The column of a study's id, named as in the first released version.
COLUMN = "survey_id"


class Moment(TypeDecorator[datetime]):
    """A time in UTC, however the database handles time zones."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return value if value is None or value.tzinfo else value.replace(tzinfo=UTC)


class Table(DeclarativeBase):
    """The base class of all tables."""

    type_annotation_map: ClassVar[dict[Any, Any]] = {
        datetime: Moment(),
        dict[str, Any]: JSON(),
    }


class Role(enum.StrEnum):
    """The role of an account: an analyst runs studies and sees counts, a payer sees amounts."""

    ANALYST = "analyst"
    PAYER = "payer"


class State(enum.StrEnum):
    """The states of a study, in order; only a closed study that cannot be settled may open again."""

    DRAFT = "draft"
    OPEN = "open"  # frozen: the declaration is fixed, and people may answer
    CLOSED = "closed"  # answers are fixed; being settled
    SETTLED = "settled"  # released to its analyst, payments due
    PUBLISHED = "published"
    CANCELLED = "cancelled"  # nothing drawn; everybody who answered gets the base payment


def _words(kind: type[enum.StrEnum]) -> Enum:
    return Enum(
        kind, native_enum=False, length=16, values_callable=lambda words: [str(word) for word in words]
    )


class Account(Table):
    """An account that signs in. It has no password until its first link is used."""

    __tablename__ = "accounts"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(200), unique=True)
    role: Mapped[Role] = mapped_column(_words(Role))
    password: Mapped[str | None] = mapped_column(Text)
    #: Her address or subject at the OpenID provider, and the issuer and subject that it was bound to at first sign-in.
    identity: Mapped[str | None] = mapped_column(String(320), unique=True)
    subject: Mapped[str | None] = mapped_column(String(800), unique=True)
    #: The secret of the second factor, if any, the time step of the last accepted code, and the number of wrong codes
    #: since.
    factor: Mapped[str | None] = mapped_column(Text)
    factor_step: Mapped[int] = mapped_column(BigInteger, default=0)
    factor_misses: Mapped[int] = mapped_column(default=0)


class RecoveryCode(Table):
    """A one-time code for when the second factor is lost."""

    __tablename__ = "recovery_codes"

    hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    account_id: Mapped[int] = mapped_column(ForeignKey("accounts.id"))


class SignInLink(Table):
    """A link that lets its holder set the password of an account, once."""

    __tablename__ = "sign_in_links"

    hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    account_id: Mapped[int] = mapped_column(ForeignKey("accounts.id"))
    expires: Mapped[datetime]


class SignIn(Table):
    """A signed-in browser or, `waiting`, one that has yet to give its second factor."""

    __tablename__ = "sign_ins"

    hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    account_id: Mapped[int] = mapped_column(ForeignKey("accounts.id"))
    expires: Mapped[datetime]
    waiting: Mapped[bool] = mapped_column(default=False)


class Access(Table):
    """An account's access to a study: of its analysts, and of its payer."""

    __tablename__ = "study_accounts"

    study_id: Mapped[str] = mapped_column(COLUMN, ForeignKey("surveys.id"), key="study_id", primary_key=True)
    account_id: Mapped[int] = mapped_column(ForeignKey("accounts.id"), primary_key=True)


class StoredStudy(Table):
    """A study as the service runs it: its declaration, its plan and its state.

    `release` is stored with all payments in one transaction, and shown only once it has been read back. `refused` holds
    the guarantees for those who answered, if they are weaker than promised and await the analyst's decision.
    """

    __tablename__ = "surveys"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    name: Mapped[str] = mapped_column(Text)
    state: Mapped[State] = mapped_column(_words(State), default=State.DRAFT)
    draft: Mapped[dict[str, Any]] = mapped_column(default=dict)  # the wizard's fields, as typed
    declaration: Mapped[str | None] = mapped_column(Text)  # study.toml, once complete
    plan: Mapped[str | None] = mapped_column(Text)  # plan.json
    rehearsal: Mapped[bool] = mapped_column(default=False)
    seed: Mapped[int | None] = mapped_column(BigInteger)
    key_sha256: Mapped[str | None] = mapped_column(String(64))  # of the key of the noise
    #: The secret behind the thresholds at which shown counts grow, and the counts last shown, with their hour.
    steps: Mapped[str | None] = mapped_column(String(64))
    told: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    #: The name of the key that seals answers and payments, from freezing on.
    seal: Mapped[str | None] = mapped_column(String(8))
    #: The hash of the people brought to the draft.
    roster: Mapped[str | None] = mapped_column(String(64))
    created: Mapped[datetime]
    #: The deadline for answers, shown to people.
    deadline: Mapped[datetime | None]
    mail: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))  # the texts of mails
    panel: Mapped[dict[str, Any] | None] = mapped_column(
        JSON(none_as_null=True)
    )  # how people return to their panel
    frozen: Mapped[datetime | None]
    closed: Mapped[datetime | None]
    settled: Mapped[datetime | None]
    published: Mapped[datetime | None]
    problem: Mapped[str | None] = mapped_column(Text)  # why settling stopped, if so
    refused: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    accepts_less: Mapped[bool] = mapped_column(default=False)
    release: Mapped[str | None] = mapped_column(Text)  # release.json
    report: Mapped[str | None] = mapped_column(Text)  # report.html
    #: The time when its people's data were erased, and totals of their payments: people, coins, digits, unsent.
    erased: Mapped[datetime | None]
    totals: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))


class ConsentDocument(Table):
    """The consent document, as uploaded: a PDF or a text. It is frozen with its study."""

    __tablename__ = "documents"

    study_id: Mapped[str] = mapped_column(COLUMN, ForeignKey("surveys.id"), key="study_id", primary_key=True)
    sha256: Mapped[str] = mapped_column(String(64))
    kind: Mapped[str] = mapped_column(String(3))  # pdf or txt
    content: Mapped[bytes] = mapped_column(LargeBinary)


class Player(Table):
    """A player on the roster: her verified features, and the hash of her link once she has one.

    The analyst hands out the links, so a link alone does not show her answer. That takes the code which her browser got
    when she consented.
    """

    __tablename__ = "players"

    study_id: Mapped[str] = mapped_column(COLUMN, ForeignKey("surveys.id"), key="study_id", primary_key=True)
    player: Mapped[str] = mapped_column(Text, primary_key=True)
    features: Mapped[dict[str, Any]]
    link: Mapped[str | None] = mapped_column(String(64), unique=True)
    #: The salt of a link that is derived from a key, kept outside the database: with a new salt comes a new link.
    salt: Mapped[str | None] = mapped_column(String(32))
    consented: Mapped[datetime | None]
    document: Mapped[str | None] = mapped_column(String(64))  # the hash of what she consented to
    sealed_code: Mapped[bytes | None] = mapped_column(LargeBinary)
    sent: Mapped[datetime | None]  # when the payer marked her payment as sent
    disputed: Mapped[bool] = mapped_column(default=False)  # she says that her features are wrong


class ErasedLink(Table):
    """The hash of the link of a player whose data were erased, so that its holder can be told."""

    __tablename__ = "erased_links"

    link: Mapped[str] = mapped_column(String(64), primary_key=True)
    study_id: Mapped[str] = mapped_column(COLUMN, ForeignKey("surveys.id"), key="study_id")


class Sending(enum.StrEnum):
    """The state of a mail. It is UNKNOWN if the process died while sending: the mail may have arrived."""

    KEPT = "kept"  # an address, with nothing to send
    WAITING = "waiting"
    SENDING = "sending"
    SENT = "sent"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Mail(Table):
    """A player's e-mail address, and the state of her invitation or latest reminder."""

    __tablename__ = "mails"
    __table_args__ = (ForeignKeyConstraint(["study_id", "player"], ["players.study_id", "players.player"]),)

    study_id: Mapped[str] = mapped_column(COLUMN, String(16), key="study_id", primary_key=True)
    player: Mapped[str] = mapped_column(Text, primary_key=True)
    address: Mapped[str] = mapped_column(String(254))
    state: Mapped[Sending] = mapped_column(_words(Sending))
    reminder: Mapped[bool]
    problem: Mapped[str | None] = mapped_column(Text)  # of her invitation


class Answer(Table):
    """A player's answer, with her prediction if one was asked for: sealed."""

    __tablename__ = "answers"
    __table_args__ = (ForeignKeyConstraint(["study_id", "player"], ["players.study_id", "players.player"]),)

    study_id: Mapped[str] = mapped_column(COLUMN, String(16), key="study_id", primary_key=True)
    player: Mapped[str] = mapped_column(Text, primary_key=True)
    sealed: Mapped[bytes] = mapped_column(LargeBinary)


class Due(Table):
    """A player's payment and the steps to it: sealed, because they reveal her answer."""

    __tablename__ = "due"
    __table_args__ = (ForeignKeyConstraint(["study_id", "player"], ["players.study_id", "players.player"]),)

    study_id: Mapped[str] = mapped_column(COLUMN, String(16), key="study_id", primary_key=True)
    player: Mapped[str] = mapped_column(Text, primary_key=True)
    sealed: Mapped[bytes] = mapped_column(LargeBinary)


class Event(Table):
    """An event of the audit log: who did what, to which account or study, and when. It never holds values.

    `hash` covers the event and the hash before it, so that no event can be changed or removed unnoticed.
    """

    __tablename__ = "events"

    id: Mapped[int] = mapped_column(primary_key=True)
    time: Mapped[datetime]
    who: Mapped[str] = mapped_column(String(200))
    what: Mapped[str] = mapped_column(String(300))
    whom: Mapped[str | None] = mapped_column(String(200))
    study_id: Mapped[str | None] = mapped_column(COLUMN, String(16), key="study_id")
    hash: Mapped[str] = mapped_column(String(64))


class LogEnd(Table):
    """The end of the audit log's chain: the number of events and the hash of the last. One row, which writers lock."""

    __tablename__ = "log_end"

    id: Mapped[int] = mapped_column(primary_key=True)
    events: Mapped[int]
    hash: Mapped[str] = mapped_column(String(64))


class RefusedSignIn(Table):
    """A refused sign-in, and to which account. Only the latest are kept, as strangers can cause any number."""

    __tablename__ = "refused_sign_ins"

    id: Mapped[int] = mapped_column(primary_key=True)
    time: Mapped[datetime]
    whom: Mapped[str | None] = mapped_column(String(200))
