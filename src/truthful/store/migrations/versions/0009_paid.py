"""Of each player it is known when her payment was sent."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    op.add_column("players", sa.Column("sent", sa.DateTime(timezone=True), nullable=True))
