"""One-way flow: modules import no circles, packages only what stands before them on the map, nobody imports a door."""

import ast
import re
from collections import Counter
from collections.abc import Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import truthful

ROOT = Path(__file__).parents[1]
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
# A row of the map that people read: its stage, names, and what they do, two spaces or more apart.
NAMES = [re.split(r" {2,}", row)[1].split() for row in ARCHITECTURE.split("```")[1].splitlines()[1:]]
ORDER = [name.removesuffix("/") for names in NAMES for name in names]
DOORS = ("cli", "sklearn")

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


@cache
def imported(module: str) -> frozenset[str]:
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
    return frozenset(name.removeprefix("truthful.") for name in found if name.split(".")[0] == "truthful")


def package_of(module: str) -> str:
    return module.split(".")[0]


def upward(imports: Mapping[str, frozenset[str]]) -> set[tuple[str, str]]:
    """Imports of another package that does not stand before."""
    return {
        (module, name)
        for module, names in imports.items()
        for name in names
        if package_of(name) != package_of(module)
        and not ORDER.index(package_of(name)) < ORDER.index(package_of(module))
    }


def circle(imports: Mapping[str, frozenset[str]]) -> list[str]:
    """Modules that import each other around, if there are any."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as found:
        return list(found.args[1])
    return []


def all_imports() -> dict[str, frozenset[str]]:
    return {module: imported(module) for module in MODULES}


def test_the_map_has_every_package_and_module_once() -> None:
    assert sorted(ORDER) == sorted({package_of(module) for module in MODULES})
    marked = {name.removesuffix("/") for names in NAMES for name in names if name.endswith("/")}
    assert marked == {package_of(module) for module in MODULES if "." in module}


def test_the_pages_name_files_that_are_there() -> None:
    """What they call `x.py` is in the package, and in the folder that they give."""
    files = [path.relative_to(ROOT).as_posix() for path in (ROOT / "src").rglob("*.*")]
    files += [
        f"/{path.relative_to(ROOT).as_posix()}"
        for room in ("tests", "tools")
        for path in (ROOT / room).rglob("*.py")
    ]
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    named = set(re.findall(r"[\w/]+\.(?:py|js|toml)\b", ARCHITECTURE + contributing))
    assert len(named) > 40
    assert [name for name in named if not any(file.endswith(f"/{name}") for file in files)] == []


def test_a_package_imports_only_what_stands_before_it() -> None:
    assert upward(all_imports()) == set()


def test_no_modules_import_each_other_around() -> None:
    assert circle(all_imports()) == []


def test_an_import_that_goes_up_or_around_would_be_seen() -> None:
    imports = all_imports()
    higher = {**imports, "plan": imports["plan"] | {"settlement.atomic_release"}}
    assert upward(higher) == {("plan", "settlement.atomic_release")}
    beside = {**imports, "release": imports["release"] | {"agents"}}
    assert upward(beside) == {("release", "agents")}
    around = {**imports, "intake.rules": imports["intake.rules"] | {"intake.duplicates"}}
    assert {"intake.rules", "intake.duplicates"} <= set(circle(around))


def test_no_two_modules_share_a_name() -> None:
    """But for the main room of a package, which has the package's name: `study.study`."""
    rooms = [module.split(".") for module in MODULES]
    counts = Counter(room[-1] for room in rooms if room[-2:-1] != room[-1:])
    assert [name for name, count in counts.items() if count > 1] == []


def test_nobody_imports_a_door() -> None:
    assert not {module for module in MODULES if imported(module) & set(DOORS)}


def test_no_module_goes_through_the_package_root() -> None:
    assert not {module for module in MODULES if "truthful" in imported(module)}


def test_the_walk_sees_what_is_imported() -> None:
    assert {"errors", "version", "plan", "settlement", "show.terminal"} <= imported("cli")
    assert "check" in imported("plan")
    assert "bounds.proved" in imported("guarantees.number_guarantees")
    assert "numpy" not in imported("moments")


def compiled_functions(tree: ast.Module) -> list[ast.FunctionDef]:
    """Functions under a decorator of numba's, whatever its name here."""
    marks = re.compile(r"\b(njit|each|exact|_?fused|compiled)\b")
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
                for statement in function.body
                for node in ast.walk(statement)
                if isinstance(node, ast.Call)
            }
            assert not called & foreign, f"{path.name}: {function.name} calls {called & foreign}"
    assert found > 20


def test_no_two_classes_share_a_name() -> None:
    counts = Counter(
        node.name
        for module in MODULES
        for node in ast.walk(ast.parse(source(module).read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in counts.items() if count > 1] == []


PRONOUNS = {
    "one",
    "it",
    "they",
    "them",
    "this",
    "that",
    "these",
    "those",
    "everything",
    "something",
    "anything",
}


def bound_names(module: str) -> set[str]:
    """The names that a module gives to values, arguments, functions and classes."""
    tree = ast.walk(ast.parse(source(module).read_text(encoding="utf-8")))
    return {
        node.id if isinstance(node, ast.Name) else node.arg if isinstance(node, ast.arg) else node.name
        for node in tree
        if isinstance(node, ast.Name | ast.arg | ast.FunctionDef | ast.ClassDef)
    }


def test_no_name_is_a_pronoun() -> None:
    assert {(module, name) for module in MODULES for name in bound_names(module) & PRONOUNS} == set()
