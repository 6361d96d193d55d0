"""Run as a program: settle again and again, dying by SIGKILL at every durable write in turn, and finish each time.

    python killed_settlement.py DIRECTORY...

Each directory holds plan.json and reports.parquet, and its name says when to die: `3-before` is just before the
third durable write, `3-after` just after it, `0-before` never. Every life is a fork of this process, which
itself only rehearses another study in memory, so that nothing is shared between lives but the disk and loaded code.
Each life that ends by itself writes the number of its durable writes to the file `writes`.
"""

import gc
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).parents[1]))

from support.studies import WITHOUT_FEATURES, people, planned
from truthful.plan import Plan
from truthful.report import page, report
from truthful.settlement import settle
from truthful.study import Study

writes = 0


def deadly(call: Callable[..., Any], k: int, when: str) -> Callable[..., Any]:
    def wrapped(*arguments: Any, **options: Any) -> Any:
        global writes
        writes += 1
        if writes == k and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = call(*arguments, **options)
        if writes == k and when == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return wrapped


def live(directory: Path, k: int, when: str) -> None:
    plan = Plan.load(directory / "plan.json")
    for name in ("fsync", "replace", "rename"):
        setattr(os, name, deadly(getattr(os, name), k, when))
    settle(plan, directory / "reports.parquet", out=directory / "out")
    (directory / "writes").write_text(str(writes))


def forked(directory: Path, k: int, when: str) -> int:
    """One life; its exit status, −9 if it was killed."""
    child = os.fork()
    if child == 0:
        try:
            live(directory, k, when)
        except BaseException as error:
            print(f"{directory.name}: {error!r}", file=sys.stderr)
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def load() -> None:
    """Compiled code is loaded here, once, and not in every life. Nothing is drawn: that took half of each."""
    vars(page)["inline"] = lambda chart, name: ""
    study = Study.parse(WITHOUT_FEATURES)
    plan = planned(study, 60)
    report(settle(plan, people(study, 60).reports, seed=0).release, plan)
    gc.freeze()


if __name__ == "__main__":
    load()
    for name in sys.argv[1:]:
        directory = Path(name)
        k, when = directory.name.split("-")
        status = forked(directory, int(k), when)
        seen = (directory / "out").exists()
        (directory / "keys").write_text("".join(key.read_text() for key in directory.glob("draw-*.key")))
        (directory / "first").write_text(f"{status} {'seen' if seen else 'unseen'}")
        if not seen:
            (directory / "second").write_text(str(forked(directory, 0, when)))
