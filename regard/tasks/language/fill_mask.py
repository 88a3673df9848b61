"""A language model fills in: what stands at each [MASK] of a text, with its chance."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from regard.data.tokenizer import BOS, MASK, SEP, SPECIAL_TOKENS
from regard.decoding import Sampling, mask_filling
from regard.errors import UserError
from regard.tasks.language.generate_text import NEVER

if TYPE_CHECKING:
    from regard.tasks.language.run import LanguageModel

logger = logging.getLogger(__name__)

MARK = SPECIAL_TOKENS[MASK]


@dataclass(frozen=True)
class Filled:
    """A guess for one [MASK]: the words, their chance, and the text with them in it (other masks left as they are)."""

    words: str
    probability: float
    text: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def guesses(run: LanguageModel, text: str, *, top: int, tokens: int, seed: int) -> list[list[Filled]]:
    """For each [MASK] of the text the likeliest guesses."""
    parts = text.split(MARK)
    if len(parts) < 2:
        raise UserError(f'the text has no {MARK}; write one where words are missing: "The {MARK} sat"')
    if run.tokenizer.kind == "bpe":  # there a space belongs to the word after it, which is the one that is missing
        ids = [run.tokenizer.encode(part.removesuffix(" ")).ids for part in parts[:-1]]
        ids.append(run.tokenizer.encode(parts[-1]).ids)
    else:
        ids = [run.tokenizer.encode(part).ids for part in parts]
    if run.objective == "span":
        found = [_spans(run, ids, top, tokens, seed)]
    else:
        found = _words(run, ids, top)
    return [[_filled(run, parts, place, guess) for guess in row] for place, row in enumerate(found)]


def _words(run: LanguageModel, parts: list[list[int]], top: int) -> list[list[mask_filling.Guess]]:
    whole = list(parts[0])
    for part in parts[1:]:
        whole += [MASK, *part]
    if run.objective == "masked" and run.settings.corruption.next_sentence:  # rows of training looked like this
        whole = [BOS, *whole, SEP]
    block = run.settings.data.block_size
    if len(whole) > block:
        logger.info(
            f"the text has {len(whole):,} tokens; the model sees the {block} around each {MARK}, as in training"
        )
    return mask_filling.predict_masks(run.model, whole, top=top, suppress=range(len(SPECIAL_TOKENS)), window=block)


def _spans(run: LanguageModel, parts: list[list[int]], top: int, tokens: int, seed: int) -> list[mask_filling.Guess]:
    if len(parts) > 2:
        raise UserError(f"a model of spans fills one {MARK}, and the text has {len(parts) - 1}; fill one after another")
    prefix, suffix = parts
    block = run.settings.data.block_size
    tokens = min(tokens, max(1, block // 2))  # the longest span of training
    room = block - tokens - 2
    if len(prefix) + len(suffix) > room:
        before = max(room - len(suffix), room // 2)
        prefix = prefix[-before:] if before else []
        suffix = suffix[: room - len(prefix)]
        logger.info(f"the text is longer than a window of {block} tokens: the model sees what is near the {MARK}")
    drawn = Sampling(seed=seed)
    return mask_filling.predict_spans(run.generator(), prefix, suffix, top=top, max_new_tokens=tokens, sampling=drawn, suppress=NEVER)


def _filled(run: LanguageModel, parts: list[str], place: int, guess: mask_filling.Guess) -> Filled:
    """The guess as text; in the text it stands where the mask was, with the space that belongs to it."""
    before = parts[place].removesuffix(" ") if run.tokenizer.kind == "bpe" else parts[place]
    words = run.detokenizer.decode(guess.ids, prompt=before)
    left = MARK.join([*parts[:place], before])
    return Filled(words.strip() or words, guess.probability, left + words + MARK.join(parts[place + 1 :]))
