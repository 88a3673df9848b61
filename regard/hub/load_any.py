"""Load any folder: a run of `regard train` or one of its checkpoints (RUN/state/step-...), a model of `regard import`,
or a Hugging Face folder."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.explain.explainer import Explainer
from regard.explain.interventions import Intervention, parse_intervention
from regard.hub.imported_model import ImportedModel
from regard.tasks.base_run import Run, load_trained
from regard.tasks.run_dir import read_config

__all__ = ["ImportedModel", "build_text_explainer", "load_any", "parse_interventions"]


def load_any(folder: str | Path) -> Any:
    """Load a run, or an `ImportedModel`. Both have `look`; `verbs` lists what else they can do."""
    file = Path(folder) / "config.json"
    if Path(folder).parent.name == "state" and not file.exists():
        return _load_checkpoint(Path(folder))
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        config = {}
    if isinstance(config, dict) and ("imported" in config or ("model_type" in config and "format" not in config)):
        return ImportedModel.load(folder)
    return Run.load(folder)


def _load_checkpoint(folder: Path) -> Any:
    """The run with the weights of a checkpoint."""
    run_folder = folder.parent.parent
    config = read_config(run_folder)
    if not (folder / "model.safetensors").is_file():
        checkpoints = ", ".join(sorted(p.name for p in folder.parent.glob("step-*"))) or "none"
        raise UserError(f"{folder} is not a checkpoint; {run_folder} has: {checkpoints}")
    return load_trained(folder, config, folder / "model.safetensors", run_folder)


def build_text_explainer(model: Any, text: str, label: str | None = None) -> Explainer:
    """The explainer of a loaded model's output on a text (for images: on a file).

    Args:
        model: What `load_any` returned.
        text: The text, or the path of an image.
        label: The class or token that the explanation is about; None for the predicted one.
    """
    if isinstance(model, ImportedModel):
        return model.build_explainer(text, label)[0]
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


def parse_interventions(specs: list[str], text: str) -> list[Intervention]:
    """Parse interventions (see `regard.explain.interventions`); runs whose heads they use are loaded."""
    return [parse_intervention(spec, lambda folder: build_text_explainer(load_any(folder), text)) for spec in specs]
