"""The public names of regard: they can be imported, are documented, and their examples run."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import regard
import regard.config.settings
import regard.errors

DOCTEST_MODULES = sorted({getattr(regard, name).__module__ for name in regard.__all__})


def test_importing_regard_does_not_import_torch():
    code = "import sys, regard; print('torch' in sys.modules, 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split() == [
        "False",
        "False",
    ]


@pytest.mark.parametrize("name", regard.__all__)
def test_public_name_has_a_docstring_that_names_its_required_arguments(name):
    item = getattr(regard, name)
    doc = inspect.getdoc(item) or ""
    assert doc, name
    assert name in dir(regard)
    if inspect.isclass(item) and (issubclass(item, Exception) or inspect.isabstract(item)):
        return
    text = doc + (inspect.getdoc(item.__init__) or "" if inspect.isclass(item) else "")
    for parameter in inspect.signature(item).parameters.values():
        required = parameter.default is parameter.empty and parameter.kind in (
            parameter.POSITIONAL_OR_KEYWORD,
            parameter.KEYWORD_ONLY,
        )
        assert not required or parameter.name in text, f"{name}: {parameter.name} is not documented"


def test_type_checkers_see_the_public_names():
    """The imports under TYPE_CHECKING, the lazy table and `__all__` list the same names."""
    tree = ast.parse(Path(regard.__file__).read_text(encoding="utf-8"))
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = {
        alias.name: node.module
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if node.module not in ("pathlib", "regard.explain.look_result")
    }
    assert imports == regard._MODULES
    assert {*imports, "load", "look"} == set(regard.__all__)


@pytest.mark.parametrize("module", DOCTEST_MODULES)
def test_docstring_examples_run(module):
    results = doctest.testmod(importlib.import_module(module), optionflags=doctest.ELLIPSIS)
    assert results.failed == 0
