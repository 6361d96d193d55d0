"""Studies have a deadline and a consent document, and of each player it is known to which document she consented."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    op.add_column("surveys", sa.Column("deadline", sa.DateTime(timezone=True), nullable=True))
    op.add_column("players", sa.Column("document", sa.String(64), nullable=True))
    op.create_table(
        "documents",
        sa.Column("survey_id", sa.String(16), sa.ForeignKey("surveys.id"), primary_key=True),
        sa.Column("sha256", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(3), nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
    )
