"""Answers, what is due, and codes are sealed; what stood there in clear is dropped."""

import math
from struct import Struct
from typing import Any

import sqlalchemy as sa
from alembic import context, op

revision = "0012"
down_revision = "0011"

TOLD = (
    "leverage",
    "noise_scale",
    "peer_prediction",
    "own_prediction",
    "others_answer",
    "others_prediction",
    "surprise",
)
SAID = ("value", "prediction")
OWED = ("millionths", "coins", "digits")


def upgrade() -> None:
    op.add_column("surveys", sa.Column("seal", sa.String(length=8), nullable=True))
    op.add_column("players", sa.Column("sealed_code", sa.LargeBinary(), nullable=True))
    for name in ("answers", "due"):
        op.add_column(name, sa.Column("sealed", sa.LargeBinary(), nullable=True))
    survey = sa.table("surveys", *map(sa.column, ("id", "seal", "state")))
    frozen = sa.select(survey.c.id).where(survey.c.state != "draft")
    for study_id in op.get_bind().execute(frozen).scalars().all():
        _seal(study_id, survey)
    op.drop_column("players", "code")
    for name, gone in (("answers", SAID), ("due", (*OWED, *TOLD))):
        with op.batch_alter_table(name) as table:
            table.alter_column("sealed", existing_type=sa.LargeBinary(), nullable=False)
            for column in gone:
                table.drop_column(column)


def _seal(study_id: str, survey: sa.TableClause) -> None:
    seals = context.config.attributes["seals"]
    name = seals.make(study_id)
    key = seals.key(study_id, name)
    op.execute(survey.update().where(survey.c.id == study_id).values(seal=name))
    _fill(
        "answers",
        study_id,
        SAID,
        "sealed",
        lambda row: key.seal("answer", row.player, _numbers(">", row[1:])),
    )
    owed = (*OWED, *TOLD)
    _fill("due", study_id, owed, "sealed", lambda row: key.seal("due", row.player, _numbers(">qqB", row[1:])))
    _fill(
        "players",
        study_id,
        ("code",),
        "sealed_code",
        lambda row: row.code and key.seal_code(row.player, row.code),
    )


def _fill(table: str, study_id: str, columns: tuple[str, ...], to: str, seal: Any) -> None:
    """Every row of a study, sealed."""
    named = sa.table(table, *map(sa.column, ("survey_id", "player", *columns)), sa.column(to, sa.LargeBinary))
    hers = (named.c.survey_id == study_id) & (named.c.player == sa.bindparam("whose"))
    change = named.update().where(hers).values({to: sa.bindparam("sealed_value")})
    wanted = sa.select(named.c.player, *(named.c[name] for name in columns)).where(
        named.c.survey_id == study_id
    )
    rows = op.get_bind().execute(wanted).all()
    if rows:
        op.get_bind().execute(change, [{"whose": row.player, "sealed_value": seal(row)} for row in rows])


def _numbers(kept: str, values: Any) -> bytes:
    """Numbers as bytes; none is not a number."""
    return Struct(kept + "d" * (len(values) - len(kept) + 1)).pack(
        *(math.nan if value is None else value for value in values)
    )
