"""Accounts may have a second factor, and codes on paper for it; a sign-in may wait for a code."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    op.add_column("accounts", sa.Column("factor", sa.Text(), nullable=True))
    op.add_column("accounts", sa.Column("factor_step", sa.BigInteger(), nullable=False, server_default="0"))
    op.add_column("accounts", sa.Column("factor_misses", sa.Integer(), nullable=False, server_default="0"))
    op.add_column("sign_ins", sa.Column("waiting", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.create_table(
        "recovery_codes",
        sa.Column("hash", sa.String(length=64), primary_key=True),
        sa.Column("account_id", sa.Integer(), sa.ForeignKey("accounts.id"), nullable=False),
    )
