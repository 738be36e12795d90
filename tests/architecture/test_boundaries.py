# SPDX-License-Identifier: MIT
"""What may know about what: the rules that the layout promises."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HARNESS = ROOT / "harness"
FILES = sorted(HARNESS.rglob("*.py"))

SQL = re.compile(
    r"\b(SELECT\s.+\sFROM|INSERT\s+INTO|DELETE\s+FROM|UPDATE\s+\w+\s+SET|PRAGMA\s|"
    r"CREATE\s+(TEMP\s+)?(TABLE|INDEX|VIEW)|ATTACH\s+DATABASE)\b",
    re.DOTALL,
)
DATABASES = {"sqlite3", "adbc_driver_sqlite", "adbc_driver_manager"}


def ids(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def inside(path: Path, *rooms: str) -> bool:
    """Whether a file is one of ``rooms``, or in one of them."""
    return any(path.is_relative_to(HARNESS / room) for room in rooms)


def imported(path: Path) -> Iterator[str]:
    """Every module that the file imports, wherever in the file, type checking left out."""
    nodes: list[ast.AST] = [tree(path)]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            nodes += node.orelse
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module or ""
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        nodes += ast.iter_child_nodes(node)


def packages(path: Path) -> set[str]:
    return {name.split(".")[0] for name in imported(path)}


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_sql_lives_in_the_readers(path: Path) -> None:
    if inside(path, "readers"):
        return
    assert not packages(path) & DATABASES
    texts = [n.value for n in ast.walk(tree(path)) if isinstance(n, ast.Constant)]
    assert not [text for text in texts if isinstance(text, str) and SQL.search(text)]


def test_the_sql_rule_sees_sql() -> None:
    """The rule above would be worth nothing if the readers did not trip it."""
    readers = [path for path in FILES if inside(path, "readers")]
    assert any(packages(path) & DATABASES for path in readers)
    assert any(
        SQL.search(node.value)
        for path in readers
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_click_and_printing_live_in_the_cli(path: Path) -> None:
    if inside(path, "cli"):
        return
    assert "click" not in packages(path)
    calls = [n.func for n in ast.walk(tree(path)) if isinstance(n, ast.Call)]
    assert not [f.lineno for f in calls if isinstance(f, ast.Name) and f.id == "print"]
    # torch_runner.py takes the place of the user's `python`, whose messages it has to write itself.
    if path.name != "torch_runner.py":
        streams = {
            ast.unparse(node)
            for node in ast.walk(tree(path))
            if isinstance(node, ast.Attribute) and node.attr in ("stdout", "stderr")
        }
        assert not streams & {"sys.stdout", "sys.stderr"}


@pytest.mark.parametrize("path", FILES, ids=ids)
def test_the_harness_meets_the_workload_through_a_process_only(path: Path) -> None:
    assert "workload" not in packages(path)
    if not inside(path, "launch", "ranges.py"):
        assert "torch" not in packages(path)


@pytest.mark.parametrize("path", sorted((ROOT / "workload").rglob("*.py")), ids=ids)
def test_the_workload_knows_the_range_helper_and_the_errors_only(path: Path) -> None:
    used = {name for name in imported(path) if name.split(".")[0] == "harness"}
    allowed = ("harness.range", "harness.ranges", "harness.errors")
    assert all(name == "harness" or name.startswith(allowed) for name in used), used


#: Room -> rooms above it in the pipeline, which it must not know.
ABOVE = {
    "trace.py": {"attribute", "summarise", "comparison", "render", "cli", "launch", "readers"},
    "readers": {"attribute", "summarise", "comparison", "render", "cli"},
    "attribute": {"readers", "summarise", "comparison", "render", "cli", "launch"},
    "summarise.py": {"readers", "comparison", "render", "cli", "launch"},
    "comparison": {"render", "cli"},
    "render": {"readers", "cli", "launch"},
    "launch": {"attribute", "summarise", "comparison", "render", "cli"},
}


@pytest.mark.parametrize("room", ABOVE)
def test_the_arrows_go_one_way(room: str) -> None:
    wrong = {
        (ids(path), name)
        for path in FILES
        if inside(path, room)
        for name in _at_import(path)
        if name.startswith("harness.") and name.split(".")[1] in ABOVE[room]
    }
    assert not wrong


def _at_import(path: Path) -> Iterator[str]:
    """Modules that importing the file imports: function bodies do not count.

    ``Trace.attribute`` is a convenience that imports what it calls when it is called.
    """
    nodes: list[ast.AST] = [tree(path)]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        nodes += ast.iter_child_nodes(node)


@pytest.mark.parametrize("room", ["attribute", "summarise.py", "trace.py"])
def test_the_pure_core_opens_no_file_and_starts_no_process(room: str) -> None:
    for path in FILES:
        if inside(path, room):
            assert not packages(path) & {
                "subprocess",
                "multiprocessing",
                "os",
                "shutil",
                *DATABASES,
            }
            calls = [ast.unparse(n.func) for n in ast.walk(tree(path)) if isinstance(n, ast.Call)]
            assert "open" not in calls, ids(path)


HEAVY = ("torch", "pandas", "numpy", "rich", "sqlite3", "orjson", "msgspec", "adbc_driver_sqlite")


@pytest.mark.parametrize(
    "code",
    [
        "import harness",
        "from harness.cli import main; main(['--help'])",
        "from harness.cli import main; main(['--version'])",
    ],
)
def test_start_up_loads_nothing_heavy(code: str) -> None:
    """Counted, not timed: each heavy module costs 30 ms to 2 s, whatever the machine is doing."""
    program = (
        f"import sys\ntry:\n    {code}\nexcept SystemExit as end:\n    assert not end.code\n"
        "print(len(sys.modules), *sorted(sys.modules), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    count, *modules = done.stderr.split()
    assert not set(HEAVY) & set(modules)
    # 130 here with click 8.5; numpy alone would bring 100 more, pandas 600.
    assert int(count) < 220
