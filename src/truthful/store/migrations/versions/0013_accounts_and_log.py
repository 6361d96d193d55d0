"""Studies belong to accounts, and the log is a chain of hashes, without refused sign-ins.

A study that is there belongs to the only analyst, if there is only one, and one that is frozen is paid by the only
payer. Otherwise nobody is let into it before the operator says who: `truthful account share`.
"""

import sqlalchemy as sa
from alembic import op

from truthful.store.audit_log import BEGINNING, EVENT_FIELDS, link
from truthful.store.tables import Moment

revision = "0013"
down_revision = "0012"

TIME = sa.DateTime(timezone=True)
REFUSED = ("refused a sign-in", "refused a sign-in as")
ACCOUNTS = sa.table("accounts", sa.column("id"), sa.column("role"))
STUDIES = sa.table("surveys", sa.column("id"), sa.column("state"))
EVENTS = sa.table(
    "events",
    sa.column("id"),
    sa.column("time", Moment()),
    *map(sa.column, ("who", "what", "whom", "survey_id", "hash")),
)


def upgrade() -> None:
    access = op.create_table(
        "study_accounts",
        sa.Column("survey_id", sa.String(length=16), sa.ForeignKey("surveys.id"), nullable=False),
        sa.Column("account_id", sa.Integer(), sa.ForeignKey("accounts.id"), nullable=False),
        sa.PrimaryKeyConstraint("survey_id", "account_id"),
    )
    refused = op.create_table(
        "refused_sign_ins",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("time", TIME, nullable=False),
        sa.Column("whom", sa.String(length=200), nullable=True),
    )
    end = op.create_table(
        "log_end",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("events", sa.Integer(), nullable=False),
        sa.Column("hash", sa.String(length=64), nullable=False),
    )
    _give_to_the_only_ones(access)
    told = sa.select(EVENTS.c.time, EVENTS.c.whom).where(EVENTS.c.what.in_(REFUSED)).order_by(EVENTS.c.id)
    op.execute(sa.insert(refused).from_select(["time", "whom"], told))
    op.execute(sa.delete(EVENTS).where(EVENTS.c.what.in_(REFUSED)))
    op.add_column("events", sa.Column("hash", sa.String(length=64), nullable=True))
    op.bulk_insert(end, [dict(zip(("id", "events", "hash"), (1, *_chain()), strict=True))])
    with op.batch_alter_table("events") as events:
        events.alter_column("hash", existing_type=sa.String(length=64), nullable=False)


def _give_to_the_only_ones(access: sa.Table) -> None:
    bind = op.get_bind()
    for role, states in (("analyst", None), ("payer", ("draft",))):
        found = bind.scalars(sa.select(ACCOUNTS.c.id).where(ACCOUNTS.c.role == role)).all()
        if len(found) == 1:
            given = sa.select(STUDIES.c.id, sa.literal(found[0]))
            given = given if states is None else given.where(STUDIES.c.state.not_in(states))
            op.execute(sa.insert(access).from_select(["survey_id", "account_id"], given))


def _chain() -> tuple[int, str]:
    """Give every event its hash; how many there are, and the last hash."""
    bind, last = op.get_bind(), BEGINNING
    rows = bind.execute(sa.select(EVENTS).order_by(EVENTS.c.id)).all()
    for row in rows:
        said = dict(zip(EVENT_FIELDS, (row.time, row.who, row.what, row.whom, row.survey_id), strict=True))
        last = link(last, said)
        bind.execute(sa.update(EVENTS).where(EVENTS.c.id == row.id).values(hash=last))
    return len(rows), last
