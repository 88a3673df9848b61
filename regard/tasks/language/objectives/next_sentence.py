"""Pairs of sentences; the second follows the first or comes from elsewhere (Devlin et al. 2019, 3.1, task 2).

    [BOS] A [SEP] B [SEP]      segments 0 for the first three, 1 for the rest

As in the paper a "sentence" is a sequence of complete sentences: A ends where a sentence ends, if one does near the
middle, and not where a document ends. B is what follows in the text, or, in a random half of the rows, text that starts
with a sentence at least two blocks away.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regard.data import counter_rng
from regard.data.corpus import Corpus
from regard.data.token_properties import TokenProperties
from regard.data.tokenizer import BOS, SEP
from regard.errors import UserError

_SPLIT, _IS_NEXT, _START = 11, 12, 13  # random streams
NUM_MARKS = 3  # special tokens in a row
MIN_BLOCKS = 8  # blocks of text, so that there is text elsewhere


@dataclass(frozen=True)
class SentencePairs:
    """A batch of pairs.

    Attributes:
        ids: Token ids, (b, block_size).
        segments: 0 for A, 1 for B, (b, block_size).
        is_next: Whether B follows A, (b,).
    """

    ids: np.ndarray
    segments: np.ndarray
    is_next: np.ndarray


def text_length(block_size: int) -> int:
    """How many tokens of the text are in a row."""
    if block_size < NUM_MARKS + 8:
        raise UserError(f"corruption.next_sentence needs data.block_size of {NUM_MARKS + 8} or more, not {block_size}")
    return block_size - NUM_MARKS


def build_pairs(
    corpus: Corpus,
    document_starts: np.ndarray,
    starts: np.ndarray,
    items: np.ndarray,
    block_size: int,
    vocabulary: TokenProperties,
    seed: int,
    epoch: int,
) -> SentencePairs:
    """Build a batch.

    Args:
        corpus: The text.
        document_starts: The first token of each document.
        starts: The first token of each row.
        items: The numbers of the rows in this epoch.
        block_size: Tokens of a row, with the special tokens.
        vocabulary: The vocabulary.
        seed, epoch: What the random numbers depend on, besides `items`.
    """
    n, rows = text_length(block_size), np.arange(len(items))[:, None]
    if corpus.num_tokens < MIN_BLOCKS * block_size:
        raise UserError(
            f"corruption.next_sentence needs {MIN_BLOCKS} blocks ({MIN_BLOCKS * block_size:,} tokens) or more in each "
            f"part, but one has {corpus.num_tokens:,} tokens; lower data.block_size, or leave next_sentence out"
        )
    text = corpus.read(starts, n)
    random = counter_rng.uniform(seed, epoch, _SPLIT, items, n)
    split = _choose_split(document_starts, starts, text, vocabulary, random)[:, None]
    is_next = counter_rng.uniform(seed, epoch, _IS_NEXT, items, 1)[:, 0] < 0.5
    random = counter_rng.uniform(seed, epoch, _START, items, 1)[:, 0]
    other_text = corpus.read(_choose_distant_starts(corpus, starts, block_size, random), 2 * n)
    ends = vocabulary.ends_sentence[other_text[:, :n]]
    other_start = np.where(ends.any(1), ends.argmax(1) + 1, 0)[:, None]  # the first sentence that starts there

    position = np.arange(block_size)
    in_a, in_b = np.clip(position - 1, 0, n - 1), np.clip(position - split - 2, 0, n - 1)  # positions in A and in B
    b = np.where(is_next[:, None], text[rows, np.minimum(split + in_b, n - 1)], other_text[rows, other_start + in_b])
    ids = np.where(position <= split, text[rows, in_a[None]], b)
    ids[:, 0] = BOS
    ids[(position == split + 1) | (position == block_size - 1)] = SEP
    return SentencePairs(ids, (position > split + 1).astype(np.int64), is_next.astype(np.int64))


def _choose_split(
    document_starts: np.ndarray, starts: np.ndarray, text: np.ndarray, vocabulary: TokenProperties, random: np.ndarray
) -> np.ndarray:
    """How many tokens A has: between a quarter and three quarters, up to the end of a sentence if there is one."""
    n = text.shape[1]
    tokens = starts[:, None] + np.arange(n)
    nearest = np.minimum(np.searchsorted(document_starts, tokens), len(document_starts) - 1)
    starts_document = document_starts[nearest] == tokens
    after_sentence = np.concatenate([np.zeros((len(text), 1), bool), vocabulary.ends_sentence[text[:, :-1]]], 1)
    score = random + 2.0 * after_sentence - 4.0 * starts_document
    low, high = max(1, n // 4), max(2, n - n // 4)
    return low + score[:, low:high].argmax(1)


def _choose_distant_starts(corpus: Corpus, starts: np.ndarray, block_size: int, random: np.ndarray) -> np.ndarray:
    """Starts that are at least two blocks away, with two rows of text after them."""
    size, gap = corpus.num_tokens - 2 * block_size, 2 * block_size
    return (starts + gap + counter_rng.scale_to_int(size - 2 * gap, random)) % size
