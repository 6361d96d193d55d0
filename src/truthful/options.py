"""The options of `truthful plan` and `truthful serve`, in the words of their help."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

PAYING, ESTIMATING, PROMISING = "Payments", "Estimators", "Guarantees"

StudyFile = Annotated[Path, typer.Argument(help="The study file.")]
Players = Annotated[
    int | None,
    typer.Option(
        help="The most players who will take part. Default: everybody on the roster, if there is one."
    ),
]
Roster = Annotated[
    Path | None,
    typer.Option(
        help="A file (.csv, .parquet) of the features of everybody who is invited; other columns are ignored. The plan "
        "is then computed from these people."
    ),
]
ResponseShare = Annotated[
    float, typer.Option(help="Share of those invited who are expected to answer, above 0 and at most 1.")
]
Budget = Annotated[
    float | None,
    typer.Option(
        help="The most that all payments may cost, for certain (on average, with --payments expected). The plan is "
        "then the most accurate that the money buys."
    ),
]
Accuracy = Annotated[
    float | None,
    typer.Option(
        help="The largest error allowed, root mean square, in units of the answer; for yes and no as a share: "
        "0.02 is 2 percentage points. The plan is then the cheapest that guarantees it."
    ),
]
AccuracyOf = Annotated[
    str,
    typer.Option(
        help="Which error: of coefficients, predictions for people like these, or centre, what people expect, "
        "which a pilot is to find."
    ),
]
Epsilon = Annotated[float | None, typer.Option(help="Privacy: the total ε. Smaller is more private.")]
Lie = Annotated[
    float | None,
    typer.Option(
        help="The largest lie that may pay, as a change of the prediction made from an answer, in normalised units and "
        "if predictions were not clipped below R. Default: half the largest prediction, R/2. For ratings: from how "
        "many steps on no lie may pay. Default: a quarter of the scale. Where people are asked for predictions of "
        "numbers: from which size on, in units of the answer. Default: a fifth of the scale."
    ),
]
ScoreWeight = Annotated[
    float | None,
    typer.Option(
        help="b: how much a payment depends on the answer, in currency. With it nothing is solved for: players and "
        "epsilon must be given.",
        rich_help_panel=PAYING,
    ),
]
BasePayment = Annotated[
    float | None,
    typer.Option(
        help="a: what a payment starts from; only with --score-weight. Default: the least with which no payment can be "
        "negative.",
        rich_help_panel=PAYING,
    ),
]
Bonus = Annotated[
    float | None,
    typer.Option(
        help="For yes and no, and ratings: the most that is paid on top of the flat fee, in currency. With it nothing "
        "is solved for: players and epsilon must be given.",
        rich_help_panel=PAYING,
    ),
]
Flat = Annotated[
    float | None,
    typer.Option(
        help="For yes and no, and ratings: what everybody is paid; only with --bonus. Default: nothing.",
        rich_help_panel=PAYING,
    ),
]
Margin = Annotated[
    float | None,
    typer.Option(
        help="For yes and no, and ratings: how far beyond the believed range shares still count; only with "
        "--bonus. Default: 0; without --bonus, solved for.",
        rich_help_panel=PAYING,
    ),
]
Tolerance = Annotated[
    float | None,
    typer.Option(
        help="For yes and no, and ratings: how far beyond the believed range a share is implausible, and all "
        "get half the bonus; only with --bonus. Default: what chance hardly ever exceeds.",
        rich_help_panel=PAYING,
    ),
]
Rule = Annotated[str, typer.Option(help="quadratic, or brier (the paper's).", rich_help_panel=PAYING)]
Payments = Annotated[
    str,
    typer.Option(help="never-negative, or expected (research and rehearsals only).", rich_help_panel=PAYING),
]
LeastSlope = Annotated[
    float,
    typer.Option(
        help="Halves: how steeply their clipped predictions must follow the truth for a typical person, between 0 and "
        "1.",
        rich_help_panel=PAYING,
    ),
]
Clip = Annotated[
    float | None,
    typer.Option(
        help="c: how far from the centre what others predict of somebody counts, at most R. Default: solved for; with "
        "--score-weight, R.",
        rich_help_panel=PAYING,
    ),
]
Peers = Annotated[
    str,
    typer.Option(
        help="Whom people are scored against: leave-one-out (everybody else), or halves (the paper's mechanism, for "
        "comparison).",
        rich_help_panel=ESTIMATING,
    ),
]
Estimator = Annotated[
    str | None,
    typer.Option(
        help="instruments (where answers are protected), known-design or noisy-statistics (records); with --peers "
        "halves also ridge-ball and ridge-free. Default: the best that the study allows.",
        rich_help_panel=ESTIMATING,
    ),
]
PeerEstimator = Annotated[
    str | None,
    typer.Option(
        help="Halves: their estimator. Default: the best; with --score-weight, the same (ridge-free for ridge-ball).",
        rich_help_panel=ESTIMATING,
    ),
]
Regularization = Annotated[
    float | None,
    typer.Option(help="Halves: γ, the ridge penalty; the ridges need one.", rich_help_panel=ESTIMATING),
]
PeerRegularization = Annotated[
    float | None, typer.Option(help="Halves: their own γ. Default: the same.", rich_help_panel=ESTIMATING)
]
PublicShare = Annotated[
    float | None,
    typer.Option(
        help="Halves: share of ε spent on the published estimate. Default: solved for; with --score-weight, 0.9.",
        rich_help_panel=ESTIMATING,
    ),
]
GramShare = Annotated[
    float | None,
    typer.Option(
        help="noisy-statistics: share of ε spent on the features' second moments. Default: solved for; with "
        "--score-weight, 0.5.",
        rich_help_panel=ESTIMATING,
    ),
]
AbsentShare = Annotated[
    float | None,
    typer.Option(
        help="α: share of players who may misreport. Default: solved for; with --score-weight, 0.002.",
        rich_help_panel=PROMISING,
    ),
]
FailureProbability = Annotated[
    float, typer.Option(help="β: probability that more do.", rich_help_panel=PROMISING)
]
Save = Annotated[Path | None, typer.Option(help="Write the plan here; `truthful settle` takes it.")]
Chart = Annotated[
    Path | None,
    typer.Option(
        help="Draw what other budgets would buy, ours and the paper's mechanism, to this .svg or .png; for yes and no, "
        "and ratings, what answers pay."
    ),
]

ServiceDirectory = Annotated[
    Path, typer.Argument(help="Where the service keeps everything; created if it does not exist.")
]
Host = Annotated[
    str, typer.Option(help="The address to listen on; 0.0.0.0 is all of this machine's addresses.")
]
Port = Annotated[int, typer.Option(help="The port to listen on; 0 is any free one.")]
Url = Annotated[
    str | None,
    typer.Option(
        help="What people type, as https://study.example.org: links begin with it, and with https cookies need TLS. "
        "Default: where it listens."
    ),
]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        help="Where answers are kept, as postgresql://USER:PASSWORD@HOST/NAME. Default: SQLite in the directory.",
        envvar="TRUTHFUL_DATABASE",
        show_envvar=True,
    ),
]
WithDemo = Annotated[
    bool, typer.Option("--demo", help="Make a study of invented people to click through, if there is none.")
]
NewLink = Annotated[
    bool,
    typer.Option(
        "--new-link", help="Print a new sign-in link for the analyst, also while the service is running."
    ),
]
AnalystName = Annotated[str, typer.Option("--analyst", help="The analyst's name, to sign in with.")]
BehindProxy = Annotated[
    bool,
    typer.Option(
        "--behind-proxy",
        help="Take people's addresses from X-Forwarded-For, as a proxy adds them. They limit rates and are never kept.",
    ),
]
ApiDocs = Annotated[
    bool,
    typer.Option("--api-docs", help="Publish a description of all pages for machines, at /openapi.json."),
]
BotsUrl = Annotated[
    str,
    typer.Argument(
        help="Where the service is, as http://127.0.0.1:8000, or the sign-in link that `truthful serve` prints."
    ),
]
BotsStudy = Annotated[
    Path | None,
    typer.Option(
        help="The study file to rehearse, with facts that are assigned or with none. Default: the demo's."
    ),
]
Mix = Annotated[
    str,
    typer.Option(help="Shares of kinds of people, as those of `truthful simulate`; liars are exaggerators."),
]
Password = Annotated[
    str | None,
    typer.Option(
        help="The analyst's. With a sign-in link: the one to set. Default: a new one, which is printed.",
        envvar="TRUTHFUL_PASSWORD",
        show_envvar=True,
    ),
]
