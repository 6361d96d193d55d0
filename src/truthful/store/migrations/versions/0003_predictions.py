"""Predictions of what the others will say: kept with the answer they came with, and told of in receipts."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("answers", sa.Column("prediction", sa.Double(), nullable=True))
    for name in ("others_answer", "others_prediction", "surprise"):
        op.add_column("due", sa.Column(name, sa.Double(), nullable=True))
