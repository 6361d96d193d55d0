"""One-way flow: a module imports only from rows above its own, and nobody imports a door."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

import truthful

# From the words everything shares down to the doors. Modules of one row do not know each other.
ROWS: tuple[tuple[str, ...], ...] = (
    # the words
    ("errors", "symbols", "version", "words", "files"),
    ("check",),
    # mathematics: arrays in, arrays out, randomness passed in
    ("kernels",),
    ("moments", "groups", "noise", "lattice", "scoring", "costs"),
    ("estimators.solve", "estimators.sensitivity", "estimators.shrinkage"),
    ("estimators.least_squares", "estimators.leave_one_out"),
    ("estimators.private",),
    ("estimators",),
    ("bounds.setting", "bounds.gram_noise"),
    ("bounds.published", "bounds.spectrum", "bounds.liars", "bounds.scales"),
    ("bounds.accuracy", "bounds.gap"),
    ("bounds.bill",),
    ("bounds.proved",),
    ("bounds",),
    ("beliefs.laws", "beliefs.polynomials", "beliefs.quadrature"),
    ("beliefs.curves", "beliefs.cells"),
    ("beliefs.posterior", "beliefs.sampled", "beliefs.scales"),
    ("beliefs.regions",),
    ("beliefs.packed",),
    ("beliefs.lookup",),
    ("beliefs.table",),
    ("beliefs.beliefs",),
    ("beliefs",),
    # declare
    ("study.features", "study.text"),
    ("study.designs",),
    ("study.declaration",),
    ("study.complaints",),
    ("study.study",),
    ("study",),
    # design
    ("mechanism",),
    ("payments", "slope", "coins"),
    ("guarantees", "regression", "people"),
    ("planner.goals", "planner.search"),
    ("planner.terms",),
    ("planner.candidates",),
    ("planner.solve",),
    ("planner.paper",),
    ("planner.players",),
    ("planner.infeasible",),
    ("planner.frontier",),
    ("planner.planner",),
    ("planner",),
    ("plan",),
    # the laboratory
    ("agents.game", "agents.response"),
    ("agents.kinds",),
    ("agents",),
    ("simulation.one_scale",),
    ("simulation.found", "simulation.cast", "simulation.features", "simulation.predictors"),
    ("simulation.answers", "simulation.drawing", "simulation.halves"),
    ("simulation.sums",),
    ("simulation.cells", "simulation.stage"),
    ("simulation.run", "simulation.peers"),
    ("simulation.responses", "simulation.lies", "simulation.joining"),
    ("simulation.record",),
    ("simulation.simulation",),
    ("simulation.rates",),
    ("simulation",),
    # the paper, corrected
    ("errata.record",),
    ("errata.examples",),
    ("errata.privacy", "errata.estimation", "errata.schedule", "errata.incentives", "errata.proofs"),
    ("errata.collection",),
    ("errata", "errata.page"),
    # collect
    ("intake.sources", "intake.columns", "intake.records"),
    ("intake.pieces", "intake.places", "intake.frames", "intake.duplicates"),
    ("intake.disk",),
    ("intake.stream", "intake.rules", "intake.tiles"),
    ("intake.intake",),
    ("intake.features",),
    ("intake",),
    # publish
    ("release.intervals", "release.records"),
    ("release.coefficients",),
    ("release.publication", "release.receipts", "release.steps"),
    ("release.verdict",),
    ("release",),
    # draw
    ("charts.house", "charts.labels", "charts.picture"),
    ("charts.bars",),
    (
        "charts.best_reports",
        "charts.chart",
        "charts.earnings",
        "charts.errors",
        "charts.forest",
        "charts.frontier",
        "charts.lies",
        "charts.odds",
        "charts.payments",
        "charts.rates",
    ),
    ("charts",),
    # report
    ("observations", "promises", "report.effects", "report.markup", "report.predicted"),
    ("report.assumed", "report.shown", "report.simulated"),
    ("report.page",),
    ("report.notice", "report.simulation_page"),
    ("report",),
    # settle
    ("settlement.books", "settlement.draw", "settlement.ledger", "settlement.tasks"),
    ("settlement.engines", "settlement.once", "settlement.hash_files", "settlement.part_books"),
    ("settlement.passes", "settlement.cluster"),
    ("settlement.settlement",),
    ("settlement",),
    # attack
    ("auditor.record", "auditor.product", "auditor.events"),
    ("auditor.neighbours", "auditor.noise_law", "auditor.once", "auditor.released", "auditor.invented"),
    ("auditor.loss", "auditor.black_box", "auditor.settled", "auditor.paid", "auditor.wiring"),
    ("auditor.checks",),
    ("auditor",),
    # show
    ("demo", "progress", "comparison"),
    ("show",),
    ("show_plan", "show_simulation", "show_errata", "show_audit", "options"),
    # rehearse over HTTP
    ("bots.forms",),
    ("bots.browser",),
    ("bots.analyst", "bots.players"),
    ("bots.rehearsal",),
    ("bots",),
    # remember
    ("store.tables", "store.tokens", "store.turns"),
    ("store.database", "store.log"),
    ("store.accounts", "store.surveys"),
    ("store.roster", "store.answers", "store.due", "store.access"),
    ("store",),
    # serve
    ("service.catalogue", "service.formats", "service.places", "service.limits", "service.browsers"),
    ("service.bill", "service.computing", "service.rosters", "service.sending", "service.study_file"),
    ("service.drafting", "service.results"),
    ("service.settings", "service.once", "service.freezing"),
    ("service.opening", "service.settling", "service.demo"),
    ("service.answering", "service.standing"),
    ("service.telling",),
    ("service.web",),
    ("service.security",),
    ("service.bodies", "service.signing"),
    ("service.analyst.shared",),
    (
        "service.analyst.closing",
        "service.analyst.freezing",
        "service.analyst.rehearsing",
        "service.analyst.studies",
        "service.analyst.wizard",
    ),
    ("service.analyst.collecting", "service.analyst.files", "service.analyst.planning"),
    ("service.analyst", "service.participant", "service.payer", "service.people", "service.public"),
    ("service.app",),
    ("service.serving",),
    ("service",),
    # the doors
    ("cli", "sklearn"),
)
DOORS = ROWS[-1]
ROW_OF = {module: row for row, modules in enumerate(ROWS) for module in modules}

PACKAGE = Path(truthful.__file__).parent
# The package itself loads names on first use, for people's code; modules inside do not go through it.
MODULES = sorted(
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
    for path in PACKAGE.rglob("*.py")
    # Migrations are scripts of Alembic's.
    if path != PACKAGE / "__init__.py" and "migrations" not in path.parts
)


def source(module: str) -> Path:
    path = PACKAGE.joinpath(*module.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def imported(module: str) -> set[str]:
    """The modules of this package that a module imports anywhere, also inside functions."""
    found = set()
    for node in ast.walk(ast.parse(source(module).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module} uses a relative import"
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name for name in inner if name.removeprefix("truthful.") in MODULES} or {
                str(node.module)
            }
    return {name.removeprefix("truthful.") for name in found if name.split(".")[0] == "truthful"}


def test_every_module_stands_in_exactly_one_row() -> None:
    counts = Counter(module for row in ROWS for module in row)
    assert sorted(counts) == MODULES
    assert set(counts.values()) == {1}


@pytest.mark.parametrize("module", MODULES)
def test_a_module_imports_only_from_rows_above_its_own(module: str) -> None:
    upward = {name for name in imported(module) if ROW_OF[name] >= ROW_OF[module]}
    assert not upward, f"{module} (row {ROW_OF[module]}) imports {sorted(upward)}"


def test_nobody_imports_a_door() -> None:
    assert not {module for module in MODULES if imported(module) & set(DOORS)}


def test_no_module_goes_through_the_package_root() -> None:
    assert not {module for module in MODULES if "truthful" in imported(module)}


def test_the_walk_sees_what_is_imported() -> None:
    assert {"errors", "version", "plan", "settlement", "show"} <= imported("cli")
    assert "check" in imported("plan")
    assert "bounds.proved" in imported("guarantees")
    assert "numpy" not in imported("moments")


def compiled_functions(tree: ast.Module) -> list[ast.FunctionDef]:
    """Functions under a decorator of numba's, whatever its name here."""
    marks = re.compile(r"\b(njit|each|exact|fused|intrinsic)\b")
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and any(marks.search(ast.unparse(wrapper)) for wrapper in node.decorator_list)
    ]


def test_compiled_functions_call_none_of_another_file() -> None:
    """Numba keeps compiled code as long as its own file is unchanged: a callee elsewhere would be an old one."""
    found = 0
    for path in sorted(PACKAGE.rglob("*.py")):
        tree = ast.parse(path.read_text())
        foreign = {
            alias.asname or alias.name
            for node in tree.body
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("truthful")
            for alias in node.names
        }
        for function in compiled_functions(tree):
            found += 1
            called = {
                ast.unparse(node.func).split(".")[0]
                for node in ast.walk(function)
                if isinstance(node, ast.Call)
            }
            assert not called & foreign, f"{path.name}: {function.name} calls {called & foreign}"
    assert found > 20
