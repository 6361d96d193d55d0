"""A study knows again the key it was frozen with, from which its noise follows."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.add_column("surveys", sa.Column("key_sha256", sa.String(length=64), nullable=True))
