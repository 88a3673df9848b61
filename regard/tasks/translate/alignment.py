"""Word alignment by attention.

The decoder reads the chosen translation once more, [BOS] w_1 .. w_n, and its attention to the source is recorded. Row t
is computed while the model predicts w_{t+1}, in a Transformer as in both recurrent decoders.

A word of the translation is aligned with the word of the source that has most of its weight, heads averaged. In a
Transformer the last layer but one is used, which usually aligns best (Garg et al. 2019, section 3.2).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch

from regard.data import batches
from regard.data.parallel_text import add_leading_space, read_lines
from regard.data.token_properties import token_bytes
from regard.data.tokenizer import BOS, UNK, Tokenizer
from regard.errors import UserError
from regard.inspect import find_attention_layers, record

if TYPE_CHECKING:
    from regard.tasks.translate.run import Alignment, Translator

BATCH_TOKENS = 4096
LayerWeights = dict[str, np.ndarray]
"""Layer name to weights (heads, target tokens, source tokens)."""


def cross_attention_layers(run: Translator) -> list[str]:
    """Names of the layers that attend to the source, first layer first."""
    names = list(find_attention_layers(run.model))
    cross = [name for name in names if name.endswith("cross_attention.attend")]
    return cross or [name for name in names if name.startswith("decoder.")]


def alignment_layer(run: Translator) -> str:
    """Name of the layer that is used for alignment."""
    names = cross_attention_layers(run)
    return names[max(0, len(names) - 2)]


@torch.no_grad()
def record_cross_attention(
    run: Translator, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> list[LayerWeights]:
    """The attention of each target token to the source tokens.

    Args:
        run: The translator.
        sources: Token ids of the sources, with their end.
        targets: Token ids of the targets, without their end.
    """
    layers, results = cross_attention_layers(run), [{} for _ in sources]
    lengths = [len(source) + len(target) for source, target in zip(sources, targets, strict=True)]
    for indices in batches.plan_batches(lengths, BATCH_TOKENS, seed=0, epoch=0, shuffle=False):
        source, mask = batches.pad_rows([sources[i] for i in indices])
        target, _ = batches.pad_rows([[BOS, *targets[i]] for i in indices])
        with record(run.model, layers) as recording:
            run.model(torch.from_numpy(source), torch.from_numpy(target), source_mask=torch.from_numpy(mask))
        for layer in layers:
            calls = [call.weights for call in recording.calls_of(layer)]  # one for each step, or one for all
            weights = torch.cat(calls, 2).numpy()
            for row, i in enumerate(indices):
                results[i][layer] = weights[row, :, : len(targets[i]), : len(sources[i])]
    return results


def align_pairs(
    run: Translator,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    source_words: Sequence[Sequence[int]],
    target_words: Sequence[Sequence[int]],
) -> list[Alignment]:
    """Align the words of each pair.

    Args:
        run: The translator.
        sources: Token ids of the sources, with their end.
        targets: Token ids of the targets, without their end.
        source_words: Word of each source token (`text_word_ids`).
        target_words: Word of each target token (`text_word_ids` or `target_word_ids`).
    """
    layer = alignment_layer(run)
    return [
        align_words(weights[layer].mean(0)[:, :-1], source, target)
        for weights, source, target in zip(
            record_cross_attention(run, sources, targets), source_words, target_words, strict=True
        )
    ]


def align_words(weights: np.ndarray, source_words: Sequence[int], target_words: Sequence[int]) -> Alignment:
    """Align each target word with the source word of the largest weight.

    Args:
        weights: Attention of target tokens to source tokens, (n, m).
        source_words: Word of each source token, (m,).
        target_words: Word of each target token, (n,).
    """
    if not len(source_words) or not len(target_words):
        return []
    word_weights = np.zeros((max(target_words) + 1, max(source_words) + 1))
    np.add.at(word_weights, (np.asarray(target_words)[:, None], np.asarray(source_words)[None]), weights)
    return [(int(row.argmax()), word) for word, row in enumerate(word_weights) if row.sum() > 0]


def format_pharaoh(alignment: Alignment) -> str:
    """Format an alignment as `0-0 1-2`: word of the source, word of the target."""
    return " ".join(f"{source}-{target}" for source, target in sorted(alignment))


def read_pharaoh(path: str | Path, count: int) -> list[Alignment]:
    """Read a file of alignments, one line for each of `count` pairs."""
    lines, _ = read_lines(path)
    if len(lines) != count:
        raise UserError(f"{path} has {len(lines):,} lines of alignments for {count:,} pairs")
    alignments = []
    for number, line in enumerate(lines, 1):
        links = [re.fullmatch(r"(\d+)-(\d+)", link) for link in line.split()]
        if not all(links):
            raise UserError(f"{path}, line {number}: {line[:60]!r} is not of the form `0-0 1-2` (source-target)")
        alignments.append([(int(link[1]), int(link[2])) for link in links if link])
    return alignments


def alignment_recall(run: Translator, sources: Sequence[str], targets: Sequence[str], path: str | Path) -> float:
    """The fraction of the reference alignments in a file that attention finds, given the reference translations."""
    from regard.tasks.translate.run import encode_sources

    references = read_pharaoh(path, len(sources))
    source_ids, target_ids = (encode_sources(texts, run.tokenizer, run.max_tokens)[0] for texts in (sources, targets))
    words = (text_word_ids(texts, run.tokenizer, run.max_tokens) for texts in (sources, targets))
    alignments = align_pairs(run, source_ids, [row[:-1] for row in target_ids], *words)
    correct = sum(
        link in set(alignment) for alignment, links in zip(alignments, references, strict=True) for link in links
    )
    return correct / max(1, sum(map(len, references)))


def text_word_ids(texts: Sequence[str], tokenizer: Tokenizer, max_tokens: int | None = None) -> list[list[int]]:
    """The word of each token of each text. Words are separated by spaces.

    A token that is only a space belongs to the word after it, if there is one.

    Args:
        texts: The texts.
        tokenizer: The tokenizer.
        max_tokens: Only the first tokens of a text.
    """
    lines = [add_leading_space(text, tokenizer) if text.strip() else "" for text in texts]
    word_ids = []
    for line, encoding in zip(lines, tokenizer.encode_batch_raw(lines), strict=True):
        ends = [word.end() for word in re.finditer(r"[^ \t\n\r]+", line)]
        starts = [start for start, _ in encoding.offsets[:max_tokens]]
        words = np.searchsorted(ends, starts, side="right")
        word_ids.append(np.minimum(words, max(len(ends) - 1, 0)).tolist())
    return word_ids


def target_word_ids(rows: Sequence[Sequence[int]], tokenizer: Tokenizer) -> list[list[int]]:
    """The word of each token of translations, in the text that they decode to.

    [UNK] is a letter where tokens are characters, and a word where tokens are words.
    """
    raw = token_bytes(tokenizer)
    raw[UNK] = b"?"
    if tokenizer.kind in ("words", "spaces"):
        raw = [b" " + token for token in raw]
    return [_word_ids_of_bytes([raw[id] for id in ids]) for ids in rows]


def _word_ids_of_bytes(tokens: Sequence[bytes]) -> list[int]:
    """The word in which each token has its first letter."""
    word_ids, count, in_word = [], 0, False
    for token in tokens:
        first = None
        for byte in token:
            space = byte in b" \t\n\r"
            if not space and not in_word:
                count += 1
            in_word = not space
            if in_word and first is None:
                first = count
        word_ids.append(count if first is None else first - 1)
    return [min(word, max(count - 1, 0)) for word in word_ids]
