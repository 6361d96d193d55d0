"""Run as a program: the service, or the barest application that keeps an answer as durably, to be measured.

python load_servers.py service DIRECTORY DATABASE_URL PORT
python load_servers.py bare    DIRECTORY DATABASE_URL PORT
"""

from __future__ import annotations

import sys
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import uvicorn
from fastapi import FastAPI, Form, Response
from sqlalchemy import create_engine

from truthful.service.app import create_app
from truthful.service.locations import Settings
from truthful.store.database import Database
from truthful.store.seals import Seals

TABLE = "CREATE TABLE bare (study_id TEXT, player TEXT, value FLOAT8, PRIMARY KEY (study_id, player))"


def bare(url: str) -> FastAPI:
    """One row for each form, committed before the answer; no question is asked and no page is shown."""
    database, app = Database(url, Seals(Path(), ())), FastAPI(openapi_url=None)
    # For PostgreSQL an engine as it comes; for SQLite one that waits for the disk.
    plain = create_engine(database.engine.url, pool_size=20, max_overflow=30)
    engine = database.engine.execution_options(writing=True) if database.is_sqlite else plain
    mark = "?" if database.is_sqlite else "%s"
    insert = f"INSERT INTO bare VALUES ({mark}, {mark}, {mark})"
    # SQLite has one writer at a time; without a lock they would poll.
    turn = threading.Lock() if database.is_sqlite else nullcontext()
    with engine.begin() as connection:
        connection.exec_driver_sql(TABLE)

    @app.post("/a/{token}/submit")
    def submit(token: str, answer: Annotated[float, Form()]) -> Response:
        with turn, engine.begin() as connection:
            connection.exec_driver_sql(insert, ("0123456789ab", token, answer))
        return Response(status_code=303, headers={"Location": f"/a/{token}"})

    @app.get("/nothing")
    async def nothing() -> Response:
        return Response(status_code=204)

    return app


if __name__ == "__main__":
    kind, directory, url, port = sys.argv[1:]
    settings = Settings(Path(directory), f"http://127.0.0.1:{port}", url)
    uvicorn.run(
        create_app(settings) if kind == "service" else bare(url),
        host="127.0.0.1",
        port=int(port),
        log_level="warning",
        access_log=False,
    )
