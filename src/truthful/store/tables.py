"""What the service remembers, as tables: one code path for SQLite and PostgreSQL.

Answers stand in a table of their own, which only submitting, settling and its owner's pages read: no page of the
analyst's touches it but to count rows, and to see for whose features there is one. What people said, what follows from
it and the codes that open it are sealed. Links and sign-ins are kept as hashes. No address of anybody is kept, nor when
an answer was given.
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

#: What the column of a study's name is called in databases that are there already.
COLUMN = "survey_id"


class Moment(TypeDecorator[datetime]):
    """A time in UTC, whatever the database makes of time zones."""

    impl = DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return None if value is None else value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:
        return value if value is None or value.tzinfo else value.replace(tzinfo=UTC)


class Table(DeclarativeBase):
    """A row of the database."""

    type_annotation_map: ClassVar[dict[Any, Any]] = {
        datetime: Moment(),
        dict[str, Any]: JSON(),
    }


class Role(enum.StrEnum):
    """Who may do what: the analyst runs studies and sees counts, the payer sees amounts."""

    ANALYST = "analyst"
    PAYER = "payer"


class State(enum.StrEnum):
    """The life of a study, in one direction; one that is closed and can promise too little may open again."""

    DRAFT = "draft"
    OPEN = "open"  # frozen: nothing declared can change, and people may answer
    CLOSED = "closed"  # no answer can change; being settled
    SETTLED = "settled"  # released to its analyst, payments due
    PUBLISHED = "published"
    CANCELLED = "cancelled"  # nothing was drawn, and everybody who answered is paid the base payment


def _words(kind: type[enum.StrEnum]) -> Enum:
    return Enum(
        kind, native_enum=False, length=16, values_callable=lambda words: [str(word) for word in words]
    )


class Account(Table):
    """Somebody who signs in. Without a password she has not followed her first link yet."""

    __tablename__ = "accounts"

    id: Mapped[int] = mapped_column(primary_key=True)
    name: Mapped[str] = mapped_column(String(200), unique=True)
    role: Mapped[Role] = mapped_column(_words(Role))
    password: Mapped[str | None] = mapped_column(Text)
    #: The address or subject by which an OpenID provider knows her, and the issuer and subject that came by it first.
    identity: Mapped[str | None] = mapped_column(String(320), unique=True)
    subject: Mapped[str | None] = mapped_column(String(800), unique=True)
    #: The secret of the second factor if there is one, the half minute of the last code that was taken, and how many
    #: wrong ones came since.
    factor: Mapped[str | None] = mapped_column(Text)
    factor_step: Mapped[int] = mapped_column(BigInteger, default=0)
    factor_misses: Mapped[int] = mapped_column(default=0)


class RecoveryCode(Table):
    """A code on paper, for when the second factor is lost: good once."""

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
    """A browser that is signed in; or waits to be, until it brings a code too."""

    __tablename__ = "sign_ins"

    hash: Mapped[str] = mapped_column(String(64), primary_key=True)
    account_id: Mapped[int] = mapped_column(ForeignKey("accounts.id"))
    expires: Mapped[datetime]
    waiting: Mapped[bool] = mapped_column(default=False)


class Access(Table):
    """Who is let into a study: the analysts it belongs to, and the payer it names."""

    __tablename__ = "study_accounts"

    study_id: Mapped[str] = mapped_column(COLUMN, ForeignKey("surveys.id"), key="study_id", primary_key=True)
    account_id: Mapped[int] = mapped_column(ForeignKey("accounts.id"), primary_key=True)


class StoredStudy(Table):
    """A study as the service runs it: what is declared and planned, and how far it has come.

    `release` is stored with all payments in one transaction, and no page shows it before it was read back. `refused` is
    what could be guaranteed for those who answered, if that is less than was promised: the analyst decides then.
    """

    __tablename__ = "surveys"

    id: Mapped[str] = mapped_column(String(16), primary_key=True)
    name: Mapped[str] = mapped_column(Text)
    state: Mapped[State] = mapped_column(_words(State), default=State.DRAFT)
    draft: Mapped[dict[str, Any]] = mapped_column(default=dict)  # the wizard's fields, as they were typed
    declaration: Mapped[str | None] = mapped_column(Text)  # study.toml, once it says enough
    plan: Mapped[str | None] = mapped_column(Text)  # plan.json
    rehearsal: Mapped[bool] = mapped_column(default=False)
    seed: Mapped[int | None] = mapped_column(BigInteger)
    key_sha256: Mapped[str | None] = mapped_column(String(64))  # of the key from which the noise follows
    #: The secret that says at which numbers a count is told to have grown, and what was told last, and when.
    steps: Mapped[str | None] = mapped_column(String(64))
    told: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    #: The name of the key that what people say is sealed with, from when it is frozen.
    seal: Mapped[str | None] = mapped_column(String(8))
    #: Of the people brought while it was a draft: their hash.
    roster: Mapped[str | None] = mapped_column(String(64))
    created: Mapped[datetime]
    #: Until when people may answer; they are told.
    deadline: Mapped[datetime | None]
    mail: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))  # the texts of mails
    panel: Mapped[dict[str, Any] | None] = mapped_column(
        JSON(none_as_null=True)
    )  # how people go back to theirs
    frozen: Mapped[datetime | None]
    closed: Mapped[datetime | None]
    settled: Mapped[datetime | None]
    published: Mapped[datetime | None]
    problem: Mapped[str | None] = mapped_column(Text)  # why settling stopped, if it did
    refused: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    accepts_less: Mapped[bool] = mapped_column(default=False)
    release: Mapped[str | None] = mapped_column(Text)  # release.json
    report: Mapped[str | None] = mapped_column(Text)  # report.html
    #: When its people's data were erased, and what they were paid in all: people, coins, digits, and how many unsent.
    erased: Mapped[datetime | None]
    totals: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))


class ConsentDocument(Table):
    """What people consent to, as it was uploaded: a PDF or a text. It is frozen with its study."""

    __tablename__ = "documents"

    study_id: Mapped[str] = mapped_column(COLUMN, ForeignKey("surveys.id"), key="study_id", primary_key=True)
    sha256: Mapped[str] = mapped_column(String(64))
    kind: Mapped[str] = mapped_column(String(3))  # pdf or txt
    content: Mapped[bytes] = mapped_column(LargeBinary)


class Player(Table):
    """Somebody on the roster: her verified features, and the hash of her link once she has one.

    The analyst hands out the links, so a link alone shows nothing that she has said. Her browser got a code when she
    consented: whoever knows it may see and change her answer.
    """

    __tablename__ = "players"

    study_id: Mapped[str] = mapped_column(COLUMN, ForeignKey("surveys.id"), key="study_id", primary_key=True)
    player: Mapped[str] = mapped_column(Text, primary_key=True)
    features: Mapped[dict[str, Any]]
    link: Mapped[str | None] = mapped_column(String(64), unique=True)
    #: Of a link that can be made again, with a key that is not here: what makes it another one each time.
    salt: Mapped[str | None] = mapped_column(String(32))
    consented: Mapped[datetime | None]
    document: Mapped[str | None] = mapped_column(String(64))  # the hash of what she consented to
    sealed_code: Mapped[bytes | None] = mapped_column(LargeBinary)
    sent: Mapped[datetime | None]  # when her payment was, as the payer says
    disputed: Mapped[bool] = mapped_column(default=False)  # she says that her features are wrong


class ErasedLink(Table):
    """The hash of the link of somebody whose data were erased, so that who follows it is told."""

    __tablename__ = "erased_links"

    link: Mapped[str] = mapped_column(String(64), primary_key=True)
    study_id: Mapped[str] = mapped_column(COLUMN, ForeignKey("surveys.id"), key="study_id")


class Sending(enum.StrEnum):
    """How far a mail is. Of one that was being sent when the service ended nobody knows whether it arrived."""

    KEPT = "kept"  # there is an address, and nothing to be sent
    WAITING = "waiting"
    SENDING = "sending"
    SENT = "sent"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Mail(Table):
    """Where a player is mailed her link, and how far her invitation or the latest reminder is."""

    __tablename__ = "mails"
    __table_args__ = (ForeignKeyConstraint(["study_id", "player"], ["players.study_id", "players.player"]),)

    study_id: Mapped[str] = mapped_column(COLUMN, String(16), key="study_id", primary_key=True)
    player: Mapped[str] = mapped_column(Text, primary_key=True)
    address: Mapped[str] = mapped_column(String(254))
    state: Mapped[Sending] = mapped_column(_words(Sending))
    reminder: Mapped[bool]
    problem: Mapped[str | None] = mapped_column(Text)  # of her invitation


class Answer(Table):
    """What a player reported, and what she thinks the others will say, if she is asked: sealed."""

    __tablename__ = "answers"
    __table_args__ = (ForeignKeyConstraint(["study_id", "player"], ["players.study_id", "players.player"]),)

    study_id: Mapped[str] = mapped_column(COLUMN, String(16), key="study_id", primary_key=True)
    player: Mapped[str] = mapped_column(Text, primary_key=True)
    sealed: Mapped[bytes] = mapped_column(LargeBinary)


class Due(Table):
    """What a player is paid, and how that came about: sealed, because her answer follows from it."""

    __tablename__ = "due"
    __table_args__ = (ForeignKeyConstraint(["study_id", "player"], ["players.study_id", "players.player"]),)

    study_id: Mapped[str] = mapped_column(COLUMN, String(16), key="study_id", primary_key=True)
    player: Mapped[str] = mapped_column(Text, primary_key=True)
    sealed: Mapped[bytes] = mapped_column(LargeBinary)


class Event(Table):
    """The audit log: who did what, to whose account or which study, and when. Never a value.

    `hash` is of the event and of the hash before it, so that no event can be changed or left out unseen.
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
    """Where the log's chain ends: how many events it has, and the hash of the last. One row, which writers lock."""

    __tablename__ = "log_end"

    id: Mapped[int] = mapped_column(primary_key=True)
    events: Mapped[int]
    hash: Mapped[str] = mapped_column(String(64))


class RefusedSignIn(Table):
    """A wrong password, and whose: apart from the log, and the latest only, because strangers can make any number."""

    __tablename__ = "refused_sign_ins"

    id: Mapped[int] = mapped_column(primary_key=True)
    time: Mapped[datetime]
    whom: Mapped[str | None] = mapped_column(String(200))
