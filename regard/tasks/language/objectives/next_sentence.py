"""Pairs of sentences, of which the second follows the first or comes from elsewhere (Devlin et al. 2019, 3.1, task 2).

    [BOS] A [SEP] B [SEP]      segments 0 for the first three, 1 for the rest

As in the paper a "sentence" is a stretch of whole sentences: A and B are cut where a sentence ends, if one does near
the middle, and where no document does. B is what follows in the text, or, for every second row by chance, a stretch
that begins with a sentence at least two blocks away.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regard.data import counter_rng
from regard.data.corpus import Corpus
from regard.data.tokenizer import BOS, SEP
from regard.data.vocabulary import Vocabulary
from regard.errors import UserError

_CUT, _FOLLOWS, _WHERE = 11, 12, 13
MARKS = 3  # special tokens in a row
LEAST = 8  # blocks of text, so that there is an elsewhere


@dataclass(frozen=True)
class Pairs:
    ids: np.ndarray  # (b, block)
    segments: np.ndarray  # (b, block)
    follows: np.ndarray  # (b,)


def length(block: int) -> int:
    """Tokens of the text in a row."""
    if block < MARKS + 8:
        raise UserError(f"pairs of sentences want data.block_size of {MARKS + 8} or more, and were given {block}")
    return block - MARKS


def pairs(
    corpus: Corpus,
    bounds: np.ndarray,
    starts: np.ndarray,
    items: np.ndarray,
    block: int,
    vocabulary: Vocabulary,
    seed: int,
    epoch: int,
) -> Pairs:
    """Rows whose first tokens are those at `starts`. `bounds` are the first tokens of the corpus's documents."""
    n, rows = length(block), np.arange(len(items))[:, None]
    if corpus.num_tokens < LEAST * block:
        raise UserError(
            f"sentences from elsewhere want a text of {LEAST} blocks ({LEAST * block:,} tokens) or more in each part, "
            f"and one has {corpus.num_tokens:,}; lower data.block_size, or leave next_sentence out"
        )
    text = corpus.read(starts, n)
    cut = _cut(bounds, starts, text, vocabulary, counter_rng.uniform(seed, epoch, _CUT, items, n))
    follows = counter_rng.uniform(seed, epoch, _FOLLOWS, items, 1)[:, 0] < 0.5
    elsewhere = corpus.read(
        _away(corpus, starts, block, counter_rng.uniform(seed, epoch, _WHERE, items, 1)[:, 0]), 2 * n
    )
    ends = vocabulary.ends_sentence[elsewhere[:, :n]]
    other = np.where(ends.any(1), ends.argmax(1) + 1, 0)[:, None]  # the first sentence that begins there

    place = np.arange(block)
    cut = cut[:, None]
    first, second = place - 1, place - cut - 2  # where a place stands in A, and in B
    in_b = np.clip(second, 0, n - 1)
    b = np.where(follows[:, None], text[rows, np.minimum(cut + in_b, n - 1)], elsewhere[rows, other + in_b])
    ids = np.where(place <= cut, text[rows, np.clip(first, 0, n - 1)[None]], b)
    ids[:, 0] = BOS
    ids[(place == cut + 1) | (place == block - 1)] = SEP
    return Pairs(ids, (place > cut + 1).astype(np.int64), follows.astype(np.int64))


def _cut(
    bounds: np.ndarray, starts: np.ndarray, text: np.ndarray, vocabulary: Vocabulary, number: np.ndarray
) -> np.ndarray:
    """How many tokens A has: between a quarter and three quarters, after a sentence's end where there is one."""
    n = text.shape[1]
    places = starts[:, None] + np.arange(n)
    begins = bounds[np.minimum(np.searchsorted(bounds, places), len(bounds) - 1)] == places  # another document
    after = np.concatenate([np.zeros((len(text), 1), bool), vocabulary.ends_sentence[text[:, :-1]]], 1)
    score = number + 2.0 * after - 4.0 * begins
    low, high = max(1, n // 4), max(2, n - n // 4)
    return low + score[:, low:high].argmax(1)


def _away(corpus: Corpus, starts: np.ndarray, block: int, number: np.ndarray) -> np.ndarray:
    """Starts of stretches that lie at least two blocks from these, with room for two rows of text."""
    room, gap = corpus.num_tokens - 2 * block, 2 * block
    return (starts + gap + counter_rng.scale_to_int(room - 2 * gap, number)) % room
