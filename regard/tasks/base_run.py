"""A trained run in Python: save and load, whatever its task. What it can do besides stands with its kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from regard.config.messages import show_messages
from regard.data.tokenizer import Tokenizer
from regard.errors import UserError
from regard.models.linear_text_model import FittableConfig, FittedModel
from regard.tasks.base import kind
from regard.tasks.model_card import card
from regard.tasks.run_dir import read_config, settings_of, write_config
from regard.training import atomic_write
from regard.training.checkpoint import load_weights, save_weights


class Run:
    """`Run.load(folder)` opens a run of any task; nothing in the folder is executed."""

    def __init__(
        self, folder: Path | None, config: dict[str, Any], model: nn.Module | FittedModel, words: Tokenizer | None
    ):
        self.folder, self.config, self.model, self.tokenizer = folder, config, model, words
        self.settings: Any = settings_of(config)
        if isinstance(model, nn.Module):
            model.eval()

    @staticmethod
    def load(folder: str | Path) -> Any:
        """The run in a folder: a Classifier, a LanguageModel, as its task is."""
        show_messages()
        folder = Path(folder)
        config = read_config(folder)
        settings = settings_of(config)
        if not (folder / "model.safetensors").is_file():
            raise UserError(f"{folder} holds no trained weights yet: train it further with --resume --out {folder}")
        made = kind(settings.task)
        if isinstance(settings.model, FittableConfig):
            return made.RUN(folder, config, settings.model.load(folder), None)
        model = made.net(settings, config)
        load_weights(model, folder / "model.safetensors")
        words = Tokenizer.load(folder)
        if words.vocab_size != config["vocab"]:
            raise UserError(
                f"{folder}/tokenizer.json has {words.vocab_size} tokens, and the model knows {config['vocab']}"
            )
        return made.RUN(folder, config, model, words)

    from_pretrained = load

    def save_pretrained(self, folder: str | Path) -> Path:
        """What is needed to load the model elsewhere: config, weights, tokenizer and card."""
        target = Path(folder)
        if (target / "config.json").exists():
            read_config(target)  # of another program: refused
        target.mkdir(parents=True, exist_ok=True)
        if isinstance(self.model, nn.Module):
            save_weights(target / "model.safetensors", self.model.state_dict())
        else:
            for name, content in self.model.files().items():
                atomic_write.replace(target / name, content)
        if self.tokenizer is not None:
            self.tokenizer.save(target)
        atomic_write.replace(target / "README.md", card(self.config).encode())
        write_config(target, self.config)
        return target

    @property
    def verbs(self) -> tuple[str, ...]:
        """What this run can do, by the names of its methods."""
        return ()

    @property
    def net(self) -> nn.Module:
        """The model of a run that was trained, not fitted."""
        assert isinstance(self.model, nn.Module)
        return self.model

    @property
    def words(self) -> Tokenizer:
        """The tokenizer of such a run."""
        assert self.tokenizer is not None
        return self.tokenizer

    @property
    def metrics(self) -> dict[str, float]:
        """On the validation part, of the model kept."""
        return self.config.get("metrics", {})

    def __repr__(self) -> str:
        reached = ", ".join(f"{k} {v:.4f}" for k, v in self.metrics.items())
        return (
            f"Run({self.settings.model_name} for {self.settings.task}, {self.folder}; validation: {reached or 'none'})"
        )
