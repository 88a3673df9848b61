"""Find the classes of one kind in a folder, so that a file dropped in is known by its name at once."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterable, Iterator
from types import ModuleType


def modules(package: str, path: Iterable[str]) -> Iterator[ModuleType]:
    """Every file of a folder, imported, in the order of their names."""
    for name in sorted(m.name for m in pkgutil.iter_modules(path) if m.name != "base"):
        yield importlib.import_module(f"{package}.{name}")


def classes(package: str, path: Iterable[str], base: type) -> Iterator[type]:
    """Every concrete subclass of `base` that a module of this package defines with a name of its own."""
    for module in modules(package, path):
        home = module.__name__
        for _, cls in inspect.getmembers(module, inspect.isclass):
            if cls.__module__ == home and issubclass(cls, base) and not inspect.isabstract(cls) and "name" in vars(cls):
                yield cls
