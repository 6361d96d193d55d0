"""Run as a program in a directory with plan.json and reports.csv: give `truthful settle` again and again, stopping it.

    python stopped_settlement.py CASE...

A case is `disk-N`, where no file may grow beyond N bytes, `interrupt-STAGE`, where Ctrl-C comes as rows of that stage
are done, or `none`. Each is a fork of this process, so that nothing is shared between them but the disk. Exit codes are
printed, one a line; what was said is in the file CASE.err.
"""

import os
import resource
import signal
import sys
from pathlib import Path
from typing import Any

from truthful import cli, report, settlement
from truthful.settlement import settlement as settling


def limit_files(size: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # as Python does, and a full disk: an error, not a death
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def interrupt_at(stage: str) -> None:
    settle = settling.settle

    def interrupted(*arguments: Any, **options: Any) -> Any:
        def progress(now: str, done: int, rows: int | None) -> None:
            if now == stage:
                os.kill(os.getpid(), signal.SIGINT)

        return settle(*arguments, **{**options, "progress": progress})

    vars(settlement)["settle"] = interrupted


def run(case: str) -> int:
    """One command in a process of its own; its exit code."""
    heard, said = os.pipe()  # not a file, which could not grow either
    child = os.fork()
    if child == 0:
        os.dup2(said, 2)
        kind, _, detail = case.partition("-")
        if kind == "disk":
            limit_files(int(detail))
        elif kind == "interrupt":
            interrupt_at(detail)
        sys.argv = ["truthful", "settle", "plan.json", "reports.csv", "--out", "out"]
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        try:
            cli.main()
        except SystemExit as end:
            os._exit(int(end.code or 0))
        os._exit(0)
    os.close(said)
    with open(heard, "rb") as words:
        Path(f"{case}.err").write_bytes(words.read())
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


if __name__ == "__main__":
    vars(report)  # loaded here, once
    for name in sys.argv[1:]:
        print(run(name), flush=True)
