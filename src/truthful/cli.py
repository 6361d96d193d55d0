"""The command line: parse, call one stage, show the record.

Exit codes: 0 done, 1 refused (unsafe, impossible, not verified), 2 bad input, 130 interrupted.
"""

from __future__ import annotations

import io
import os
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from truthful import operation, options
from truthful.errors import FileNote, InputError, Refused, TruthfulError
from truthful.formatting import command
from truthful.version import __version__

if TYPE_CHECKING:
    from truthful.plan import Plan

app = typer.Typer(
    name="truthful",
    help="Buy honest answers to a sensitive question, fit a model, keep every answer private, "
    "pay everybody fairly.",
    epilog="Start with: truthful demo",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

app.add_typer(operation.app)  # without a name: its commands stand beside the others

INTERRUPTED = 130
#: What is raised where a program is called wrongly: click's, wherever this version of typer keeps it.
UsageError: type[Any] = typer.BadParameter.__bases__[0]
#: What `truthful plan` says of plans for numbers if it is not told otherwise; other plans know nothing of it.
OF_NUMBERS = (("rule", "quadratic"), ("payments", "never-negative"))


def main() -> None:
    """Run a command; an error is one clear message and an exit code, never a traceback. With --json it is a record."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without ε shows a question mark
    with warnings.catch_warnings():
        if not sys.warnoptions:
            warnings.simplefilter("ignore")
        warnings.simplefilter("always", FileNote)
        warnings.showwarning = _tell_note
        try:
            # Left to itself, a program that is called wrongly says so in words.
            code = app(prog_name="truthful", standalone_mode=not _as_json())
        except TruthfulError as error:
            _fail(error.title, error.on_command_line, error.exit_code, error.details)
        except OSError as error:
            place = "" if error.filename is None else f"{str(error.filename)!r}: "
            # Arrow's has a longer message.
            reason = error if error.errno is None else os.strerror(error.errno)
            _fail("Error", " ".join([f"{place}{reason}.", *_notes(error)]), 2)
        except UsageError as error:
            _fail("Error", error.format_message(), error.exit_code)
        except typer.Abort:
            code = INTERRUPTED
    sys.exit(code)


def _as_json() -> bool:
    return "--json" in sys.argv[1:]


def _notes(error: BaseException) -> list[str]:
    """The notes on an error, which say what is left of the interrupted work."""
    return getattr(error, "__notes__", [])


@contextmanager
def _interruptible() -> Iterator[None]:
    """On Ctrl-C, end a settlement with a sentence that says what is left of it."""
    try:
        yield
    except KeyboardInterrupt as stopped:
        _fail("Interrupted", " ".join(_notes(stopped)) or "Nothing was written.", INTERRUPTED)


def _tell_note(message: Warning | str, *_: Any, **__: Any) -> None:
    _complain("yellow", "Note", str(message))


def _fail(
    title: str, message: str, exit_code: int, details: Mapping[str, Any] = MappingProxyType({})
) -> NoReturn:
    if _as_json():
        operation.print_json(
            {"error": {"title": title, "message": message, "exit_code": exit_code, **details}}
        )
    else:
        _complain("red", title, message)
    sys.exit(exit_code)


def _complain(colour: str, kind: str, message: str) -> None:
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(f"[bold {colour}]{kind}:[/] {escape(message)}", emoji=False)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"truthful {__version__}")
        raise typer.Exit


@app.callback()
def before_commands(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Options that stand before a command."""


@app.command(epilog="Example: truthful new gambling")
def new(
    directory: Annotated[Path, typer.Argument(help="Where to put study.toml; created if it does not exist.")],
    as_json: options.AsJson = False,
) -> None:
    """Write a commented study file to start from."""
    from truthful.study import write_template

    path = write_template(directory)
    if as_json:
        operation.print_json({"study": str(path)})
        return
    print(
        f"Wrote {path}. Edit it, then see what it can promise, from a file of the features of those you invite:"
    )
    print(f"  {command('plan', path, '--roster', 'people.csv', '--budget', '2000')}")


@app.command(epilog="Example: truthful plan study.toml --players 20000 --budget 5000 --save plan.json")
@options.take_goals
def plan(
    study: options.StudyFile,
    column: options.Column = None,
    save: options.Save = None,
    chart: options.Chart = None,
    as_json: options.AsJson = False,
    **goals: Any,
) -> None:
    """Solve for the best study, and state its five guarantees.

    Give two of --players (or --roster), --budget, --accuracy and --epsilon. The rest is solved for, or you learn what
    would help.
    """
    from truthful.planner import Infeasible

    try:
        planned = _design(study, goals, options.read_columns(column))
    except Infeasible as problem:
        if not as_json:
            raise
        operation.print_json(problem.record())
        raise typer.Exit(1) from None
    if chart is not None:
        from truthful.charts.frontier_chart import draw_plan

        draw_plan(planned, chart)
    if save is not None:
        planned.save(save)
    if as_json:
        operation.print_json(planned.record())
        return
    from truthful.show.plan_view import plan_view

    _show(*plan_view(planned))
    if chart is not None:
        print(f"Drew {chart}.")
    if save is None:
        print("To keep this plan, add --save plan.json.")
        return
    print(f"Saved {save}. When the answers are in:")
    print(f"  {command('settle', save, 'reports.csv', '--out', 'settlement')}")


def _design(study: Path, goals: dict[str, Any], columns: dict[str, str]) -> Plan:
    """The plan of a study file; defaults for numbers are dropped where answers are not numbers."""
    from truthful.plan import design
    from truthful.study import Study, few_values

    declared = Study.load(study)
    if doubt := few_values(declared.response):
        _complain("yellow", "Warning", doubt)
    if declared.shares is not None or declared.levels is not None:
        goals = {name: value for name, value in goals.items() if (name, value) not in OF_NUMBERS}
    return design(declared, columns=columns, **goals)


@app.command(
    epilog="Example: truthful beliefs study.toml --mostly 20 60 --difference 30 --players 2000 --budget 2000"
)
def beliefs(
    study: options.StudyFile,
    mostly: Annotated[
        tuple[float, float] | None, typer.Option(help="The range of nine in ten answers.")
    ] = None,
    average: Annotated[
        tuple[float, float] | None,
        typer.Option(
            help="The range in which the average can lie; for yes and no the share, such as 0.05 0.4."
        ),
    ] = None,
    difference: Annotated[
        float | None,
        typer.Option(
            help="By how much the best-placed person's answer can differ from the worst-placed one's."
        ),
    ] = None,
    effect: Annotated[
        list[str] | None,
        typer.Option(help="In place of --difference, for every feature: NAME=the most it changes."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="In place of all these: a file with features and answers of an earlier study."),
    ] = None,
    players: Annotated[int | None, typer.Option(help="How many people you can ask.")] = None,
    roster: Annotated[Path | None, typer.Option(help="Or a file of their features.")] = None,
    column: options.Column = None,
    budget: Annotated[float | None, typer.Option(help="What you can pay them all.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Turn what you can say about answers into beliefs, and show how a plan depends on them.

    With --players or --roster, and --budget, also: how the plan changes if beliefs or costs are off by a factor of two.
    """
    from truthful.elicitation import Statements, earlier_study, elicit, vary
    from truthful.intake import read_answers, read_features
    from truthful.study import Study

    declared, found, columns = Study.load(study), None, options.read_columns(column)
    said = Statements(mostly, average, difference, options.read_effects(effect))
    if data is not None:
        if said != Statements():
            raise InputError("--data is given together with statements about answers. Give one or the other.")
        said = earlier_study(declared, *read_answers(declared, data, columns=columns))
    if said != Statements():
        found = elicit(declared, said)
        declared = found.apply(declared)
    people = None if roster is None else read_features(declared, roster, columns=columns)
    goals = {
        name: value
        for name, value in (("players", players), ("roster", people), ("budget", budget))
        if value is not None
    }
    if found is None and not goals:
        raise InputError(
            "There is nothing to do. Say something about answers (--mostly, --average, --difference), name an earlier "
            "study (--data), or give --players and --budget to see how the plan depends on the declared beliefs."
        )
    changed = [*vary(declared, goals)] if goals else []
    if as_json:
        sections = None if found is None else asdict(found)
        operation.print_json({"elicited": sections, "plans": [variant.record() for variant in changed]})
        return
    from truthful.show.plan_view import beliefs_view

    _show(*beliefs_view(found, changed, study, data))


@app.command(epilog="Example: truthful assign study.toml --players 500 --save situations.csv")
def assign(
    study: options.StudyFile,
    save: Annotated[Path, typer.Option(help="The .csv file to write; it must not exist yet.")],
    players: Annotated[int | None, typer.Option(help="How many people: p-001, p-002, …")] = None,
    people: Annotated[
        Path | None, typer.Option(help="Or a file with their ids in its column `player`; others are ignored.")
    ] = None,
    column: options.Column = None,
    invent: Annotated[
        bool, typer.Option("--invent", help="Invent answers too: reports to try the other commands on.")
    ] = False,
    seed: Annotated[
        int | None,
        typer.Option(help="Repeat a draw exactly. Default: a new draw every time; the seed is printed."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Draw the situations that people are shown, one for each; or invent people, answers and all."""
    import secrets

    import numpy as np
    import pyarrow.csv

    from truthful import check
    from truthful.files import written_whole
    from truthful.intake import read_players
    from truthful.people import assign as draw_situations
    from truthful.people import invent as invent_people
    from truthful.people import number_players
    from truthful.study import Study

    declared, columns = Study.load(study), options.read_columns(column)
    known = None if people is None else read_players(people, columns)
    if (players is None) == (known is None) or (invent and known is not None):
        raise InputError("Give --players, or --people unless answers are invented.")
    if save.suffix.lower() != ".csv":
        raise InputError(f"--save is {str(save)!r}; situations are written as text. Name a .csv file.")
    if save.exists():
        raise InputError(f"There is a file {str(save)!r} already. Name another, or move it away.")
    seed = secrets.randbelow(10**9) if seed is None else check.integer("seed", seed, least=0)
    rng = np.random.default_rng(seed)
    count = len(known) if known is not None else check.integer("players", players or 0, least=1)
    if invent:
        rows = invent_people(declared, count, rng, spread_evenly=True).reports
    else:
        rows = draw_situations(declared, known or number_players(count), rng)
    with written_whole(save) as file:
        pyarrow.csv.write_csv(rows, file)
    if as_json:
        operation.print_json({"file": str(save), "players": count, "seed": seed})
        return
    what = "Invented reports of" if invent else "Drew situations for"
    print(f"{what} {count:,} people: {save}. The same again: --seed {seed}")


@app.command(epilog="Example: truthful simulate plan.json --runs 50 --agents exaggerator=0.1 --seed 1")
def simulate(
    plan: options.PlanFile,
    runs: Annotated[int, typer.Option(help="How many studies.")] = 500,
    agents: Annotated[
        str,
        typer.Option(
            help="Shares of people, such as opt-out=0.9,exaggerator=0.1; everybody else is honest. Others: "
            "cost-threshold, privacy-seeker, coordinated, best-responder."
        ),
    ] = "honest=1",
    features: Annotated[
        Path | None,
        typer.Option(
            help="A file of people's features to draw from, as in reports; other columns are ignored. Needed where the "
            "study does not say how features are distributed."
        ),
    ] = None,
    column: options.Column = None,
    on_bad: options.OnBad = "error",
    seed: Annotated[int, typer.Option(help="Repeat a simulation exactly.")] = 0,
    report: Annotated[
        Path | None, typer.Option(help="Also write it as a page, with charts, to this .html file.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Run the study many times with simulated people: observed next to guaranteed."""
    from truthful.intake import read_features
    from truthful.plan import Plan
    from truthful.simulation import read_agents
    from truthful.simulation import simulate as simulate_studies

    planned, people, columns = Plan.load(plan), read_agents(agents), options.read_columns(column)
    rows = None if features is None else read_features(planned.study, features, on_bad, columns)
    with _progress(not as_json) as progress:
        simulation = simulate_studies(planned, people, runs=runs, seed=seed, features=rows, progress=progress)
    if not as_json:
        from truthful.show.terminal import simulation_view

        _show(*simulation_view(simulation))
    if report is not None:
        from truthful.files import write_atomically
        from truthful.report import simulation_report

        # After what took long is seen, even if it cannot be written; a record stands alone, or an error does.
        write_atomically(report, simulation_report(simulation))
    if as_json:
        operation.print_json(simulation.record())
    elif report is not None:
        print(f"Wrote {report}.")


@app.command(epilog="Example: truthful check plan.json reports.parquet")
def check(
    plan: options.PlanFile,
    reports: options.ReportsFile,
    column: options.Column = None,
    on_bad: options.OnBad = "error",
    accept_less: options.AcceptLess = False,
    as_json: options.AsJson = False,
) -> None:
    """Say what `settle` would do with reports: nothing is drawn, spent or written.

    Every record is checked, features are compared with the declared design, and what could be guaranteed for these
    people with what was promised. The exit code is 1 if `settle` would refuse.
    """
    from truthful.plan import Plan
    from truthful.settlement import preview

    planned = Plan.load(plan)
    with _progress(not as_json) as progress:
        seen = preview(
            planned,
            reports,
            columns=options.read_columns(column),
            on_bad=on_bad,
            accept_less=accept_less,
            progress=progress,
        )
    if as_json:
        operation.print_json(seen.record())
    else:
        from truthful.show.settlement_view import preview_view

        _show(*preview_view(seen))
        if seen.settles:
            print(f"  {command('settle', plan, reports, '--out', 'settlement')}")
    if not seen.settles:
        raise typer.Exit(1)


@app.command(epilog="Example: truthful settle plan.json reports.parquet --out settlement")
def settle(
    plan: options.PlanFile,
    reports: options.ReportsFile,
    out: Annotated[Path, typer.Option(help="A directory that does not exist yet.")],
    column: options.Column = None,
    on_bad: options.OnBad = "error",
    spend_again: Annotated[
        bool,
        typer.Option(
            "--spend-again", help="Release again although the ledger says the study is spent; ε adds up."
        ),
    ] = False,
    accept_less: options.AcceptLess = False,
    books: options.Books = "all",
    engine: options.Engine = "threads",
    scheduler: Annotated[
        str | None,
        typer.Option(
            help="Dask's scheduler, such as tcp://10.0.0.1:8786. Default: a cluster on this machine."
        ),
    ] = None,
    seed: options.Seed = None,
    as_json: options.AsJson = False,
) -> None:
    """Draw the release and compute every payment."""
    from truthful.plan import Plan
    from truthful.settlement import settle as settle_reports

    planned = Plan.load(plan)
    with _interruptible(), _progress(not as_json) as progress:
        settlement = settle_reports(
            planned,
            reports,
            out=out,
            columns=options.read_columns(column),
            on_bad=on_bad,
            seed=seed,
            spend_again=spend_again,
            accept_less=accept_less,
            books=books,
            engine=engine,
            scheduler=scheduler,
            progress=progress,
        )
    if as_json:
        operation.print_json(settlement.release.record())
        return
    from truthful.show.settlement_view import settlement_view

    _show(*settlement_view(settlement, planned))


@app.command(epilog="Example: truthful pilot pilot.json reports.csv --out pilot --save main.toml")
def pilot(
    plan: Annotated[Path, typer.Argument(help="The pilot's plan, of a study that asks for predictions.")],
    reports: Annotated[str, typer.Argument(help="The pilot's reports, as for `truthful settle`.")],
    out: Annotated[
        Path, typer.Option(help="A directory that does not exist yet, for the pilot's settlement.")
    ],
    save: Annotated[Path, typer.Option(help="The main wave's study file to write; it must not exist yet.")],
    column: options.Column = None,
    on_bad: options.OnBad = "error",
    seed: options.Seed = None,
    as_json: options.AsJson = False,
) -> None:
    """Settle a pilot that asks both questions, and write the study of a main wave that asks one.

    Plan it first, as any study: truthful plan STUDY --players 300 --budget 3000 --accuracy-of centre --save pilot.json
    """
    from truthful.elicitation import calibrate, require_pilot
    from truthful.files import write_atomically
    from truthful.plan import Plan
    from truthful.settlement import settle as settle_reports

    planned, columns = Plan.load(plan), options.read_columns(column)
    require_pilot(planned.study)
    if save.exists():
        raise InputError(f"There is a file {str(save)!r} already. Name another, or move it away.")
    with _interruptible(), _progress(not as_json) as progress:
        settlement = settle_reports(
            planned, reports, out=out, columns=columns, on_bad=on_bad, seed=seed, progress=progress
        )
    found = calibrate(planned, settlement.release)
    write_atomically(save, found.study)
    if as_json:
        operation.print_json({**asdict(found), "study": str(save)})
        return
    from truthful.show.settlement_view import pilot_view

    _show(*pilot_view(settlement, found, planned, out, save))


@app.command(epilog="Example: truthful pay settlement --save to-pay.csv")
def pay(
    settlement: Annotated[Path, typer.Argument(help="The directory of a settlement.")],
    save: Annotated[Path, typer.Option(help="The file to write, for whoever pays; it must not exist yet.")],
    kind: Annotated[
        str, typer.Option("--format", help="csv, or prolific or mturk: what these platforms take in bulk.")
    ] = "csv",
    as_json: options.AsJson = False,
) -> None:
    """Write who is paid how much, in coins: for a bank, Prolific or MTurk."""
    from truthful.check import choice
    from truthful.coins import CURRENCIES, Kind
    from truthful.files import write_atomically
    from truthful.settlement import read_bill

    chosen = Kind[choice("--format", kind, tuple(member.name.lower() for member in Kind)).upper()]
    bill = read_bill(settlement)
    if save.exists():
        raise InputError(f"There is a file {str(save)!r} already. Name another, or move it away.")
    if not bill.takes(chosen):
        raise Refused(
            f"{kind} cannot pay this. It pays in {' or '.join(CURRENCIES[chosen])}, and this is {bill.currency}; "
            "players must be named by its ids, which are letters and digits."
        )
    write_atomically(save, bill.file(chosen), private=True)
    if as_json:
        operation.print_json({"file": str(save), "players": bill.paid, "total": float(bill.total)})
        return
    print(
        f"Wrote {save}: {bill.total:,} {bill.currency} to {bill.paid:,} players. Only whoever pays may see it."
    )


@app.command(epilog="Example: truthful report settlement/release.json plan.json --out settlement/report.html")
def report(
    release: options.ReleaseFile,
    plan: Annotated[Path, typer.Argument(help="The plan that was settled.")],
    out: Annotated[Path, typer.Option(help="The page to write.")],
    as_json: options.AsJson = False,
) -> None:
    """Recreate the public page of a settlement from its release and plan alone."""
    from truthful.files import write_atomically
    from truthful.plan import Plan
    from truthful.release import read_release
    from truthful.report import report as make_report

    write_atomically(out, make_report(read_release(release), Plan.load(plan)))
    if as_json:
        operation.print_json({"report": str(out)})
        return
    print(f"Wrote {out}.")


@app.command(epilog="Example: truthful verify settlement/release.json receipt.json")
def verify(
    release: options.ReleaseFile,
    receipt: Annotated[
        Path, typer.Argument(help="A receipt: one player's JSON, or receipts.parquet with --player.")
    ],
    player: Annotated[str | None, typer.Option(help="Whose receipt, in a file of many.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Recompute one payment from the public release and one's own record."""
    from truthful.release import read_receipt, read_release
    from truthful.release import verify as verify_payment

    published = read_release(release)
    verdict = verify_payment(published, read_receipt(receipt, player))
    if as_json:
        operation.print_json(asdict(verdict))
    else:
        from truthful.show.settlement_view import verdict_view

        _show(*verdict_view(verdict, published.payment))
    if not verdict.verified:
        raise typer.Exit(1)


@app.command(epilog="Example: truthful receipt settlement/receipts.parquet p-007 --save receipt-p-007.json")
def receipt(
    receipts: Annotated[Path, typer.Argument(help="The receipts.parquet of a settlement.")],
    player: Annotated[str, typer.Argument(help="Whose receipt.")],
    save: Annotated[Path | None, typer.Option(help="Write it here, to hand to her; else print it.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Extract one player's receipt, to hand to her alone."""
    from truthful.release import read_receipt

    found = read_receipt(receipts, player)
    if save is not None:
        found.save(save)
    if save is None or as_json:
        operation.print_json(found.record())
        return
    print(f"Wrote {save}. She can check her payment: {command('verify', 'release.json', save.name)}")


@app.command(epilog="Example: truthful audit plan.json --samples 2000 --seed 1")
def audit(
    plan: options.PlanFile,
    samples: Annotated[int, typer.Option(help="Releases to draw: more of them see smaller faults.")] = 8_000,
    seed: Annotated[
        int | None, typer.Option(help="Repeat an attack exactly. Default: another one every time.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Attack what a plan promises: worst neighbours, exact privacy loss, noise, wiring."""
    import secrets

    from truthful.auditor import audit as attack
    from truthful.plan import Plan

    found = attack(Plan.load(plan), seed=secrets.randbelow(10**6) if seed is None else seed, samples=samples)
    if as_json:
        operation.print_json(found.record())
    else:
        from truthful.show.terminal import audit_view

        _show(*audit_view(found))
    if not found.passed:
        raise typer.Exit(1)


@app.command(epilog="Example: truthful demo my-demo --seed 7")
def demo(
    directory: Annotated[
        Path | None,
        typer.Argument(
            help="A directory that does not exist yet. Default: truthful-demo, or the next free name."
        ),
    ] = None,
    players: Annotated[int, typer.Option(help="How many people to invent.")] = 20_000,
    seed: options.Seed = None,
    as_json: options.AsJson = False,
) -> None:
    """A whole study on invented people: declare, plan, collect, settle, verify."""
    from truthful.demo import demonstrate, free_directory

    with _progress(not as_json) as progress:
        shown = demonstrate(
            directory or free_directory(),
            players=players,
            seed=seed,
            tell=operation.quiet if as_json else print,
            progress=progress,
        )
    if as_json:
        operation.print_json(shown.settlement.release.record())
        return
    from truthful.show.settlement_view import demo_view

    _show(*demo_view(shown))


@app.command(epilog="Example: truthful errata E3")
def errata(
    number: Annotated[
        str | None, typer.Argument(help="One of them in full, such as E3. Default: all.")
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """The paper's claims next to what holds, computed, not quoted."""
    from truthful.errata import errata as compute
    from truthful.errata import find

    found = compute() if number is None else (find(number),)
    if as_json:
        operation.print_json([asdict(erratum) for erratum in found])
        return
    from truthful.show.terminal import errata_view, erratum_view

    _show(*(errata_view(found) if number is None else erratum_view(found[0])))


@app.command(epilog="Example: truthful symbols")
def symbols(as_json: options.AsJson = False) -> None:
    """The notation: the paper's symbols, what they mean, their names in code and files."""
    from truthful.symbols import SYMBOLS

    if as_json:
        operation.print_json([asdict(symbol) for symbol in SYMBOLS])
        return
    from truthful.show.terminal import symbols_table

    _show(symbols_table())


def _show(*views: Any) -> None:
    from truthful.show.terminal import show, terminal

    show(terminal(), *views)


def _progress(wanted: bool) -> AbstractContextManager[Any]:
    """A progress bar on a terminal, for work that takes more than a second."""
    from truthful.show.terminal import rich_progress

    console = Console(stderr=True)
    return rich_progress(console) if wanted and console.is_terminal else nullcontext()
