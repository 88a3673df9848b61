"""The next word: P(w_1 .. w_n) = Π_t P(w_t | w_1 .. w_{t-1})   (Bengio et al. 2003; Radford et al. 2018, eq. 1)

Each window gives a prediction at every place. On the validation part every token is scored once by a sliding window,
the first one after [EOS], as a document's first word is in training.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch.nn.functional as F
from torch import nn

from regard.data.corpus import Corpus
from regard.data.tokenizer import EOS
from regard.data.vocabulary import Vocabulary
from regard.tasks.language.objectives import sliding_window
from regard.tasks.language.objectives.token_objective import TokenObjective, WordBatch, tensor
from regard.training.objective import LossTerm


@dataclass(frozen=True)
class CausalConfig:
    """There is nothing to choose."""


class CausalObjective(TokenObjective):
    config_class = CausalConfig
    models = ("gpt", "ngram-gpt", "cnn")
    uses_sliding_window = True

    def __init__(self, config: CausalConfig, vocabulary: Vocabulary, *, block: int, stride: int, rows: int, seed: int):
        self.vocabulary, self.block, self.stride, self.rows = vocabulary, block, stride, rows
        self._lengths: dict[int, tuple[int, int, int]] = {}
        self.length, self.step = block + 1, block  # a window's last token, only wanted, is the next one's first

    def batch(self, corpus: Corpus, starts: np.ndarray, items: np.ndarray, epoch: int) -> WordBatch:
        ids = corpus.read(starts, self.length)
        return WordBatch(tensor(ids[:, :-1]), tensor(ids[:, 1:]))

    def loss(self, model: nn.Module, batch: WordBatch) -> Mapping[str, LossTerm]:
        if getattr(model, "adaptive", None) is not None:  # which can do without the logits of all words
            return {"words": LossTerm(model(batch.ids, targets=batch.targets).sum())}
        logits = model(batch.ids)
        return {"words": LossTerm(F.cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), reduction="sum"))}

    def evaluate(self, model: nn.Module, corpus: Corpus) -> dict[str, float]:
        """Nats a token, perplexity, the share of tokens that are not known, and bits by the length of the text."""
        lead = self.block - self.stride
        parts = sliding_window.batches(corpus, self.block, self.stride, lead, self.rows)
        shifted = ((before(corpus, starts, ids), ids, scored) for starts, ids, scored in parts)
        found = sliding_window.score(at_places(model), sliding_window.device_of(model), shifted)
        return {
            "loss": found.loss,
            "perplexity": found.perplexity,
            **found.unknown(self.vocabulary.kind),
            **by_text(found.nats, self.vocabulary.kind, *self._text(corpus)),
        }

    def _text(self, corpus: Corpus) -> tuple[int, int, int]:
        """How long the text is, found out once."""
        if id(corpus) not in self._lengths:
            self._lengths[id(corpus)] = self.vocabulary.measure_text(corpus)
        return self._lengths[id(corpus)]


def before(corpus: Corpus, starts: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """What stands before each token of the windows."""
    first = corpus.read(np.maximum(starts - 1, 0), 1)
    first[starts == 0] = EOS
    return np.concatenate([first, ids[:, :-1]], 1)


def at_places(model: nn.Module) -> Any:
    return lambda ids, places: model(ids, logits_at=places)


def by_text(nats: float, kind: str, characters: int, size: int, words: int) -> dict[str, float]:
    """Bits per character and per byte, where tokens spell out the text; perplexity per word, also from parts of words:
    exp(nats / words), words being what stands between spaces, and line ends."""
    found = {}
    if kind in ("bpe", "chars") and characters:
        found |= {"bits_per_character": nats / np.log(2) / characters, "bits_per_byte": nats / np.log(2) / size}
    if kind != "words" and words:
        found["word_perplexity"] = float(np.exp(min(nats / words, 700.0)))
    return {name: float(value) for name, value in found.items()}
