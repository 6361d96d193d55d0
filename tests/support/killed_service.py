"""Run as a program: a service that is started for every line read, each time as a new process, to be killed.

    python killed_service.py DIRECTORY DATABASE_URL PORT

Prints the process's id when it starts and its exit status when it has ended. Every life is a fork of this process,
which itself only rehearses a study in memory, so that lives share nothing but the disk and loaded code.
"""

import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

import uvicorn

from support.killed_settlement import load
from truthful.service.app import create_app
from truthful.service.locations import Settings


def live(directory: Path, database: str, port: int) -> None:
    app = create_app(Settings(directory, f"http://127.0.0.1:{port}", database))
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="error")


def lives(directory: Path, database: str, port: int) -> None:
    for _ in sys.stdin:
        child = os.fork()
        if child == 0:
            try:
                live(directory, database, port)
            finally:
                os._exit(0)
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


if __name__ == "__main__":
    load()
    lives(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
