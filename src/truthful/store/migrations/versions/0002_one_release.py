"""One release: receipts without groups, rosters of drafts, and settlements that could promise too little."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    # Not in a batch: SQLite would make the table anew, and players refer to it.
    op.add_column("surveys", sa.Column("roster", sa.String(length=64), nullable=True))
    op.add_column("surveys", sa.Column("refused", sa.JSON(none_as_null=True), nullable=True))
    op.add_column(
        "surveys", sa.Column("accepts_less", sa.Boolean(), nullable=False, server_default=sa.false())
    )
    with op.batch_alter_table("due") as due:
        due.alter_column("group", existing_type=sa.Integer(), nullable=True)
        for name in ("leverage", "noise_scale", "peer_prediction", "own_prediction"):
            due.add_column(sa.Column(name, sa.Double(), nullable=True))
