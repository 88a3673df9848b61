"""Open whatever a folder holds: a run of `regard train`, a model of `regard import`, or a Hugging Face folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from regard.opening.imported import Imported
from regard.runs.changes import Change, parse
from regard.runs.run import Run
from regard.runs.subject import Subject

__all__ = ["Imported", "changes_of", "opened", "subject_of"]


def opened(folder: str | Path) -> Any:
    """A run, or an `Imported`; both can `look`, and say in `verbs` what else they can."""
    file = Path(folder) / "config.json"
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        config = {}
    if isinstance(config, dict) and ("imported" in config or ("model_type" in config and "format" not in config)):
        return Imported.load(folder)
    return Run.load(folder)


def subject_of(model: Any, text: str, label: str | None = None) -> Subject:
    """An opened model with a text before it, to be asked."""
    if isinstance(model, Imported):
        return model.subject(text, label)[0]
    task = model.settings.task
    if task == "classify":
        from regard.runs.look import Reviewed

        return Reviewed(model, text, label)
    if task == "language":
        from regard.runs.look_language import subject

        return subject(model, text, label)[0]
    from regard.runs.look_translator import subject as pair

    return pair(model, text)[0]


def changes_of(specs: list[str], text: str) -> list[Change]:
    """Changes as they are written (regard.runs.changes); runs that heads come from are opened here."""
    return [parse(spec, lambda folder: subject_of(opened(folder), text)) for spec in specs]
