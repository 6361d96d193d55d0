"""People are invited by mail, by links that can be made again, or come from a panel and go back to it."""

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("surveys", sa.Column("mail", sa.JSON(none_as_null=True), nullable=True))
    op.add_column("surveys", sa.Column("panel", sa.JSON(none_as_null=True), nullable=True))
    op.add_column("players", sa.Column("salt", sa.String(32), nullable=True))
    op.create_table(
        "mails",
        sa.Column("survey_id", sa.String(16), primary_key=True),
        sa.Column("player", sa.Text, primary_key=True),
        sa.Column("address", sa.String(254), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reminder", sa.Boolean, nullable=False),
        sa.Column("problem", sa.Text, nullable=True),
        sa.ForeignKeyConstraint(["survey_id", "player"], ["players.survey_id", "players.player"]),
    )
