"""Predict masked tokens (Devlin et al. 2019, section 3.1 and appendix A.1).

A fixed fraction `rate` of the words of each window is chosen. Of these 80 % become [MASK], 10 % another token and 10 %
stay as they are; the model predicts the original token. With `whole_words` all tokens of a word are chosen together.
With `next_sentence` rows are pairs of sentences, and a second loss term is whether the second follows the first.

In evaluation the choice depends on the position in the text only, and all chosen tokens are [MASK].
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from regard.config.validation import check_between_0_and_1
from regard.data import counter_rng
from regard.data.corpus import Corpus
from regard.data.token_properties import TokenProperties
from regard.data.tokenizer import MASK, SPECIAL_TOKENS
from regard.tasks.language.objectives import next_sentence
from regard.tasks.language.objectives.sliding_window import ScoreTotals, get_device
from regard.tasks.language.objectives.token_objective import VALIDATION_EPOCH, TokenBatch, TokenObjective, to_tensor
from regard.training.objective import LossTerm

MASK_FRACTION, REPLACE_FRACTION = 0.8, 0.1
_CHOOSE, _CORRUPT, _REPLACE = 1, 2, 3  # random streams


@dataclass(frozen=True)
class MaskedConfig:
    """Settings of the masked objective.

    Attributes:
        rate: Fraction of the words that are chosen.
        whole_words: Whether all tokens of a word are chosen together.
        next_sentence: Whether rows are pairs of sentences, with next-sentence prediction.
    """

    rate: float = 0.15
    whole_words: bool = False
    next_sentence: bool = False

    def __post_init__(self) -> None:
        check_between_0_and_1("corruption.rate", self.rate)


class MaskedObjective(TokenObjective):
    """Prediction of masked tokens, and of whether the second sentence follows the first."""

    config_class = MaskedConfig
    models = ("bert",)

    def __init__(
        self,
        config: MaskedConfig,
        vocabulary: TokenProperties,
        *,
        block_size: int,
        stride: int,
        batch_size: int,
        seed: int,
    ):
        self.config, self.vocabulary, self.seed = config, vocabulary, seed
        self.block_size, self.batch_size = block_size, batch_size
        self.length = self.step = next_sentence.text_length(block_size) if config.next_sentence else block_size
        self._document_starts: dict[int, np.ndarray] = {}

    def batch(self, corpus: Corpus, starts: np.ndarray, items: np.ndarray, epoch: int) -> TokenBatch:
        if not self.config.next_sentence:
            return self._mask(corpus.read(starts, self.length), items, epoch)
        if id(corpus) not in self._document_starts:  # there may be millions of documents
            self._document_starts[id(corpus)] = corpus.document_starts()
        documents = self._document_starts[id(corpus)]
        pairs = next_sentence.build_pairs(
            corpus, documents, starts, items, self.block_size, self.vocabulary, self.seed, epoch
        )
        return self._mask(pairs.ids, items, epoch, pairs)

    def _mask(
        self, ids: np.ndarray, items: np.ndarray, epoch: int, pairs: next_sentence.SentencePairs | None = None
    ) -> TokenBatch:
        chosen = choose_tokens(ids, self.vocabulary, self.config, self.seed, epoch, items)
        if epoch == VALIDATION_EPOCH:
            corrupted = np.where(chosen, MASK, ids)
        else:
            corrupted = corrupt_tokens(ids, chosen, self.vocabulary.vocab_size, self.seed, epoch, items)
        logits_at = np.flatnonzero(chosen)
        return TokenBatch(
            to_tensor(corrupted),
            to_tensor(ids.reshape(-1)[logits_at]),
            to_tensor(logits_at),
            None if pairs is None else to_tensor(pairs.segments),
            None if pairs is None else to_tensor(pairs.is_next),
        )

    def loss(self, model: nn.Module, batch: TokenBatch) -> Mapping[str, LossTerm]:
        token_logits, next_logits = model(batch.ids, segments=batch.segments, logits_at=batch.logits_at)
        terms = {"words": LossTerm(F.cross_entropy(token_logits, batch.targets, reduction="sum"))}
        if batch.is_next is not None:
            terms["next"] = LossTerm(F.cross_entropy(next_logits, batch.is_next, reduction="sum"))
        return terms

    @torch.no_grad()
    def evaluate(self, model: nn.Module, corpus: Corpus) -> dict[str, float]:
        """Loss, perplexity and accuracy of the masked tokens; loss and accuracy of the next sentence."""
        device, count = get_device(model), corpus.num_tokens // self.length
        nats = correct = num_tokens = next_nats = next_correct = 0.0
        for i in range(0, count, self.batch_size):
            items = np.arange(i, min(i + self.batch_size, count))
            batch = self.batch(corpus, items * self.length, items, VALIDATION_EPOCH)
            inputs = (batch.ids, batch.segments, batch.logits_at)
            ids, segments, logits_at = (None if tensor is None else tensor.to(device) for tensor in inputs)
            token_logits, next_logits = model(ids, segments=segments, logits_at=logits_at)
            targets = batch.targets.to(device)
            nats += F.cross_entropy(token_logits.float(), targets, reduction="none").double().sum().item()
            correct += int((token_logits.argmax(-1) == targets).sum())
            num_tokens += len(targets)
            if batch.is_next is not None:
                is_next = batch.is_next.to(device)
                next_nats += F.cross_entropy(next_logits.float(), is_next, reduction="none").double().sum().item()
                next_correct += int((next_logits.argmax(-1) == is_next).sum())
        totals = ScoreTotals(nats, int(correct), int(num_tokens))
        metrics = {"loss": totals.loss, "perplexity": totals.perplexity, "accuracy": totals.accuracy}
        if self.config.next_sentence:
            metrics |= {"next_loss": next_nats / max(count, 1), "next_accuracy": next_correct / max(count, 1)}
        return metrics

    @staticmethod
    def unused_parameters(config: MaskedConfig, model: nn.Module) -> list[nn.Parameter]:
        """Without pairs of sentences: the parameters for the next sentence."""
        names = () if config.next_sentence else ("pooler.", "next_sentence.")
        return [p for name, p in model.named_parameters() if name.startswith(names)]


def choose_tokens(
    ids: np.ndarray, vocabulary: TokenProperties, config: MaskedConfig, seed: int, epoch: int, items: np.ndarray
) -> np.ndarray:
    """Choose the tokens to predict: the fraction `rate` of each row, rounded, at least one.

    Every token gets a random number, and those with the lowest are chosen. With `whole_words` the tokens of a word have
    the number of its first token, and words are chosen as long as their middle is within the fraction.

    Args:
        ids: Token ids, (b, n).
        vocabulary: The vocabulary. Special tokens are never chosen.
        config: The settings.
        seed, epoch, items: What the random numbers depend on.

    Returns:
        True for the chosen tokens, (b, n).
    """
    random = counter_rng.uniform(seed, epoch, _CHOOSE, items, ids.shape[1])
    is_word = vocabulary.is_word[ids]
    rows = np.arange(len(ids))[:, None]
    if config.whole_words:
        starts_word = vocabulary.find_word_starts(ids) | ~is_word
        starts_word[:, 1:] |= ~is_word[:, :-1]
        word_start = np.maximum.accumulate(np.where(starts_word, np.arange(ids.shape[1]), 0), 1)
        random = random[rows, word_start]
    random = np.where(is_word, random, 2.0)
    count = np.maximum(np.rint(config.rate * is_word.sum(1, keepdims=True)), 1)
    order = np.argsort(random, 1, kind="stable")
    rank = np.empty_like(order)
    rank[rows, order] = np.arange(ids.shape[1])
    if not config.whole_words:
        return is_word & (rank < count)
    # in the random order: the first and the last rank of each word
    sorted_start = word_start[rows, order]
    is_first = np.concatenate([np.ones((len(ids), 1), bool), sorted_start[:, 1:] != sorted_start[:, :-1]], 1)
    position = np.arange(ids.shape[1])
    head = np.maximum.accumulate(np.where(is_first, position, 0), 1)
    next_head = np.where(is_first, position, ids.shape[1])
    tail = np.minimum.accumulate(next_head[:, ::-1], 1)[:, ::-1]
    tail = np.concatenate([tail[:, 1:], np.full((len(ids), 1), ids.shape[1])], 1)  # where the next word starts
    chosen = (head == 0) | (head + tail < 2 * count)
    return is_word & chosen[rows, rank]


def corrupt_tokens(
    ids: np.ndarray, chosen: np.ndarray, vocab_size: int, seed: int, epoch: int, items: np.ndarray
) -> np.ndarray:
    """Replace 80 % of the chosen tokens by [MASK] and 10 % by random tokens."""
    action = counter_rng.uniform(seed, epoch, _CORRUPT, items, ids.shape[1])
    random = counter_rng.uniform(seed, epoch, _REPLACE, items, ids.shape[1])
    replacement = len(SPECIAL_TOKENS) + counter_rng.scale_to_int(vocab_size - len(SPECIAL_TOKENS), random)
    kept_or_replaced = np.where(action < MASK_FRACTION + REPLACE_FRACTION, replacement, ids)
    return np.where(chosen, np.where(action < MASK_FRACTION, MASK, kept_or_replaced), ids)
