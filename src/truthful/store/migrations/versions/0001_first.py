"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "accounts",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column(
            "role", sa.Enum("analyst", "payer", name="role", native_enum=False, length=16), nullable=False
        ),
        sa.Column("password", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("name"),
    )
    op.create_table(
        "events",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("time", sa.DateTime(timezone=True), nullable=False),
        sa.Column("who", sa.String(length=200), nullable=False),
        sa.Column("what", sa.String(length=300), nullable=False),
        sa.Column("survey_id", sa.String(length=16), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "surveys",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column(
            "state",
            sa.Enum(
                "draft", "open", "closed", "settled", "published", name="state", native_enum=False, length=16
            ),
            nullable=False,
        ),
        sa.Column("draft", sa.JSON(), nullable=False),
        sa.Column("declaration", sa.Text(), nullable=True),
        sa.Column("plan", sa.Text(), nullable=True),
        sa.Column("rehearsal", sa.Boolean(), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=True),
        sa.Column("created", sa.DateTime(timezone=True), nullable=False),
        sa.Column("frozen", sa.DateTime(timezone=True), nullable=True),
        sa.Column("closed", sa.DateTime(timezone=True), nullable=True),
        sa.Column("settled", sa.DateTime(timezone=True), nullable=True),
        sa.Column("published", sa.DateTime(timezone=True), nullable=True),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.Column("release", sa.Text(), nullable=True),
        sa.Column("report", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
    )
    op.create_table(
        "players",
        sa.Column("survey_id", sa.String(length=16), nullable=False),
        sa.Column("player", sa.Text(), nullable=False),
        sa.Column("features", sa.JSON(), nullable=False),
        sa.Column("link", sa.String(length=64), nullable=True),
        sa.Column("consented", sa.DateTime(timezone=True), nullable=True),
        sa.Column("code", sa.String(length=16), nullable=True),
        sa.Column("disputed", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["survey_id"],
            ["surveys.id"],
        ),
        sa.PrimaryKeyConstraint("survey_id", "player"),
        sa.UniqueConstraint("link"),
    )
    op.create_table(
        "sign_in_links",
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("account_id", sa.Integer(), nullable=False),
        sa.Column("expires", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
        ),
        sa.PrimaryKeyConstraint("hash"),
    )
    op.create_table(
        "sign_ins",
        sa.Column("hash", sa.String(length=64), nullable=False),
        sa.Column("account_id", sa.Integer(), nullable=False),
        sa.Column("expires", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["account_id"],
            ["accounts.id"],
        ),
        sa.PrimaryKeyConstraint("hash"),
    )
    op.create_table(
        "answers",
        sa.Column("survey_id", sa.String(length=16), nullable=False),
        sa.Column("player", sa.Text(), nullable=False),
        sa.Column("value", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(
            ["survey_id", "player"],
            ["players.survey_id", "players.player"],
        ),
        sa.PrimaryKeyConstraint("survey_id", "player"),
    )
    op.create_table(
        "due",
        sa.Column("survey_id", sa.String(length=16), nullable=False),
        sa.Column("player", sa.Text(), nullable=False),
        sa.Column("group", sa.Integer(), nullable=False),
        sa.Column("millionths", sa.BigInteger(), nullable=False),
        sa.Column("coins", sa.BigInteger(), nullable=False),
        sa.Column("digits", sa.Integer(), nullable=False),
        sa.ForeignKeyConstraint(
            ["survey_id", "player"],
            ["players.survey_id", "players.player"],
        ),
        sa.PrimaryKeyConstraint("survey_id", "player"),
    )
