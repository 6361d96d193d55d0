"""Events name whom they are about in a column of its own; groups, which no settlement has had since 0002, are gone."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"

#: Events that the name of an account followed.
ABOUT = ("made a sign-in link for", "ended the access of", "refused a sign-in as")


def upgrade() -> None:
    op.drop_column("due", "group")
    op.add_column("events", sa.Column("whom", sa.String(length=200), nullable=True))
    event = sa.table("events", sa.column("what", sa.String), sa.column("whom", sa.String))
    for what in ABOUT:
        named = sa.func.substr(event.c.what, len(what) + 2)
        told = event.c.what.startswith(f"{what} ")
        op.execute(event.update().where(told).values(whom=named, what=what))
