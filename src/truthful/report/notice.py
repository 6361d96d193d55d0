"""A page in the report's place, for when there is none."""

from __future__ import annotations

import logging

from truthful.plan import Plan
from truthful.release import AnyRelease
from truthful.report.page import report

#: It needs no file and no library, so nothing in it can fail.
NOTICE = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><title>No report</title></head>
<body>
<h1>No report</h1>
<p>The report could not be made. Everything else is whole: release.json beside this page holds all results. To make the
report again, from the release and its plan:</p>
<pre>truthful report release.json plan.json --out report.html</pre>
</body>
</html>
"""


def report_or_notice(release: AnyRelease, plan: Plan) -> str:
    """The report, or a page that says there is none.

    When it is made the noise is drawn already. A settlement that a chart could stop would never be finished.
    """
    try:
        return report(release, plan)
    except Exception as problem:
        logging.getLogger(__name__).warning(
            "report.html could not be made (%r); the settlement is whole.", problem
        )
        return NOTICE
