"""A trained run in Python: predict, evaluate, look, save and load."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from regard.data import documents
from regard.data.read import Table, read
from regard.data.tokenizer import Tokenizer
from regard.errors import UserError
from regard.models.bag import BagOfWords
from regard.runs.folder import read_config, settings_of
from regard.runs.prepare import numbers
from regard.settings import Settings
from regard.tasks import classify
from regard.training.checkpoint import load_weights


@dataclass(frozen=True)
class Prediction:
    """The class with the highest probability, and the probability of each."""

    label: str
    probabilities: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        return {"label": self.label, "probabilities": self.probabilities}


class Run:
    """`Run.load(folder)` opens a run; nothing in the folder is executed."""

    def __init__(
        self, folder: Path | None, config: dict[str, Any], model: nn.Module | BagOfWords, words: Tokenizer | None
    ):
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
        if settings.model_name == "tfidf":
            return cls(folder, config, BagOfWords.load(folder, settings.model), None)
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
        if self.folder is None:
            raise UserError("this run has no folder of its own to copy from")
        target.mkdir(parents=True, exist_ok=True)
        for name in ("config.json", "model.safetensors", "tokenizer.json", "README.md"):
            if (self.folder / name).is_file() and target.resolve() != self.folder.resolve():
                shutil.copyfile(self.folder / name, target / name)
        return target

    @property
    def metrics(self) -> dict[str, float]:
        """On the validation part, of the model kept."""
        return self.config.get("metrics", {})

    def probabilities(self, texts: Sequence[str]) -> np.ndarray:
        """p(class) for each text, (n, classes)."""
        if not len(texts):
            return np.zeros((0, len(self.labels)), np.float32)
        if isinstance(self.model, BagOfWords):
            return self.model.probabilities(list(texts))
        assert self.tokenizer is not None
        found = documents.encode(texts, self.tokenizer, max_tokens=self.settings.data.max_tokens)
        return classify.probabilities(self.model, found)

    def predict(self, text: str | Sequence[str]) -> Prediction | list[Prediction]:
        """The class of a text, or of each of several."""
        texts = [text] if isinstance(text, str) else list(text)
        said = []
        for row in self.probabilities(texts):
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
            table = read(Path(table), text=text or data_settings.text, label=label or data_settings.label)
        for note in table.notes:
            say(note)
        truth = numbers(table.labels or [], self.labels, "" if isinstance(data, Table) else str(data))
        return {"rows": len(table.texts), **classify.metrics(self.probabilities(table.texts), truth)}

    def look(self, text: str, *, evidence: list[tuple[int, int]] | None = None, faithful: bool = True):
        """A page that shows what the model looks at in this text; in a notebook it shows itself."""
        from regard.runs.look import look

        return look(self, text, evidence=evidence, faithful=faithful)

    def __repr__(self) -> str:
        reached = ", ".join(f"{k} {v:.4f}" for k, v in self.metrics.items())
        return (
            f"Run({self.settings.model_name} for {self.settings.task}, {self.folder}; validation: {reached or 'none'})"
        )
