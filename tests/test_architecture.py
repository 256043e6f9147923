"""The rooms of the house: who imports whom, and what each keeps to itself (DESIGN section 4)."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "specctl"

FLOORS: tuple[tuple[str, ...], ...] = (
    ("types", "errors", "trace"),
    ("config", "kinds", "presets", "metrics", "trace_events"),
    ("images", "image_files"),
    ("events",),
    ("agent", "models"),
    ("engine",),
    ("data", "journal"),
    ("render",),
    ("cli",),
    ("__main__", "bundled"),
)
"""Rooms from the top down; those of one floor may look at each other, but never in a circle."""

FLOOR = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}
MODULES = sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(path: Path) -> str:
    return name_of(path).split(".")[0]


def is_training(path: Path) -> bool:
    return name_of(path).startswith("bundled.training")


def imported(tree: ast.AST) -> Iterator[str]:
    """Every module that is imported anywhere below `tree`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            assert node.module is not None
            yield node.module
            if node.module == "specctl":
                yield from (f"specctl.{alias.name}" for alias in node.names)


def at_module_level(tree: ast.Module) -> Iterator[str]:
    """Modules that are imported when this one is: those below functions are left out."""
    pending: list[ast.AST] = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)):
            continue
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from imported(node)
        pending += ast.iter_child_nodes(node)


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"), str(path))


def rooms_imported(path: Path) -> set[str]:
    names = {name.split(".")[1] for name in imported(parse(path)) if name.startswith("specctl.")}
    return {name for name in names if name in FLOOR}


def test_every_room_has_its_floor() -> None:
    assert {room_of(path) for path in MODULES} - {""} <= set(FLOOR)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_room_imports_only_rooms_above_it(path: Path) -> None:
    if is_training(path) or not room_of(path):
        return
    own = FLOOR[room_of(path)]
    below = {room for room in rooms_imported(path) if FLOOR[room] > own}
    assert not below, f"{name_of(path)} looks down at {sorted(below)}"


def test_no_two_rooms_import_each_other() -> None:
    graph: dict[str, set[str]] = {room: set() for room in FLOOR}
    for path in MODULES:
        if room_of(path) and not is_training(path):
            graph[room_of(path)] |= rooms_imported(path) - {room_of(path)}
    done: set[str] = set()
    while len(done) < len(graph):
        free = {room for room, needs in graph.items() if room not in done and needs <= done}
        assert free, f"a circle among {sorted(set(graph) - done)}"
        done |= free


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_heavy_libraries_have_one_door_each(path: Path) -> None:
    if is_training(path):
        return
    roots = {name.split(".")[0] for name in imported(parse(path))}
    if name_of(path) != "images":
        assert "PIL" not in roots, "images is the only door for pixels"
    if room_of(path) != "models":
        assert not roots & {"transformers", "safetensors", "tokenizers"}
    if room_of(path) in ("cli", "render"):
        assert "torch" not in {name.split(".")[0] for name in at_module_level(parse(path))}
    assert "click" not in roots, "Typer brings its own"


@pytest.mark.parametrize(
    "path", [path for path in MODULES if room_of(path) in ("engine", "agent")], ids=name_of
)
def test_logic_prints_nothing_and_reads_no_environment(path: Path) -> None:
    tree = parse(path)
    called = set(_called(tree))
    assert "print" not in called
    assert not {name.split(".")[0] for name in imported(tree)} & {"os", "logging", "time"}


@pytest.mark.parametrize("path", [path for path in MODULES if not is_training(path)], ids=name_of)
def test_modules_stay_small(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= 320


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["--version"]])
def test_help_imports_no_torch(arguments: list[str]) -> None:
    code = (
        "import sys\n"
        "from specctl.cli.app import app\n"
        "try:\n"
        f"    app({arguments!r}, prog_name='specctl')\n"
        "except SystemExit:\n"
        "    pass\n"
        "print(sorted({'torch', 'transformers'} & set(sys.modules)), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PYTHONPATH": str(PACKAGE.parent), "PATH": "", "HOME": "/nonexistent"},
    )
    assert done.stderr.strip() == "[]"
    assert done.stdout.strip()


def _called(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            yield node.func.id
