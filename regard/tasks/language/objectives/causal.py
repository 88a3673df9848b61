"""Predict the next token: P(w_1 .. w_n) = Π_t P(w_t | w_1 .. w_{t-1})  (Bengio et al. 2003; Radford et al. 2018, eq. 1)

Each position of a window is a prediction. In evaluation a sliding window scores every token once; the first one follows
an [EOS], like the first token of a document in training.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch.nn.functional as F
from torch import nn

from regard.data.corpus import Corpus
from regard.data.token_properties import TokenProperties
from regard.data.tokenizer import EOS
from regard.tasks.language.objectives import sliding_window
from regard.tasks.language.objectives.token_objective import TokenBatch, TokenObjective, to_tensor
from regard.training.objective import LossTerm


@dataclass(frozen=True)
class CausalConfig:
    """The causal objective has no settings."""


class CausalObjective(TokenObjective):
    """Next-token prediction."""

    config_class = CausalConfig
    models = ("gpt", "ngram-gpt", "cnn")
    uses_sliding_window = True

    def __init__(
        self,
        config: CausalConfig,
        vocabulary: TokenProperties,
        *,
        block_size: int,
        stride: int,
        batch_size: int,
        seed: int,
    ):
        self.vocabulary, self.block_size, self.stride, self.batch_size = vocabulary, block_size, stride, batch_size
        self._text_sizes: dict[int, tuple[int, int, int]] = {}
        self.length, self.step = block_size + 1, block_size  # the last token of a window is the first of the next one

    def batch(self, corpus: Corpus, starts: np.ndarray, items: np.ndarray, epoch: int) -> TokenBatch:
        ids = corpus.read(starts, self.length)
        return TokenBatch(to_tensor(ids[:, :-1]), to_tensor(ids[:, 1:]))

    def loss(self, model: nn.Module, batch: TokenBatch) -> Mapping[str, LossTerm]:
        if getattr(model, "adaptive", None) is not None:  # adaptive softmax does not need the logits of all tokens
            return {"words": LossTerm(model(batch.ids, targets=batch.targets).sum())}
        logits = model(batch.ids)
        return {"words": LossTerm(F.cross_entropy(logits.flatten(0, 1), batch.targets.flatten(), reduction="sum"))}

    def evaluate(self, model: nn.Module, corpus: Corpus) -> dict[str, float]:
        """Loss per token, perplexity, fraction of unknown tokens, and bits per character and byte."""
        lead = self.block_size - self.stride
        windows = sliding_window.read_windows(corpus, self.block_size, self.stride, lead, self.batch_size)
        inputs = ((_previous_tokens(corpus, starts, ids), ids, scored) for starts, ids, scored in windows)
        totals = sliding_window.score_windows(model, inputs)
        return {
            "loss": totals.loss,
            "perplexity": totals.perplexity,
            **totals.unknown_fraction(self.vocabulary.kind),
            **text_metrics(totals.nats, self.vocabulary.kind, *self._measure_text(corpus)),
        }

    def _measure_text(self, corpus: Corpus) -> tuple[int, int, int]:
        """Characters, bytes and words of a text, computed once."""
        if id(corpus) not in self._text_sizes:
            self._text_sizes[id(corpus)] = self.vocabulary.measure_text(corpus)
        return self._text_sizes[id(corpus)]


def text_metrics(nats: float, kind: str, characters: int, num_bytes: int, words: int) -> dict[str, float]:
    """Metrics that do not depend on the tokenizer.

    Args:
        nats: The loss of the whole text.
        kind: The kind of the tokenizer.
        characters: Characters of the text.
        num_bytes: Bytes of the text.
        words: Words between spaces, and line ends.

    Returns:
        Bits per character and per byte, if the tokens spell the text; perplexity per word, exp(nats / words).
    """
    metrics = {}
    if kind in ("bpe", "chars") and characters:
        metrics |= {"bits_per_character": nats / np.log(2) / characters, "bits_per_byte": nats / np.log(2) / num_bytes}
    if kind != "words" and words:
        metrics["word_perplexity"] = float(np.exp(min(nats / words, 700.0)))
    return {name: float(value) for name, value in metrics.items()}


def _previous_tokens(corpus: Corpus, starts: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """The token before each token of the windows."""
    first = corpus.read(np.maximum(starts - 1, 0), 1)
    first[starts == 0] = EOS
    return np.concatenate([first, ids[:, :-1]], 1)
