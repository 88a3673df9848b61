"""The house keeps its shape: imports point one way, only the seam normalises over keys, and no file can run code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HOME = ROOT / "regard"
FILES = sorted(HOME.rglob("*.py"))

GROUND = {"errors", "config"}
LAYERS = GROUND | {"attention", "layers"}
MODELS = LAYERS | {"models", "data"}
TASKS = MODELS | {"kernels", "decoding", "inspect", "pages", "explain", "training", "tasks"}

PACKAGES: dict[str, set[str]] = {
    # package: what it may import, besides itself
    "errors": set(),
    "config": {"errors"},
    "kernels": set(),
    "attention": GROUND,
    "layers": GROUND | {"attention"},
    "data": {"errors"},
    "models": MODELS,
    "inspect": {"errors", "attention"},
    "training": GROUND,
    "decoding": MODELS | {"kernels"},
    "pages": {"errors"},
    "explain": {"errors", "data", "inspect", "pages"},
    "tasks": TASKS,
    "testing": LAYERS | {"models", "inspect"},
    "theory": TASKS,
    "hub": TASKS,
    "comparison": TASKS | {"theory", "hub"},
    "serve": TASKS | {"hub"},
    "demo": TASKS,
    "plugins": {"errors", "attention"},
    "cli": TASKS | {"comparison", "hub", "theory", "serve", "demo", "plugins", "regard"},
    "regard": TASKS,
    "__main__": {"cli"},
}

TORCH_FREE = ("errors", "config", "cli", "data", "pages")
"""Rooms that are imported before, or without, torch: help must be quick, pages need only files."""

OVER_CLASSES = {
    "tasks/classify/objective.py": "chances of classes",
    "explain/word_subjects.py": "chances of words",
    "explain/seq2seq_subject.py": "chances of words",
    "tasks/caption/look.py": "chances of words",
    "decoding/sampling.py": "chances of words",
    "decoding/mask_filling.py": "chances of words",
    "decoding/beam_search.py": "chances of words",
}
"""Files outside the seam that may say softmax, and over what."""

KERNELS = {"attention/scores.py", "attention/window.py", "attention/window_2d.py"}
"""The kinds of Scores, which may call the fused kernel."""

CODE_DOOR = {"plugins.py"}
"""Where code of the user's own comes in, by --import and in no other way."""


def name_of(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def package_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else parts[0]


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), str(file))


def imported(nodes: Iterator[ast.AST], file: Path) -> Iterator[tuple[str, int]]:
    """Full names of what these nodes import, and on which line."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: import by the full name"
            if node.module == "regard":
                yield from ((f"regard.{alias.name}", node.lineno) for alias in node.names)
            elif node.module:
                yield node.module, node.lineno


def at_import(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that run when a module is imported: not inside functions, nor for type checkers only."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        yield child
        yield from at_import(child)


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(HOME)))
def test_imports_point_one_way(file: Path):
    module = name_of(file)
    room = package_of(module)
    assert room in PACKAGES, f"{room} is a new room: say in PACKAGES what it may import"
    for name, line in imported(ast.walk(tree(file)), file):
        if not name.startswith("regard."):
            continue
        other = package_of(name)
        other = other if other in PACKAGES else "regard"  # a name of the package itself, such as its version
        allowed = PACKAGES[room] | {room}
        assert other in allowed, (
            f"{file.relative_to(ROOT)}:{line}: {room} may not import {other}; it may {sorted(allowed)}"
        )


def test_no_two_rooms_import_each_other():
    """The table itself has no circle, so that there is a lowest room."""
    left = {room: set(allowed) - {room} for room, allowed in PACKAGES.items() if room != "regard"}
    for allowed in left.values():
        allowed.discard("regard")
    while left:
        free = {room for room, allowed in left.items() if not allowed & left.keys()}
        assert free, f"these rooms import each other in a circle: {sorted(left)}"
        for room in free:
            del left[room]


def runs_first(module: str) -> Iterator[str]:
    """Everything that importing a module of ours imports, through other modules of ours."""
    modules, seen, todo = {name_of(f): f for f in FILES}, set(), [module]
    while todo:
        current = todo.pop()
        if current in seen:
            continue
        seen.add(current)
        yield current
        if current.startswith("regard"):
            parts = current.split(".")
            homes = [".".join(parts[:i]) for i in range(1, len(parts) + 1)]
            for home in (h for h in homes if h in modules):
                todo += [name for name, _ in imported(at_import(tree(modules[home])), modules[home])]
                todo += [home]


@pytest.mark.parametrize("module", [name_of(f) for f in FILES if package_of(name_of(f)) in TORCH_FREE])
def test_torch_is_not_imported_where_it_must_not_be(module: str):
    heavy = {"torch", "lightning_fabric", "lightning", "sklearn", "safetensors.torch"}
    found = sorted(n for n in runs_first(module) if n.split(".")[0] in heavy or n in heavy)
    assert not found, f"importing {module} imports {found}; import it inside the function that needs it"


def calls(file: Path) -> Iterator[tuple[str, ast.Call]]:
    """Calls by the last part of their name."""
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func).split(".")[-1], node


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(HOME)))
def test_only_the_seam_normalises_over_keys(file: Path):
    home = str(file.relative_to(HOME))
    for name, call in calls(file):
        if name in {"softmax", "log_softmax", "Softmax", "LogSoftmax"} and home != "attention/scores.py":
            assert home in OVER_CLASSES, f"{home}:{call.lineno}: softmax outside the seam; over classes? say so here"
        if name in {"scaled_dot_product_attention", "MultiheadAttention", "flex_attention"}:
            assert home in KERNELS, f"{home}:{call.lineno}: {name} belongs to the kinds of Scores"


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(HOME)))
def test_no_file_of_the_users_can_run_code(file: Path):
    home = str(file.relative_to(HOME))
    for name, line in imported(ast.walk(tree(file)), file):
        unsafe = name.split(".")[0] in {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
        assert not unsafe, f"{home}:{line}: {name} runs code when it reads; keep safetensors and JSON"
    for name, call in calls(file):
        where, whole = f"{home}:{call.lineno}", ast.unparse(call.func)
        assert whole not in {"eval", "exec", "compile", "__import__"}, f"{where}: {whole}() runs code"
        assert whole not in {"torch.load", "torch.save", "np.save", "pickle.load"}, f"{where}: {whole} is pickle"
        assert whole not in {"yaml.load", "yaml.full_load", "yaml.unsafe_load"}, f"{where}: use yaml.safe_load"
        keywords = {k.arg: ast.unparse(k.value) for k in call.keywords}
        assert keywords.get("allow_pickle") != "True", f"{where}: allow_pickle runs code"
        assert keywords.get("shell") != "True", f"{where}: a shell runs what it is given"
        if name in {"exec_module", "spec_from_file_location", "run_path", "import_files"}:
            assert home in CODE_DOOR or name == "import_files", f"{where}: {name} outside the one door, plugins.py"


def test_opening_a_run_never_comes_through_the_door():
    """Only the command line may open the door to a user's own file; a run folder cannot."""
    users = [
        str(file.relative_to(HOME))
        for file in FILES
        if any(name.startswith("regard.plugins") for name, _ in imported(ast.walk(tree(file)), file))
    ]
    assert all(home.startswith("cli/") for home in users), f"{users}: only the command line imports regard.plugins"


def test_these_tests_can_see():
    """A search that finds nothing anywhere would pass everything."""
    assert "torch" in set(runs_first("regard.layers.multi_head_attention"))
    assert "regard.attention.token_positions" in set(runs_first("regard.attention.scores"))
    assert {"softmax", "scaled_dot_product_attention"} <= {name for name, _ in calls(HOME / "attention/scores.py")}
    assert "spec_from_file_location" in {name for name, _ in calls(HOME / "plugins.py")}
