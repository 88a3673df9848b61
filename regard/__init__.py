"""regard: the attention workbench. Train, compare, look inside, cost and verify attention models on your own data.

    import regard
    run = regard.train("classify", "reviews.csv", text="review", label="sentiment", model="han", budget="2min")
    run.predict("A film to forget.")
    run.look("A film to forget.")

Names are loaded when they are first used, so that `import regard` and `regard --help` stay quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOMES = {
    "train": "regard.tasks.train",
    "Run": "regard.tasks.base_run",
    "record": "regard.inspect",
    "edit": "regard.inspect",
    "UserError": "regard.errors",
}

__all__ = ["Run", "UserError", "edit", "load", "record", "train"]

if TYPE_CHECKING:
    from regard.errors import UserError
    from regard.inspect import edit, record
    from regard.tasks.base_run import Run
    from regard.tasks.train import train


def load(folder: str) -> Any:
    """Open a run folder, whatever its task: a Classifier, a LanguageModel, each a Run."""
    return import_module("regard.tasks.base_run").Run.load(folder)


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    try:
        return import_module(f"regard.{name}")  # regard.layers and the like, without an import of their own
    except ModuleNotFoundError as problem:
        if problem.name != f"regard.{name}":
            raise  # something that the module needs is missing
        raise AttributeError(f"module 'regard' has no attribute {name!r}") from None


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
