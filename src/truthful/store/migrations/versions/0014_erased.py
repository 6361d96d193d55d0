"""A study whose people's data were erased: when, what was paid in all, and the links that lead to that news."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"


def upgrade() -> None:
    op.add_column("surveys", sa.Column("erased", sa.DateTime(timezone=True), nullable=True))
    op.add_column("surveys", sa.Column("totals", sa.JSON(none_as_null=True), nullable=True))
    op.create_table(
        "erased_links",
        sa.Column("link", sa.String(length=64), nullable=False),
        sa.Column("survey_id", sa.String(length=16), nullable=False),
        sa.ForeignKeyConstraint(["survey_id"], ["surveys.id"]),
        sa.PrimaryKeyConstraint("link"),
    )
