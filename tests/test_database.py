"""What the service asks of a database, whatever that database does of its own accord."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text
from support.databases import database_url
from support.sealed import keyed


@pytest.fixture(scope="module")
def careless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a PostgreSQL database that would rather not wait for its disk."""
    directory = tmp_path_factory.mktemp("database")
    with database_url("postgresql", directory) as url:
        name = url.partition("?")[0].rpartition("/")[2]
        database = keyed(url, directory)
        with database.engine.connect() as connection:
            for setting in ("synchronous_commit = off", "default_transaction_isolation = 'serializable'"):
                connection.execute(text(f"ALTER DATABASE {name} SET {setting}"))
            connection.commit()
        database.close()
        yield url


@pytest.mark.parametrize("more", ["", "&options=-c%20search_path%3Delsewhere"])
def test_postgresql_waits_for_the_disk_and_isolates_as_we_say(
    careless: str, more: str, tmp_path: Path
) -> None:
    database = keyed(careless + more, tmp_path)
    with database.reading() as session:
        assert session.scalar(text("SHOW synchronous_commit")) == "on"
        assert session.scalar(text("SHOW transaction_isolation")) == "read committed"
        assert session.scalar(text("SHOW search_path")) == ("elsewhere" if more else '"$user", public')
    database.close()


def test_sqlite_overwrites_what_is_deleted(tmp_path: Path) -> None:
    database = keyed(f"sqlite:///{tmp_path / 'test.db'}", tmp_path)
    with database.reading() as session:
        assert session.scalar(text("PRAGMA secure_delete")) == 1
    database.close()
