"""The registry: mechanisms, positions, models and tasks by name.

Built-in classes and a user's own classes are registered in the same way. A built-in model or task is registered as
"module:Class" and imported at its first use, so that `regard --help` does not import torch.

A user's classes come from a file (`regard.import_file`, `--import FILE.py`) or from an installed package with an entry
point in the group "regard.plugins", which names a module. Packages are imported when a name is not known yet.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any, Generic, TypeVar, cast

from regard.errors import UserError, suggest_choices

T = TypeVar("T")
ENTRY_POINTS = "regard.plugins"


class Registry(Mapping[str, T], Generic[T]):
    """Classes of one kind by name.

    Args:
        kind: What the classes are, for error messages, such as "mechanism".
        base: The base class by which the classes of a user's module are recognized. Models have none and are
            registered by `register_model`.
    """

    def __init__(self, kind: str, base: type | None = None):
        self.kind, self.base = kind, base
        self._entries: dict[str, T | str] = {}
        self._sources: dict[str, str] = {}
        REGISTRIES.append(self)

    def register(self, name: str, entry: T | str) -> None:
        """Add a class.

        Args:
            name: The name in settings and on the command line. It must be free.
            entry: The class, or "module:Class", which is imported at its first use.
        """
        source = _source_of(entry)
        registered = self._entries.get(name, entry)
        if registered != entry and (
            source is None or self._sources.get(name) != source
        ):  # a file may be imported again
            raise UserError(f"there is already a {self.kind} named {name!r}; choose another name")
        self._entries[name] = entry
        if source is not None:
            self._sources[name] = source

    def register_package(self, package: str, path: Iterable[str]) -> None:
        """Register the named classes in every module of a package, so that a new file needs no entry in a list."""
        for module in import_modules(package, path):
            self.register_module(module)

    def register_module(self, module: ModuleType) -> None:
        """Register the concrete subclasses of the base class that the module defines and that set `name`."""
        for _, cls in inspect.getmembers(module, inspect.isclass):
            is_named = cls.__module__ == module.__name__ and "name" in vars(cls)
            if is_named and self.base is not None and issubclass(cls, self.base) and not inspect.isabstract(cls):
                self.register(cast(Any, cls).name, cast(T, cls))

    def unregister(self, name: str) -> None:
        """Remove a class, where there is one of that name."""
        self._entries.pop(name, None)
        self._sources.pop(name, None)

    def find(self, name: str) -> T:
        """The class of that name. Raises UserError with the nearest known name otherwise."""
        if name not in self:
            raise UserError(f"unknown {self.kind} {name!r}; {suggest_choices(name, self)}")
        return self[name]

    def source(self, name: str) -> str | None:
        """The user's file or package that registered the class; None for a built-in class."""
        return self._sources.get(name)

    def __getitem__(self, name: str) -> T:
        if name not in self._entries:
            import_entry_points()
        entry = self._entries[name]
        if isinstance(entry, str):
            self._entries[name] = entry = cast(T, import_object(entry))
        return entry

    def __contains__(self, name: object) -> bool:
        if name not in self._entries:
            import_entry_points()
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        import_entry_points()
        return iter(list(self._entries))

    def __len__(self) -> int:
        return sum(1 for _ in self)


REGISTRIES: list[Registry[Any]] = []
USER_MODULE = "regard_user_"
"""Prefix of the module names of imported files."""


@cache
def models_of(task: str) -> Registry[Any]:
    """The models of a task: names to config dataclasses."""
    return Registry(f"model for {task}")


def register_model(task: str, name: str) -> Callable[[type[T]], type[T]]:
    """Class decorator: register a model's config dataclass under a name for a task.

    The dataclass needs the method `build`, which returns an `nn.Module`. `regard.models.classifier_output` documents
    what a classifier takes and returns.

        @register_model("classify", "bag-of-vectors")
        @dataclass(frozen=True)
        class BagOfVectorsConfig:
            dim: int = 32

            def build(self, vocab_size: int, num_classes: int) -> nn.Module: ...
    """

    def register(config: type[T]) -> type[T]:
        models_of(task).register(name, config)
        return config

    return register


def import_modules(package: str, path: Iterable[str]) -> Iterator[ModuleType]:
    """Import every module of a package, in the order of their names."""
    for name in sorted(module.name for module in pkgutil.iter_modules(path)):
        yield importlib.import_module(f"{package}.{name}")


def import_object(path: str) -> object:
    """Import "module:name"."""
    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def register_module(module: ModuleType) -> None:
    """Register what a user's module defines: named subclasses of the base classes. Models register themselves."""
    for registry in REGISTRIES:
        registry.register_module(module)
    source = _module_source(module.__name__)
    if not any(source in registry._sources.values() for registry in REGISTRIES):
        raise UserError(
            f"{source} registers nothing. Expected: a subclass of Mechanism, PositionEncoding or Task with a name, "
            "or a model config with @regard.register_model(TASK, NAME)"
        )


@cache
def import_entry_points() -> None:
    """Import the modules that installed packages name in the entry point group "regard.plugins"."""
    for entry in entry_points(group=ENTRY_POINTS):
        register_module(entry.load())


def user_sources(settings: Mapping[str, Any]) -> dict[str, list[str]]:
    """The user's classes that settings name.

    Args:
        settings: A nested mapping; a name is a string value, or its part before ":".

    Returns:
        File or package to the names of its classes.
    """
    names = {value.partition(":")[0] for value in _strings(settings)}
    sources: dict[str, list[str]] = {}
    for registry in REGISTRIES:
        for name in sorted(names & registry._sources.keys()):
            sources.setdefault(registry._sources[name], []).append(f"{registry.kind} {name}")
    return sources


def missing_sources(sources: Mapping[str, list[str]]) -> list[str]:
    """Of files and packages that `user_sources` returned: those whose classes are not registered in this process."""
    registered = {f"{registry.kind} {name}" for registry in REGISTRIES for name in registry._entries}
    return [source for source, names in sources.items() if not set(names) <= registered]


def _source_of(entry: object) -> str | None:
    """The user's file or package that defines a class; None for a built-in class."""
    module = getattr(entry, "__module__", "regard.")
    return None if isinstance(entry, str) or module.startswith("regard.") else _module_source(module)


def _module_source(name: str) -> str:
    """The file of a module that was imported from a file, or its package."""
    return str(sys.modules[name].__file__) if name.startswith(USER_MODULE) else name.partition(".")[0]


def _strings(tree: Any) -> Iterator[str]:
    if isinstance(tree, str):
        yield tree
    elif isinstance(tree, Mapping):
        for value in tree.values():
            yield from _strings(value)
