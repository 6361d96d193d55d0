"""Run as a program: settle, and die by SIGKILL just before or just after the k-th durable write.

    python killed_settlement.py PLAN REPORTS OUT K before|after

Prints the number of durable writes if it lives to the end.
"""

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from truthful.plan import Plan
from truthful.settlement import settle

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


if __name__ == "__main__":
    plan, reports, out, k, when = sys.argv[1:]
    loaded = Plan.load(plan)
    for name in ("fsync", "replace", "rename"):
        setattr(os, name, deadly(getattr(os, name), int(k), when))
    settle(loaded, reports, out=out)
    print(writes)
