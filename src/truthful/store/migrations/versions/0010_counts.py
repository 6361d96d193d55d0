"""While people answer, counts are told in secret steps, and once an hour."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    op.add_column("surveys", sa.Column("steps", sa.String(length=64), nullable=True))
    op.add_column("surveys", sa.Column("told", sa.JSON(none_as_null=True), nullable=True))
