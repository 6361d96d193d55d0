"""The first tables."""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None

TIME = sa.DateTime(timezone=True)
ROLES = ("analyst", "payer")
STATES = ("draft", "open", "closed", "settled", "published")


def columns(*, nullable: bool = False, **kinds: Any) -> list[sa.Column[Any]]:
    return [sa.Column(name, kind, nullable=nullable) for name, kind in kinds.items()]


def words(name: str, *values: str) -> sa.Enum:
    return sa.Enum(*values, name=name, native_enum=False, length=16)


def upgrade() -> None:
    op.create_table(
        "accounts",
        *columns(id=sa.Integer(), name=sa.String(200), role=words("role", *ROLES)),
        *columns(password=sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "events",
        *columns(id=sa.Integer(), time=TIME, who=sa.String(200), what=sa.String(300)),
        *columns(survey_id=sa.String(16), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "surveys",
        *columns(id=sa.String(16), name=sa.Text(), state=words("state", *STATES), draft=sa.JSON()),
        *columns(rehearsal=sa.Boolean(), created=TIME),
        *columns(declaration=sa.Text(), plan=sa.Text(), seed=sa.BigInteger(), nullable=True),
        *columns(frozen=TIME, closed=TIME, settled=TIME, published=TIME, nullable=True),
        *columns(problem=sa.Text(), release=sa.Text(), report=sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "players",
        *columns(survey_id=sa.String(16), player=sa.Text(), features=sa.JSON(), disputed=sa.Boolean()),
        *columns(link=sa.String(64), consented=TIME, code=sa.String(16), nullable=True),
        sa.ForeignKeyConstraint(["survey_id"], ["surveys.id"]),
        sa.PrimaryKeyConstraint("survey_id", "player"),
        sa.UniqueConstraint("link"),
    )
    for name in ("sign_in_links", "sign_ins"):
        op.create_table(
            name,
            *columns(hash=sa.String(64), account_id=sa.Integer(), expires=TIME),
            sa.ForeignKeyConstraint(["account_id"], ["accounts.id"]),
            sa.PrimaryKeyConstraint("hash"),
        )
    owed = {
        "group": sa.Integer(),
        "millionths": sa.BigInteger(),
        "coins": sa.BigInteger(),
        "digits": sa.Integer(),
    }
    for name, kinds in (("answers", {"value": sa.Double()}), ("due", owed)):
        op.create_table(
            name,
            *columns(survey_id=sa.String(16), player=sa.Text(), **kinds),
            sa.ForeignKeyConstraint(["survey_id", "player"], ["players.survey_id", "players.player"]),
            sa.PrimaryKeyConstraint("survey_id", "player"),
        )
