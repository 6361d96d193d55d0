"""Charts, as SVG or PNG by the file's name. Nothing of matplotlib is loaded before one is drawn."""

from typing import TYPE_CHECKING

from truthful.lazily import lazy_names

if TYPE_CHECKING:
    from truthful.charts.answers import Answers, Paid
    from truthful.charts.averages import Averages
    from truthful.charts.best_reports import BestReports
    from truthful.charts.chart import Chart, draw_chart, inline
    from truthful.charts.earnings import Earned, Earnings
    from truthful.charts.errors import Errors
    from truthful.charts.forest import Effect, Forest
    from truthful.charts.frontier import draw_frontier, draw_plan
    from truthful.charts.lies import Lie, Lies
    from truthful.charts.odds import Odds
    from truthful.charts.payments import Payments
    from truthful.charts.rates import Rates
    from truthful.charts.share import Share
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
        "answers": ("Answers", "Paid"),
        "averages": ("Averages",),
        "best_reports": ("BestReports",),
        "chart": ("Chart", "draw_chart", "inline"),
        "earnings": ("Earned", "Earnings"),
        "errors": ("Errors",),
        "forest": ("Effect", "Forest"),
        "frontier": ("draw_frontier", "draw_plan"),
        "lies": ("Lie", "Lies"),
        "odds": ("Odds",),
        "payments": ("Payments",),
        "rates": ("Rates",),
        "share": ("Share",),
        "surprises": ("Surprises",),
    },
)
