"""A trained run in Python: predict, evaluate, look, save and load."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
from torch import nn

from regard.data import documents
from regard.data.read import Table, read
from regard.data.tokenizer import Tokenizer
from regard.errors import UserError
from regard.models.fitted import Fits, Fitted
from regard.runs.card import card
from regard.runs.folder import read_config, settings_of, write_config
from regard.runs.prepare import numbers
from regard.settings import Settings
from regard.tasks import classify
from regard.training import atomic
from regard.training.checkpoint import load_weights, save_weights


def _silent(text: str) -> None:
    pass


@dataclass(frozen=True)
class Prediction:
    """The class with the highest probability, and the probability of each."""

    label: str
    probabilities: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        return {"label": self.label, "probabilities": self.probabilities}


class Run:
    """`Run.load(folder)` opens a run; nothing in the folder is executed."""

    def __init__(self, folder: Path | None, config: dict[str, Any], model: nn.Module | Fitted, words: Tokenizer | None):
        self.folder, self.config, self.model, self.tokenizer = folder, config, model, words
        self.settings: Settings = settings_of(config)
        self.labels: list[str] = config["labels"]
        if isinstance(model, nn.Module):
            model.eval()

    @classmethod
    def load(cls, folder: str | Path) -> Run:
        folder = Path(folder)
        config = read_config(folder)
        settings = settings_of(config)
        if not (folder / "model.safetensors").is_file():
            raise UserError(f"{folder} holds no trained weights yet: train it further with --resume --out {folder}")
        if isinstance(settings.model, Fits):
            return cls(folder, config, settings.model.load(folder), None)
        model = settings.model.build(config["vocab"], len(config["labels"]))
        load_weights(model, folder / "model.safetensors")
        words = Tokenizer.load(folder)
        if words.size != config["vocab"]:
            raise UserError(f"{folder}/tokenizer.json has {words.size} tokens, and the model knows {config['vocab']}")
        return cls(folder, config, model, words)

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
                atomic.replace(target / name, content)
        if self.tokenizer is not None:
            self.tokenizer.save(target)
        atomic.replace(target / "README.md", card(self.config).encode())
        write_config(target, self.config)
        return target

    @property
    def text_column(self) -> str | None:
        """The column that training read, named or guessed."""
        return self.settings.data.text or self._columns[0]

    @property
    def _columns(self) -> list[str | None]:
        return self.config["data"]["train"].get("columns") or [None, None]

    @property
    def metrics(self) -> dict[str, float]:
        """On the validation part, of the model kept."""
        return self.config.get("metrics", {})

    def probabilities(self, texts: Sequence[str], say: Callable[[str], Any] = _silent) -> np.ndarray:
        """p(class) for each text, (n, classes). `say` is told where texts were too long to be read whole."""
        if not len(texts):
            return np.zeros((0, len(self.labels)), np.float32)
        if not isinstance(self.model, nn.Module):
            return self.model.probabilities(list(texts))
        assert self.tokenizer is not None
        found = documents.encode(texts, self.tokenizer, max_tokens=self.settings.data.max_tokens)
        if found.cut:
            say(f"{found.cut:,} of {len(texts):,} texts were cut at {self.settings.data.max_tokens} tokens")
        return classify.probabilities(self.model, found)

    @overload
    def predict(self, text: str, say: Callable[[str], Any] = ...) -> Prediction: ...
    @overload
    def predict(self, text: Sequence[str], say: Callable[[str], Any] = ...) -> list[Prediction]: ...
    def predict(self, text: str | Sequence[str], say: Callable[[str], Any] = _silent) -> Prediction | list[Prediction]:
        """The class of a text, or of each of several."""
        texts = [text] if isinstance(text, str) else list(text)
        said = []
        for row in self.probabilities(texts, say):
            chances = {label: float(p) for label, p in zip(self.labels, row, strict=True)}
            said.append(Prediction(max(chances, key=chances.__getitem__), chances))
        return said[0] if isinstance(text, str) else said

    def evaluate(
        self,
        data: str | Path | Table,
        *,
        text: str | None = None,
        label: str | None = None,
        say: Callable[[str], Any] = print,
    ) -> dict[str, Any]:
        """Accuracy, macro-F1 and loss on a file. Columns are those of training unless named."""
        data_settings = self.settings.data
        table = data
        if not isinstance(table, Table):
            text, label = text or self.text_column, label or data_settings.label or self._columns[1]
            table = read(Path(table), text=text, label=label)
        for note in table.notes:
            say(note)
        truth = numbers(table.labels or [], self.labels, "" if isinstance(data, Table) else str(data))
        return {"rows": len(table.texts), **classify.metrics(self.probabilities(table.texts, say), truth)}

    def look(self, text: str, *, evidence: list[tuple[int, int]] | None = None, faithful: bool = True):
        """A page that shows what the model looks at in this text; in a notebook it shows itself."""
        from regard.runs.look import look

        return look(self, text, evidence=evidence, faithful=faithful)

    def __repr__(self) -> str:
        reached = ", ".join(f"{k} {v:.4f}" for k, v in self.metrics.items())
        return (
            f"Run({self.settings.model_name} for {self.settings.task}, {self.folder}; validation: {reached or 'none'})"
        )
