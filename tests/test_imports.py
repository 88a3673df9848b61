"""Rules for the whole package: imports point one way, one place normalizes over keys, data files cannot run code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "regard"
FILES = sorted(PACKAGE.rglob("*.py"))

BASE = {"errors", "config"}
LAYERS = BASE | {"attention", "layers"}
MODELS = LAYERS | {"models", "data"}
TASKS = MODELS | {"kernels", "decoding", "inspect", "pages", "explain", "training", "tasks"}

ALLOWED: dict[str, set[str]] = {
    # package: the packages that it may import, besides itself
    "errors": set(),
    "config": {"errors"},
    "kernels": set(),
    "attention": BASE,
    "layers": BASE | {"attention"},
    "data": BASE,
    "models": MODELS,
    "inspect": {"errors", "attention"},
    "training": BASE,
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
    "cli": TASKS | {"comparison", "hub", "theory", "serve", "demo", "regard"},
    "regard": TASKS | {"comparison", "hub", "theory"},
    "__main__": {"cli"},
}

EXCEPTIONS = {("models/causal_model.py", "decoding")}
"""`CausalModel.generate` imports decoding when it is called."""

TORCH_FREE = ("errors", "config", "cli", "data", "pages")
"""Packages that do not import torch: help must be fast, and pages need plain data only."""

SOFTMAX_OVER_CLASSES = {
    "tasks/classify/objective.py": "probabilities of classes",
    "models/linear_text_model.py": "probabilities of classes",
    "models/nb_svm.py": "probabilities of classes",
    "explain/token_explainers.py": "probabilities of tokens",
    "explain/seq2seq_explainer.py": "probabilities of tokens",
    "tasks/caption/look.py": "probabilities of tokens",
    "decoding/sampling.py": "probabilities of tokens",
    "decoding/mask_filling.py": "probabilities of tokens",
    "decoding/beam_search.py": "probabilities of tokens",
}
"""Files outside attention/scores.py that may call softmax, and over what."""

FUSED_KERNEL_FILES = {"attention/scores.py", "attention/window.py", "attention/window_2d.py"}
"""The kinds of Scores, which may call the fused kernel."""

USER_CODE_FILES = {"config/plugins.py"}
"""Where a user's Python file is run, for --import and regard.import_file."""


def module_name(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def package_name(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else parts[0]


@cache
def parse(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"), str(file))


def find_imports(nodes: Iterator[ast.AST], file: Path) -> Iterator[tuple[str, int]]:
    """Full names of the modules that these nodes import, with the line."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}:{node.lineno}: use an absolute import"
            if node.module == "regard":
                yield from ((f"regard.{alias.name}", node.lineno) for alias in node.names)
            elif node.module:
                yield node.module, node.lineno


def import_time_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Nodes that run when a module is imported: not inside functions, and not for type checkers only."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.dump(child.test):
            continue
        yield child
        yield from import_time_nodes(child)


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(PACKAGE)))
def test_imports_point_one_way(file: Path):
    module = module_name(file)
    package = package_name(module)
    assert package in ALLOWED, f"{package} is a new package: add to ALLOWED what it may import"
    for name, line in find_imports(ast.walk(parse(file)), file):
        if not name.startswith("regard."):
            continue
        other = package_name(name)
        other = other if other in ALLOWED else "regard"  # a public name of regard, such as its version
        allowed = ALLOWED[package] | {package}
        if (str(file.relative_to(PACKAGE)), other) in EXCEPTIONS:
            continue
        assert other in allowed, (
            f"{file.relative_to(ROOT)}:{line}: {package} may not import {other}; it may import {sorted(allowed)}"
        )


def test_packages_do_not_import_each_other():
    """The table has no cycle."""
    left = {package: set(allowed) - {package} for package, allowed in ALLOWED.items() if package != "regard"}
    for allowed in left.values():
        allowed.discard("regard")
    while left:
        free = {package for package, allowed in left.items() if not allowed & left.keys()}
        assert free, f"these packages import each other in a cycle: {sorted(left)}"
        for package in free:
            del left[package]


def transitive_imports(module: str) -> Iterator[str]:
    """All modules that importing a module of regard imports, through other modules of regard."""
    modules, seen, todo = {module_name(f): f for f in FILES}, set(), [module]
    while todo:
        current = todo.pop()
        if current in seen:
            continue
        seen.add(current)
        yield current
        if current.startswith("regard"):
            parts = current.split(".")
            parents = [".".join(parts[:i]) for i in range(1, len(parts) + 1)]
            for name in (parent for parent in parents if parent in modules):
                todo += [other for other, _ in find_imports(import_time_nodes(parse(modules[name])), modules[name])]
                todo += [name]


@pytest.mark.parametrize("module", [module_name(f) for f in FILES if package_name(module_name(f)) in TORCH_FREE])
def test_torch_is_not_imported_by_torch_free_packages(module: str):
    heavy = {"torch", "lightning_fabric", "lightning", "sklearn", "safetensors.torch"}
    heavy_imports = sorted(n for n in transitive_imports(module) if n.split(".")[0] in heavy or n in heavy)
    assert not heavy_imports, f"importing {module} imports {heavy_imports}; import it inside the function that needs it"


def find_calls(file: Path) -> Iterator[tuple[str, ast.Call]]:
    """Calls, by the last part of the function's name."""
    for node in ast.walk(parse(file)):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func).split(".")[-1], node


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(PACKAGE)))
def test_only_scores_normalize_over_keys(file: Path):
    path = str(file.relative_to(PACKAGE))
    for name, call in find_calls(file):
        if name in {"softmax", "log_softmax", "Softmax", "LogSoftmax"} and path != "attention/scores.py":
            assert path in SOFTMAX_OVER_CLASSES, f"{path}:{call.lineno}: softmax outside attention/scores.py"
        if name in {"scaled_dot_product_attention", "MultiheadAttention", "flex_attention"}:
            assert path in FUSED_KERNEL_FILES, f"{path}:{call.lineno}: {name} may only be called by Scores"


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(PACKAGE)))
def test_data_files_cannot_run_code(file: Path):
    path = str(file.relative_to(PACKAGE))
    for name, line in find_imports(ast.walk(parse(file)), file):
        unsafe = name.split(".")[0] in {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"}
        assert not unsafe, f"{path}:{line}: {name} runs code when it reads; use safetensors and JSON"
    for name, call in find_calls(file):
        where, function = f"{path}:{call.lineno}", ast.unparse(call.func)
        assert function not in {"eval", "exec", "compile", "__import__"}, f"{where}: {function}() runs code"
        assert function not in {"torch.load", "torch.save", "np.save", "pickle.load"}, f"{where}: {function} is pickle"
        assert function not in {"yaml.load", "yaml.full_load", "yaml.unsafe_load"}, f"{where}: use yaml.safe_load"
        keywords = {k.arg: ast.unparse(k.value) for k in call.keywords}
        assert keywords.get("allow_pickle") != "True", f"{where}: allow_pickle runs code"
        assert keywords.get("shell") != "True", f"{where}: a shell runs its argument"
        if name in {"exec_module", "spec_from_file_location", "run_path", "import_files"}:
            assert path in USER_CODE_FILES or name == "import_files", f"{where}: only config/plugins.py may call {name}"


def test_opening_a_run_does_not_run_user_code():
    """Only the command line and `regard.import_file` import config.plugins."""
    users = [
        str(file.relative_to(PACKAGE))
        for file in FILES
        if any(name.startswith("regard.config.plugins") for name, _ in find_imports(ast.walk(parse(file)), file))
    ]
    others = [user for user in users if not user.startswith("cli/") and user != "__init__.py"]
    assert not others, f"{others}: only the command line may import regard.config.plugins"


def test_the_searches_of_these_tests_find_something():
    """A search that finds nothing would pass every test."""
    assert "torch" in set(transitive_imports("regard.layers.multi_head_attention"))
    assert "regard.attention.token_positions" in set(transitive_imports("regard.attention.scores"))
    assert {"softmax", "scaled_dot_product_attention"} <= {
        name for name, _ in find_calls(PACKAGE / "attention/scores.py")
    }
    assert "spec_from_file_location" in {name for name, _ in find_calls(PACKAGE / "config/plugins.py")}
