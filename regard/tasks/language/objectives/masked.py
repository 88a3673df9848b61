"""Hidden words (Devlin et al. 2019, section 3.1 and appendix A.1).

A share `rate` of the words of each window, a fixed number, is chosen; of these 80 % become [MASK], 10 % another word
and 10 % stay; the model names what stood there. With `whole_words` all parts of a word are chosen together. With
`next_sentence` rows are pairs of sentences, and a second term asks whether the second follows the first.

On the validation part the chosen places hang on the text's place alone and all of them are [MASK], so that what is
measured is the missing word.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from regard.data import counter_rng
from regard.data.corpus import Corpus
from regard.data.tokenizer import MASK, SPECIAL_TOKENS
from regard.data.vocabulary import Vocabulary
from regard.errors import UserError
from regard.tasks.language.objectives import next_sentence, sliding_window
from regard.tasks.language.objectives.token_objective import TokenObjective, WordBatch, tensor
from regard.training.objective import LossTerm

HIDDEN, SWAPPED = 0.8, 0.1
_CHOOSE, _CHANGE, _OTHER = 1, 2, 3  # what chances are for
_VALID = 2**32 - 1  # an epoch that training never reaches


@dataclass(frozen=True)
class MaskedConfig:
    rate: float = 0.15
    whole_words: bool = False
    next_sentence: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.rate < 1:
            raise UserError(f"corruption.rate is a share between 0 and 1, and was given {self.rate}")


class MaskedObjective(TokenObjective):
    config_class = MaskedConfig
    models = ("bert",)

    def __init__(self, config: MaskedConfig, vocabulary: Vocabulary, *, block: int, stride: int, rows: int, seed: int):
        self.config, self.vocabulary, self.block, self.rows, self.seed = config, vocabulary, block, rows, seed
        self.length = self.step = next_sentence.length(block) if config.next_sentence else block
        self._bounds: dict[int, np.ndarray] = {}

    def batch(self, corpus: Corpus, starts: np.ndarray, items: np.ndarray, epoch: int) -> WordBatch:
        if not self.config.next_sentence:
            return self._hidden(corpus.read(starts, self.length), items, epoch)
        made = next_sentence.pairs(
            corpus, self._borders(corpus), starts, items, self.block, self.vocabulary, self.seed, epoch
        )
        return self._hidden(made.ids, items, epoch, made)

    def _borders(self, corpus: Corpus) -> np.ndarray:
        """First tokens of documents, of which there may be millions: asked for once."""
        if id(corpus) not in self._bounds:
            self._bounds[id(corpus)] = corpus.document_starts()
        return self._bounds[id(corpus)]

    def _hidden(
        self, ids: np.ndarray, items: np.ndarray, epoch: int, pair: next_sentence.Pairs | None = None
    ) -> WordBatch:
        chosen = choose(ids, self.vocabulary, self.config, self.seed, epoch, items)
        if epoch == _VALID:
            changed = np.where(chosen, MASK, ids)
        else:
            changed = change(ids, chosen, self.vocabulary.vocab_size, self.seed, epoch, items)
        places = np.flatnonzero(chosen)
        return WordBatch(
            tensor(changed),
            tensor(ids.reshape(-1)[places]),
            tensor(places),
            None if pair is None else tensor(pair.segments),
            None if pair is None else tensor(pair.follows),
        )

    def loss(self, model: nn.Module, batch: WordBatch) -> Mapping[str, LossTerm]:
        words, follows = model(batch.ids, segments=batch.segments, logits_at=batch.places)
        terms = {"words": LossTerm(F.cross_entropy(words, batch.targets, reduction="sum"))}
        if batch.follows is not None:
            terms["next"] = LossTerm(F.cross_entropy(follows, batch.follows, reduction="sum"))
        return terms

    @torch.no_grad()
    def evaluate(self, model: nn.Module, corpus: Corpus) -> dict[str, float]:
        """Of the missing words, and of the sentences that follow, each apart."""
        device, count = sliding_window.device_of(model), corpus.num_tokens // self.length
        nats = right = words = next_nats = next_right = 0.0
        for i in range(0, count, self.rows):
            items = np.arange(i, min(i + self.rows, count))
            batch = self.batch(corpus, items * self.length, items, _VALID)
            given = [t if t is None else t.to(device) for t in (batch.ids, batch.segments, batch.places)]
            found, follows = model(given[0], segments=given[1], logits_at=given[2])
            truth = batch.targets.to(device)
            nats += F.cross_entropy(found.float(), truth, reduction="none").double().sum().item()
            right += int((found.argmax(-1) == truth).sum())
            words += len(truth)
            if batch.follows is not None:
                said = batch.follows.to(device)
                next_nats += F.cross_entropy(follows.float(), said, reduction="none").double().sum().item()
                next_right += int((follows.argmax(-1) == said).sum())
        scored = sliding_window.Scored(nats, int(right), int(words))
        metrics = {"loss": scored.loss, "perplexity": scored.perplexity, "accuracy": scored.accuracy}
        if self.config.next_sentence:
            metrics |= {"next_loss": next_nats / max(count, 1), "next_accuracy": next_right / max(count, 1)}
        return metrics

    @staticmethod
    def unused_parameters(config: MaskedConfig, model: nn.Module) -> list[nn.Parameter]:
        """Without pairs of sentences nothing asks which follows."""
        names = () if config.next_sentence else ("pooler.", "next_sentence.")
        return [p for name, p in model.named_parameters() if name.startswith(names)]


def choose(
    ids: np.ndarray, vocabulary: Vocabulary, config: MaskedConfig, seed: int, epoch: int, items: np.ndarray
) -> np.ndarray:
    """Which places of (b, n) are hidden: the share `rate` of each row's words, to the nearest whole one, at least one.

    Every word gets a number by chance, and those with the lowest are taken. Parts of a word share the number of its
    first part with `whole_words`; then words are taken as long as their middle lies within the share.
    """
    number = counter_rng.uniform(seed, epoch, _CHOOSE, items, ids.shape[1])
    word = vocabulary.is_word[ids]
    rows = np.arange(len(ids))[:, None]
    if config.whole_words:
        begins = vocabulary.find_word_starts(ids) | ~word
        begins[:, 1:] |= ~word[:, :-1]
        first = np.maximum.accumulate(np.where(begins, np.arange(ids.shape[1]), 0), 1)
        number = number[rows, first]
    number = np.where(word, number, 2.0)
    wanted = np.maximum(np.rint(config.rate * word.sum(1, keepdims=True)), 1)
    order = np.argsort(number, 1, kind="stable")
    rank = np.empty_like(order)
    rank[rows, order] = np.arange(ids.shape[1])
    if not config.whole_words:
        return word & (rank < wanted)
    sorted_first = first[rows, order]
    fresh = np.concatenate([np.ones((len(ids), 1), bool), sorted_first[:, 1:] != sorted_first[:, :-1]], 1)
    place = np.arange(ids.shape[1])
    head = np.maximum.accumulate(np.where(fresh, place, 0), 1)
    following = np.where(fresh, place, ids.shape[1])
    tail = np.minimum.accumulate(following[:, ::-1], 1)[:, ::-1]
    tail = np.concatenate([tail[:, 1:], np.full((len(ids), 1), ids.shape[1])], 1)  # where the next word begins
    taken = (head == 0) | (head + tail < 2 * wanted)
    return word & taken[rows, rank]


def change(ids: np.ndarray, chosen: np.ndarray, vocab: int, seed: int, epoch: int, items: np.ndarray) -> np.ndarray:
    """Of the chosen places 80 % [MASK], 10 % a word by chance, 10 % as they were."""
    what = counter_rng.uniform(seed, epoch, _CHANGE, items, ids.shape[1])
    other = counter_rng.uniform(seed, epoch, _OTHER, items, ids.shape[1])
    swapped = len(SPECIAL_TOKENS) + counter_rng.scale_to_int(vocab - len(SPECIAL_TOKENS), other)
    new = np.where(what < HIDDEN, MASK, np.where(what < HIDDEN + SWAPPED, swapped, ids))
    return np.where(chosen, new, ids)
