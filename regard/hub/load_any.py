"""Open whatever a folder holds: a run of `regard train` or one of its checkpoints (RUN/state/step-...), a model of
`regard import`, or a Hugging Face folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.explain.explainer import Explainer
from regard.explain.interventions import Intervention, parse_intervention
from regard.hub.imported_model import Imported
from regard.tasks.base_run import Run, load_trained
from regard.tasks.run_dir import read_config

__all__ = ["Imported", "changes_of", "opened", "subject_of"]


def opened(folder: str | Path) -> Any:
    """A run, or an `Imported`; both can `look`, and say in `verbs` what else they can."""
    file = Path(folder) / "config.json"
    if Path(folder).parent.name == "state" and not file.exists():
        return _checkpoint(Path(folder))
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        config = {}
    if isinstance(config, dict) and ("imported" in config or ("model_type" in config and "format" not in config)):
        return Imported.load(folder)
    return Run.load(folder)


def _checkpoint(folder: Path) -> Any:
    """The run as it was at a checkpoint."""
    home = folder.parent.parent
    config = read_config(home)
    if not (folder / "model.safetensors").is_file():
        kept = ", ".join(sorted(p.name for p in folder.parent.glob("step-*"))) or "none"
        raise UserError(f"{folder} is no checkpoint; {home} has kept: {kept}")
    return load_trained(folder, config, folder / "model.safetensors", home)


def subject_of(model: Any, text: str, label: str | None = None) -> Explainer:
    """An opened model with a text before it, to be asked."""
    if isinstance(model, Imported):
        return model.subject(text, label)[0]
    task = model.settings.task
    if task == "classify":
        from regard.tasks.classify.look import TextClassifierExplainer

        return TextClassifierExplainer(model, text, label)
    if task == "language":
        from regard.tasks.language.look import build_explainer

        return build_explainer(model, text, label)[0]
    if task == "images":
        from regard.tasks.images.look import ImageClassifierExplainer, read_image_input

        return ImageClassifierExplainer(model, read_image_input(model, text), label)
    if task == "caption":
        from regard.tasks.caption.look import build_explainer

        return build_explainer(model, text)
    from regard.tasks.translate.look import build_explainer

    return build_explainer(model, text)[0]


def changes_of(specs: list[str], text: str) -> list[Intervention]:
    """Changes as they are written (regard.explain.interventions); runs that heads come from are opened here."""
    return [parse_intervention(spec, lambda folder: subject_of(opened(folder), text)) for spec in specs]
