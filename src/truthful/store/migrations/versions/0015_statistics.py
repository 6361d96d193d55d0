"""PostgreSQL keeps no statistics of people: they hold ids, and stay when a table has become empty.

It forgets what it has counted of a column when it is told the column's type, also if that is the one it has.
"""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"

PEOPLE = ("answers", "due", "mails", "players")
STUDY = "survey_id"


def upgrade() -> None:
    bind = op.get_bind()
    if bind.dialect.name != "postgresql":
        return
    for table in PEOPLE:
        columns = {column["name"]: column["type"] for column in sa.inspect(bind).get_columns(table)}
        for name, kind in columns.items():
            if name != STUDY:
                op.execute(f"ALTER TABLE {table} ALTER {name} TYPE {kind.compile(bind.dialect)}")
                op.execute(f"ALTER TABLE {table} ALTER {name} SET STATISTICS 0")
