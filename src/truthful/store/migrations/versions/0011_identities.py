"""Accounts may be known to an OpenID provider."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    with op.batch_alter_table("accounts") as accounts:
        accounts.add_column(sa.Column("identity", sa.String(length=320), nullable=True))
        accounts.add_column(sa.Column("subject", sa.String(length=800), nullable=True))
        accounts.create_unique_constraint("accounts_identity_key", ["identity"])
        accounts.create_unique_constraint("accounts_subject_key", ["subject"])
