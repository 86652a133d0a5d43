"""What may import what, and names that would hide others; pyproject.toml has the direction inside packages."""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import optimizer
import schemas
import sources
from optimizer.declared import NAMES
from setup.app_zip import PACKAGES
from setup.classes import TRAINING
from setup.paths import HOME

PURE = (
    "optimizer/planning",
    "optimizer/solve",
    "optimizer/schedule",
    "optimizer/kafka",
    "optimizer/audit",
    "optimizer/emit",
)
# Parts of the algorithm that tests replace: no argument can make them fail or report a call, or they are a table that
# gets another row. Everything else is an argument: settings, a ``Tuning``, a placement.
REPLACED = {
    "certificate.class_prices": "fails",
    "certificate.best_whole_bound": "fails",
    "trials.scarce_decided": "reports its call",
    "trials.relax.__name__": "fails at its second call",
    "resources.PLACEMENT_RESOURCES": "has a row more",
}
# The parsers are pure; a live cluster is not.
LIVE = frozenset({"kafka_live", "kafka_admin", "live_consumers", "live_offsets"})
# The one effect of the pure modules: a warning about a cluster that keeps its other bounds.
WARNS = ("optimizer/planning/memory_placement.py", "logging")
# In memory io does no I/O: the csv module reads from it.
EFFECTS = frozenset(
    (
        "asyncio",
        "glob",
        "http",
        "kafka",
        "logging",
        "multiprocessing",
        "os",
        "pathlib",
        "requests",
        "shutil",
        "socket",
        "subprocess",
        "tempfile",
        "threading",
        "urllib",
    )
)


def imported(path: Path) -> Iterator[str]:
    """Yield the full names of the modules that a file imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module


def files(*folders: str) -> list[Path]:
    """Every module of some folders, sorted."""
    return sorted(path for folder in folders for path in (HOME / folder).rglob("*.py"))


def parsers() -> list[Path]:
    """Every module of sources but those that read a live cluster."""
    return [path for path in files("sources") if path.stem not in LIVE]


def module_attributes_set(path: Path) -> Iterator[str]:
    """Yield what a file sets in modules of the algorithm, as ``module.attribute``, by any of the usual ways."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    known = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("optimizer.solve")
        for alias in node.names
        if (HOME / f"{(node.module or '').replace('.', '/')}/{alias.name}.py").exists()
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("setattr", "patch.object")):
            module, name = ast.unparse(node.args[0]), ast.unparse(node.args[1]).strip("'")
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "vars":
            module, name = ast.unparse(node.args[0]), "(any)"
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            module, name = ast.unparse(node.value), node.attr
        else:
            continue
        if module in known:
            yield f"{module}.{name}"


def test_packages_come_from_the_checkout() -> None:
    """No foreign package of the same name hides ours."""
    for package in (optimizer, schemas, sources):
        assert Path(str(package.__file__)).parent.parent == HOME


def test_importing_algorithms_and_parsers_loads_no_spark() -> None:
    """Nothing that the pure modules import, however far away, brings pyspark."""
    names = [".".join(path.relative_to(HOME).with_suffix("").parts) for path in [*files(*PURE), *parsers()]]
    names = [name.removesuffix(".__init__") for name in names]
    code = "import importlib, sys\nfor name in sys.argv[1:]: importlib.import_module(name)\n"
    code += "sys.exit('pyspark was imported' if 'pyspark' in sys.modules else 0)"
    result = subprocess.run([sys.executable, "-c", code, *names], cwd=HOME, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_algorithms_and_parsers_have_no_effects() -> None:
    """The pure modules open, start, read and wait for nothing; one of them warns."""
    found = [
        f"{path.relative_to(HOME)} imports {name}"
        for path in [*files(*PURE), *parsers()]
        for name in imported(path)
        if name.partition(".")[0] in EFFECTS and (str(path.relative_to(HOME)), name) != WARNS
    ]
    calls = [
        f"{path.relative_to(HOME)}:{node.lineno} calls {node.func.id}"
        for path in [*files(*PURE), *parsers()]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("open", "input")
    ]
    assert found + calls == []


def test_no_file_of_the_product_has_the_name_of_another() -> None:
    """Who hears a file's name finds one."""
    names = Counter(path.name for path in files("optimizer") if path.name != "__init__.py")
    assert [name for name, times in names.items() if times > 1] == []


def test_each_stage_has_a_room_and_a_file_of_its_name() -> None:
    """The list of stages is the map."""
    assert [name for name in NAMES if not (HOME / f"optimizer/stages/{name}/{name}.py").exists()] == []


def test_nothing_sets_an_attribute_of_the_algorithm() -> None:
    """It would not reach the processes of Spark's workers; what tests replace has a reason."""
    everywhere = files("asking", "benchmarks", "execution", "jobs", "optimizer", "setup", "stored", "tests")
    assert {name for path in everywhere for name in module_attributes_set(path)} == set(REPLACED)


def test_jobs_only_wire() -> None:
    """A job imports no algorithm; it parses options and calls the runner."""
    inner = tuple(f"{folder.replace('/', '.')}" for folder in PURE)
    found = [
        f"{path.name} imports {name}" for path in files("jobs") for name in imported(path) if name.startswith(inner)
    ]
    assert found == []


def test_nothing_imports_jobs_or_tests() -> None:
    """What is shipped depends on nothing that stays behind."""
    outside = {"jobs", "tests", "benchmarks", "setup", "docs"}
    found = [
        f"{path.relative_to(HOME)} imports {name}"
        for path in files(*PACKAGES)
        for name in imported(path)
        if name.partition(".")[0] in outside
    ]
    assert found == []


def test_no_job_hides_another_module() -> None:
    """jobs/, or setup/ where classes are loaded, is first on the path of a driver: a file named like a library's module
    would be imported in its place."""
    taken = set(sys.stdlib_module_names) | set(packages_distributions()) | set(PACKAGES)
    assert {path.stem for path in files("jobs", "setup") if path.name != "__init__.py"} & taken == set()


def test_the_set_up_needs_nothing_installed() -> None:
    """setup/ runs on a bare Python, and so does all that it imports of other packages, with their ``__init__``. Only
    the file that it hands to Spark needs more, and nothing imports that file."""
    allowed = set(sys.stdlib_module_names) | {"setup"}
    bare = [path for path in files("setup") if path != TRAINING]
    assert [
        path.name for path in bare if re.search(rf"import.*{TRAINING.stem}|{TRAINING.stem} import", path.read_text())
    ] == []
    paths = list(bare)
    needed: set[str] = set()
    for path in paths:
        for name in {name for name in imported(path) if name.partition(".")[0] not in allowed} - needed:
            needed.add(name)
            path_of = HOME / name.replace(".", "/")
            ours = path_of / "__init__.py" if path_of.is_dir() else path_of.with_suffix(".py")
            assert ours.is_file(), (path.name, name)
            paths += [ours, ours.parent / "__init__.py"]
    assert {"execution.options", "optimizer.job_options"} <= needed
