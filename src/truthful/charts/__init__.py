"""Charts, as SVG or PNG by the file's name. Nothing of matplotlib is loaded before one is drawn."""

from typing import TYPE_CHECKING

from truthful.lazily import lazy_names

if TYPE_CHECKING:
    from truthful.charts.averages import Averages
    from truthful.charts.chart import Chart, draw_chart, inline
    from truthful.charts.estimates import Effect, Forest, Odds, Share
    from truthful.charts.frontier import draw_frontier, draw_plan
    from truthful.charts.laboratory import BestReports, Earned, Earnings, Errors, Rates
    from truthful.charts.payments import Answers, Lie, Lies, Paid, Payments
    from truthful.charts.surprises import Surprises

__all__ = [
    "Answers",
    "Averages",
    "BestReports",
    "Chart",
    "Earned",
    "Earnings",
    "Effect",
    "Errors",
    "Forest",
    "Lie",
    "Lies",
    "Odds",
    "Paid",
    "Payments",
    "Rates",
    "Share",
    "Surprises",
    "draw_chart",
    "draw_frontier",
    "draw_plan",
    "inline",
]

__getattr__ = lazy_names(
    __name__,
    {
        "averages": ("Averages",),
        "chart": ("Chart", "draw_chart", "inline"),
        "estimates": ("Effect", "Forest", "Odds", "Share"),
        "frontier": ("draw_frontier", "draw_plan"),
        "laboratory": ("BestReports", "Earned", "Earnings", "Errors", "Rates"),
        "payments": ("Answers", "Lie", "Lies", "Paid", "Payments"),
        "surprises": ("Surprises",),
    },
)
