"""The options of `truthful plan`, as a table, and those that commands share, in the words of their help."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from truthful.errors import InputError

KEYWORD_ONLY = inspect.Parameter.KEYWORD_ONLY
#: The words that options take, for the shell to complete; commands check them where they are used.
CHOICES = {
    "accuracy_of": ("coefficients", "predictions", "centre"),
    "rule": ("quadratic", "brier"),
    "payments": ("never-negative", "expected"),
    "estimator": ("instruments", "known-design", "noisy-statistics"),
    "on_bad": ("error", "clip", "drop"),
    "books": ("all", "payments"),
    "engine": ("threads", "dask"),
}


def words_of(option: str) -> Callable[[str], list[str]] | None:
    """A completion for an option: its words that begin with the typed text; None where any value is allowed."""
    words = CHOICES.get(option)

    def complete(incomplete: str) -> list[str]:
        return [word for word in words or () if word.startswith(incomplete)]

    return None if words is None else complete


PAYING, ESTIMATING, PROMISING = "Payments", "Estimators", "Guarantees"
#: The goals of a plan, by the names of `design`'s arguments, under the headings of the help.
GOALS: dict[str | None, dict[str, str]] = {
    None: {
        "players": "The most players who will take part. Default: everybody on the roster, if there is one.",
        "roster": "A file (as of reports) of the features of everybody who is invited; other columns are ignored. "
        "The plan is then computed from these people.",
        "response_share": "Share of those invited who are expected to answer, above 0 and at most 1.",
        "budget": "The most that all payments may cost, for certain (on average, with --payments expected). The "
        "plan is then the most accurate that the money buys.",
        "accuracy": "The largest error allowed, root mean square, in units of the answer; for yes and no as a "
        "share: 0.02 is 2 percentage points. The plan is then the cheapest that guarantees it.",
        "accuracy_of": "Which error: of coefficients, predictions for people like these, or centre, what people "
        "expect, which a pilot is to find.",
        "epsilon": "Privacy: the total ε. Smaller is more private.",
        "lie": "The largest lie that may pay, as a change of the prediction made from an answer, in normalised "
        "units and if predictions were not clipped below R. Default: half the largest prediction, R/2. For ratings: "
        "from how many steps on no lie may pay. Default: a quarter of the scale. Where people are asked for "
        "predictions of numbers: from which size on, in units of the answer. Default: a fifth of the scale.",
    },
    PAYING: {
        "score_weight": "b: how much a payment depends on the answer, in currency. With it nothing is solved for: "
        "players and epsilon must be given.",
        "base_payment": "a: what a payment starts from; only with --score-weight. Default: the least with which no "
        "payment can be negative.",
        "bonus": "For yes and no, and ratings: the most that is paid on top of the flat fee, in currency. With it "
        "nothing is solved for: players and epsilon must be given.",
        "flat": "For yes and no, and ratings: what everybody is paid; only with --bonus. Default: nothing.",
        "margin": "For yes and no, and ratings: how far beyond the believed range shares still count; only with "
        "--bonus. Default: 0; without --bonus, solved for.",
        "tolerance": "For yes and no, and ratings: how far beyond the believed range a share is implausible, and "
        "all get half the bonus; only with --bonus. Default: what chance hardly ever exceeds.",
        "rule": "quadratic, or brier (the paper's).",
        "payments": "never-negative, or expected (research and rehearsals only).",
        "clip": "c: how far from the centre what others predict of somebody counts, at most R. Default: solved for; "
        "with --score-weight, R.",
    },
    ESTIMATING: {
        "estimator": "instruments (where answers are protected), known-design or noisy-statistics (records). Default: "
        "the best that the study allows.",
        "gram_share": "noisy-statistics: share of ε spent on the features' second moments. Default: solved for; "
        "with --score-weight, 0.5.",
    },
    PROMISING: {
        "absent_share": "α: share of players who may misreport. Default: solved for; with --score-weight, 0.002.",
        "failure_probability": "β: probability that more do.",
    },
}
#: Types and defaults of those that are not a number or nothing.
TYPES: dict[str, tuple[Any, Any]] = {
    "players": (int | None, None),
    "roster": (Path | None, None),
    "response_share": (float, 1.0),
    "accuracy_of": (str, "coefficients"),
    "rule": (str, "quadratic"),
    "payments": (str, "never-negative"),
    "estimator": (str | None, None),
    "failure_probability": (float, 0.01),
}


def take_goals(command: Callable[..., None]) -> Callable[..., None]:
    """A decorator that gives a command, which takes **goals, an option for each row of the table."""
    signature = inspect.signature(command, eval_str=True)
    first, *own, _ = signature.parameters.values()
    options = []
    for panel, goals in GOALS.items():
        for name, words in goals.items():
            kind, default = TYPES.get(name, (float | None, None))
            option: Any = Annotated[
                kind, typer.Option(help=words, rich_help_panel=panel, autocompletion=words_of(name))
            ]
            command.__annotations__[name] = option
            options.append(inspect.Parameter(name, KEYWORD_ONLY, default=default, annotation=option))
    after = [parameter.replace(kind=KEYWORD_ONLY) for parameter in own]
    vars(command)["__signature__"] = signature.replace(parameters=[first, *options, *after])
    return command


PlanFile = Annotated[Path, typer.Argument(help="The plan, as written by `truthful plan --save`.")]
ReportsFile = Annotated[
    str,
    typer.Argument(
        help="The reports: a file of text (.csv, .tsv), a spreadsheet (.xlsx, .ods; people.xlsx#Wave2 is its "
        "sheet 'Wave2'), of Stata (.dta), SPSS (.sav) or Parquet, a directory of Parquet parts, or the URL of such "
        "Parquet files."
    ),
]
ReleaseFile = Annotated[Path, typer.Argument(help="The public release.json.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON record, for machines.")]
Seed = Annotated[
    int | None,
    typer.Option(help="Repeat a run exactly. The result is marked a rehearsal: it protects nobody."),
]
OnBad = Annotated[
    str,
    typer.Option(
        help="Bad records: error (refuse), clip (move numbers into their range), drop (leave them out).",
        autocompletion=words_of("on_bad"),
    ),
]
Books = Annotated[
    str,
    typer.Option(
        help="What to write: all (payments as Parquet and CSV, receipts) or payments (payments.parquet alone, for very "
        "many players).",
        autocompletion=words_of("books"),
    ),
]
Engine = Annotated[
    str,
    typer.Option(
        help="Who computes: threads of this process, or dask, processes here or on a cluster.",
        autocompletion=words_of("engine"),
    ),
]
Column = Annotated[
    list[str] | None,
    typer.Option(
        help="Which column of the file is which, where its header is another: weekly_spend=Q7. Give it once for each; "
        "columns that are not asked for are then ignored."
    ),
]
AcceptLess = Annotated[
    bool,
    typer.Option(
        "--accept-less",
        help="Settle although less can be guaranteed for those who answered than was promised.",
    ),
]
StudyFile = Annotated[Path, typer.Argument(help="The study file.")]
Save = Annotated[Path | None, typer.Option(help="Write the plan here; `truthful settle` takes it.")]
Chart = Annotated[
    Path | None,
    typer.Option(
        help="Draw what other budgets would buy to this .svg or .png; for yes and no, and ratings, what answers pay."
    ),
]
ServiceDirectory = Annotated[
    Path, typer.Argument(help="Where the service keeps everything; created if it does not exist.")
]
KeptDirectory = Annotated[Path, typer.Argument(help="The service's directory.")]
NewBackup = Annotated[Path, typer.Argument(help="The file to write; it must not exist yet.")]
KeptBackup = Annotated[Path, typer.Argument(help="A file that `truthful backup` wrote.")]
RestoredDirectory = Annotated[
    Path,
    typer.Argument(help="The directory to make. It may hold truthful.key, and nothing else."),
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
AnalystName = Annotated[str, typer.Option("--analyst", help="The analyst's name, to sign in with.")]
ExistingService = Annotated[Path, typer.Argument(help="The directory of a service, which may be running.")]
AccountName = Annotated[
    str, typer.Argument(help="The account's name. People read a payer's before they answer.")
]
AccountRole = Annotated[
    Literal["payer", "analyst"],
    typer.Option(help="An analyst runs studies of her own; a payer sees amounts of studies that name her."),
]
LinkUrl = Annotated[
    str,
    typer.Option(help="Where people reach the service, as https://study.example.org: links begin with it."),
]
SharedStudy = Annotated[str, typer.Argument(help="The study's id, as in its address.")]
EndSharing = Annotated[bool, typer.Option("--end", help="Stop sharing it.")]
RefusedSignIns = Annotated[
    bool,
    typer.Option("--refused", help="Print refused sign-ins instead, which stand apart: the latest 1,000."),
]
KeptHash = Annotated[
    str | None,
    typer.Option(help="A hash with which the log ended earlier: refused if it is no longer in the chain."),
]
BehindProxy = Annotated[
    bool,
    typer.Option(
        "--behind-proxy",
        help="Take people's addresses from X-Forwarded-For, as a proxy adds them. They limit rates and are never kept.",
    ),
]
SmtpServer = Annotated[
    str | None,
    typer.Option(
        "--smtp",
        help="The mail server that sends invitations, as HOST:PORT. Off this machine it must speak TLS.",
    ),
]
SmtpUser = Annotated[
    str | None, typer.Option(help="The user name there; the password is in TRUTHFUL_SMTP_PASSWORD.")
]
MailFrom = Annotated[
    str | None,
    typer.Option(help="The sender's address. What cannot be delivered comes back to it, not to analysts."),
]
Workers = Annotated[
    int, typer.Option(help="How many processes answer. More than one needs PostgreSQL; one of them settles.")
]


class LogForm(StrEnum):
    """How the service writes its log."""

    WORDS = "words"
    JSON = "json"


LogFormat = Annotated[
    LogForm,
    typer.Option(
        help="The form of the log, on the error output: words for people, or one JSON record a line."
    ),
]
ApiDocs = Annotated[
    bool,
    typer.Option("--api-docs", help="Publish a description of all pages for machines, at /openapi.json."),
]
RequireSecondFactor = Annotated[
    bool,
    typer.Option(
        "--require-second-factor",
        help="Whoever signs in has to set up a second factor, codes of an app, before anything else.",
    ),
]
AccountIdentity = Annotated[
    str,
    typer.Argument(
        help="The e-mail address that the OpenID provider vouches for, or its own name for the person (sub)."
    ),
]
OidcIssuer = Annotated[
    str | None,
    typer.Option(
        help="Let people sign in by this OpenID provider too, as https://login.example.org; its secret for the service "
        "is in TRUTHFUL_OIDC_SECRET."
    ),
]
OidcClient = Annotated[
    str | None, typer.Option("--oidc-client-id", help="The name by which the provider knows the service.")
]
OidcOnly = Annotated[
    bool,
    typer.Option("--oidc-only", help="Take no passwords: sign in by the provider, or by a one-time link."),
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
    typer.Option(help="Shares of kinds of people, as for `truthful simulate`; liars are exaggerators."),
]
PayerLink = Annotated[
    str | None,
    typer.Option(
        "--payer",
        help="The sign-in link of a payer, whom the study then names: she takes the amounts, which are compared with "
        "what people were told. Default: whoever asks also pays.",
    ),
]
Password = Annotated[
    str | None,
    typer.Option(
        help="The analyst's. With a sign-in link: the one to set. Default: a new one, which is printed.",
        envvar="TRUTHFUL_PASSWORD",
        show_envvar=True,
    ),
]


def read_effects(given: list[str] | None) -> dict[str, float] | None:
    """NAME=NUMBER, as often as it is given."""
    if not given:
        return None
    effects = {}
    for pair in given:
        name, _, value = pair.rpartition("=")
        try:
            effects[name] = float(value)
        except ValueError:
            raise InputError(f"--effect is {pair!r}. Write a feature and a number, such as age=20.") from None
    return effects


def read_columns(given: list[str] | None) -> dict[str, str]:
    """NAME=HEADER, as often as it is given."""
    columns = {}
    for pair in given or ():
        name, equals, header = pair.partition("=")
        if not (name and equals and header):
            raise InputError(f"--column is {pair!r}. Write a name and a header, such as weekly_spend=Q7.")
        columns[name] = header
    return columns
