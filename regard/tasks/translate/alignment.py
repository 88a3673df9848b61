"""Which words belong together, by attention: the chosen translation is given to the model once more, whole, and what it
attends to is recorded. So weights are always those of the translation that was chosen, whichever beams there were.

Row t of the attention to the source is made while the word after place t is to be said: the decoder reads
[BOS] w_1 .. w_n, and row t explains w_{t+1}, in a Transformer as in both recurrent decoders.

A word of the translation is linked to the word of the source that has most of its weight, heads averaged. Of a
Transformer's layers the last but one is asked, which aligns best as a rule (Garg et al. 2019, section 3.2).
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
from regard.data.tokenizer import BOS, UNK, Tokenizer
from regard.data.vocabulary import token_bytes
from regard.errors import UserError
from regard.inspect import find_attention_layers, record

if TYPE_CHECKING:
    from regard.tasks.translate.run import Links, Translator

ROOM = 4096
Weights = dict[str, np.ndarray]
"""By site, (heads, words of the target, words of the source)."""


def sites(run: Translator) -> list[str]:
    """Where the source is attended to, the first layer first."""
    found = [name for name in find_attention_layers(run.model) if name.endswith("cross_attention.attend")]
    return found or [name for name in find_attention_layers(run.model) if name.startswith("decoder.")]


def speaking(run: Translator) -> str:
    """The site that is asked for links."""
    names = sites(run)
    return names[max(0, len(names) - 2)]


@torch.no_grad()
def attention(run: Translator, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> list[Weights]:
    """Of each pair of ids (the source with its end, the target without), what each target token attends to."""
    chosen, found = sites(run), [{} for _ in sources]
    lengths = [len(s) + len(t) for s, t in zip(sources, targets, strict=True)]
    for part in batches.plan_batches(lengths, ROOM, seed=0, epoch=0, shuffle=False):
        source, mask = batches.pad_rows([sources[i] for i in part])
        target, _ = batches.pad_rows([[BOS, *targets[i]] for i in part])
        masks = {"source_mask": torch.from_numpy(mask)}
        with record(run.model, chosen) as seen:
            run.model(torch.from_numpy(source), torch.from_numpy(target), **masks)
        for site in chosen:
            weights = torch.cat(
                [call.weights for call in seen.calls_of(site)], 2
            ).numpy()  # a call for each step, or one
            for row, i in enumerate(part):
                found[i][site] = weights[row, :, : len(targets[i]), : len(sources[i])]
    return found


def alignments(
    run: Translator,
    sources: Sequence[Sequence[int]],
    targets: Sequence[Sequence[int]],
    words: tuple[Sequence[Sequence[int]], Sequence[Sequence[int]]],
) -> list[Links]:
    """Pairs (word of the source, word of the target) of each; `words` say of both sides which word a token is part of
    (`word_numbers`, `said_numbers`)."""
    site, found = speaking(run), []
    for weights, source, target in zip(attention(run, sources, targets), *words, strict=True):
        found.append(links(weights[site].mean(0)[:, :-1], source, target))
    return found


def links(weights: np.ndarray, source_words: Sequence[int], target_words: Sequence[int]) -> Links:
    """Token weights (n, m) to the source word of greatest weight for each target word."""
    if not len(source_words) or not len(target_words):
        return []
    whole = np.zeros((max(target_words) + 1, max(source_words) + 1))
    np.add.at(whole, (np.asarray(target_words)[:, None], np.asarray(source_words)[None]), weights)
    return [(int(row.argmax()), word) for word, row in enumerate(whole) if row.sum() > 0]


def pharaoh(alignment: Links) -> str:
    """`0-0 1-2`: word of the source, word of the target."""
    return " ".join(f"{source}-{target}" for source, target in sorted(alignment))


def read_pharaoh(path: str | Path, count: int) -> list[Links]:
    """The links of each of so many lines."""
    rows, _ = read_lines(path)
    if len(rows) != count:
        raise UserError(f"{path} has {len(rows):,} lines of alignments for {count:,} pairs")
    found = []
    for number, row in enumerate(rows, 1):
        pairs = [re.fullmatch(r"(\d+)-(\d+)", pair) for pair in row.split()]
        if not all(pairs):
            raise UserError(f"{path}, line {number}: {row[:60]!r} is not of the form `0-0 1-2` (source-target)")
        found.append([(int(pair[1]), int(pair[2])) for pair in pairs if pair])
    return found


def aligned(run: Translator, sources: Sequence[str], targets: Sequence[str], path: str | Path) -> float:
    """The share of the true links in a file that attention finds when it is given the references."""
    from regard.tasks.translate.run import encode

    truth = read_pharaoh(path, len(sources))
    first, second = encode(sources, run.tokenizer, run.most)[0], encode(targets, run.tokenizer, run.most)[0]
    words = word_numbers(sources, run.tokenizer, run.most), word_numbers(targets, run.tokenizer, run.most)
    found = alignments(run, first, [row[:-1] for row in second], words)
    right = sum(link in set(got) for got, wanted in zip(found, truth, strict=True) for link in wanted)
    return right / max(1, sum(map(len, truth)))


def word_numbers(texts: Sequence[str], words: Tokenizer, most: int | None = None) -> list[list[int]]:
    """For each token of each text, of its first `most`, the number of the word that it is part of, words being what
    stands between spaces. A token that is a space alone belongs to the word after it, if there is one."""
    shown = [add_leading_space(text, words) if text.strip() else "" for text in texts]
    found = []
    for text, encoding in zip(shown, words.encode_batch_raw(shown), strict=True):
        ends = [word.end() for word in re.finditer(r"[^ \t\n\r]+", text)]
        starts = [start for start, _ in encoding.offsets[:most]]
        numbers = np.searchsorted(ends, starts, side="right")
        found.append(np.minimum(numbers, max(len(ends) - 1, 0)).tolist())
    return found


def said_numbers(rows: Sequence[Sequence[int]], words: Tokenizer) -> list[list[int]]:
    """The same of tokens that were said, in the text that they make (`parallel_text.decode_line`). [UNK] is a letter of its own
    where characters are tokens, and a word where words are."""
    raw = token_bytes(words)
    raw[UNK] = b"?"
    if words.kind in ("words", "spaces"):
        raw = [b" " + part for part in raw]
    return [_numbers([raw[id] for id in ids]) for ids in rows]


def _numbers(pieces: Sequence[bytes]) -> list[int]:
    """Of pieces of a text, the number of the word in which each has its first letter."""
    numbers, count, inside = [], 0, False
    for piece in pieces:
        first = None
        for byte in piece:
            space = byte in b" \t\n\r"
            if not space and not inside:
                count += 1
            inside = not space
            if inside and first is None:
                first = count
        numbers.append(count if first is None else first - 1)
    return [min(number, max(count - 1, 0)) for number in numbers]
