"""A trained run: what runs of all tasks share. Each task adds its methods in its file run.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from regard.config.messages import show_messages
from regard.config.owned_folders import claim_folder
from regard.data.tokenizer import Tokenizer
from regard.errors import UserError
from regard.models.linear_text_model import FittableConfig, FittedModel
from regard.tasks.base import get_task
from regard.tasks.model_card import format_model_card
from regard.tasks.run_dir import read_config, settings_from_config, write_config
from regard.training import atomic_write
from regard.training.checkpoint import load_weights, save_weights


class Run:
    """A trained model with its settings, tokenizer and metrics. `Run.load(folder)` opens a run of any task.

    Args:
        folder: The run folder; None if it was never saved.
        config: The content of config.json.
        model: The trained module, or a fitted model (regard/models/linear_text_model.py).
        tokenizer: The tokenizer; None for a fitted model, which has its own.
    """

    def __init__(
        self, folder: Path | None, config: dict[str, Any], model: nn.Module | FittedModel, tokenizer: Tokenizer | None
    ):
        self.folder, self.config = folder, config
        self.settings: Any = settings_from_config(config)
        self.fitted = None if isinstance(model, nn.Module) else model
        self._module = model.eval() if isinstance(model, nn.Module) else None
        self._tokenizer = tokenizer

    @staticmethod
    def load(folder: str | Path) -> Any:
        """Open a run folder. No code in the folder is run.

        Returns:
            A run of the class of its task, such as a Classifier or a LanguageModel.
        """
        show_messages()
        folder = Path(folder)
        config = read_config(folder)
        settings = settings_from_config(config)
        if not (folder / "model.safetensors").is_file():
            raise UserError(f"{folder} has no trained weights yet: continue with --resume --out {folder}")
        if isinstance(settings.model, FittableConfig):
            return get_task(settings.task).run_class(folder, config, settings.model.load(folder), None)
        return load_trained(folder, config, folder / "model.safetensors", folder)

    from_pretrained = load

    def save_pretrained(self, folder: str | Path) -> Path:
        """Write what is needed to load the run elsewhere: config, weights, tokenizer and model card."""
        target = Path(folder)
        claim_folder(target, "run")
        if self.fitted is None:
            save_weights(target / "model.safetensors", self.model.state_dict())
            self.tokenizer.save(target)
        else:
            for name, content in self.fitted.files().items():
                atomic_write.replace_file(target / name, content)
        atomic_write.replace_file(target / "README.md", format_model_card(self.config).encode())
        write_config(target, self.config)
        return target

    @property
    def verbs(self) -> tuple[str, ...]:
        """The names of the methods that this run supports."""
        return ()

    @property
    def model(self) -> nn.Module:
        """The trained module. Raises UserError for a fitted model, which has no layers."""
        if self._module is None:
            raise UserError(f"{self.folder or 'the run'} is a fitted {self.settings.model_name}, which has no layers")
        return self._module

    @property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer. Raises UserError for a fitted model."""
        if self._tokenizer is None:
            raise UserError(f"{self.folder or 'the run'} is a fitted {self.settings.model_name} without a tokenizer")
        return self._tokenizer

    @property
    def metrics(self) -> dict[str, float]:
        """Metrics of the best checkpoint on the validation part."""
        return self.config.get("metrics", {})

    def __repr__(self) -> str:
        metrics = ", ".join(f"{name} {value:.4f}" for name, value in self.metrics.items())
        name = f"{self.settings.model_name} for {self.settings.task}"
        return f"{type(self).__name__}({name}, {self.folder}; validation: {metrics or 'none'})"


def load_trained(folder: Path, config: dict[str, Any], weights: Path, tokenizer_folder: Path) -> Any:
    """Build the model of a run, load its weights and its tokenizer.

    Args:
        folder: The folder of the run or of one of its checkpoints.
        config: The run's config.json.
        weights: The file with the weights.
        tokenizer_folder: The folder with the tokenizer.
    """
    settings = settings_from_config(config)
    task = get_task(settings.task)
    model = task.build_model(settings, config)
    load_weights(model, weights)
    tokenizer = Tokenizer.load(tokenizer_folder)
    if tokenizer.vocab_size != config["vocab_size"]:
        raise UserError(
            f"{tokenizer_folder}/tokenizer.json has {tokenizer.vocab_size} tokens, but the model has "
            f"{config['vocab_size']}"
        )
    return task.run_class(folder, config, model, tokenizer)
