"""Predict each [MASK] of a text with a language model."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from regard.data.tokenizer import BOS, MASK, SEP, SPECIAL_TOKENS
from regard.decoding import Sampling, mask_filling
from regard.errors import UserError
from regard.tasks.language.generate_text import SUPPRESSED_IDS

if TYPE_CHECKING:
    from regard.tasks.language.run import LanguageModel

logger = logging.getLogger(__name__)

MASK_TOKEN = SPECIAL_TOKENS[MASK]


@dataclass(frozen=True)
class MaskPrediction:
    """A prediction for one [MASK].

    Attributes:
        words: The predicted words.
        probability: Their probability.
        text: The text with the words in place of the mask. Other masks stay.
    """

    words: str
    probability: float
    text: str

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def fill_masks(
    run: LanguageModel, text: str, *, top: int, max_new_tokens: int, seed: int
) -> list[list[MaskPrediction]]:
    """Predict each [MASK] of a text. `LanguageModel.fill` documents the arguments."""
    parts = text.split(MASK_TOKEN)
    if len(parts) < 2:
        raise UserError(f'the text has no {MASK_TOKEN}; write one where a word is missing: "The {MASK_TOKEN} sat"')
    if run.tokenizer.kind == "bpe":  # the space before a mask belongs to the missing word
        ids = [run.tokenizer.encode(part.removesuffix(" ")).ids for part in parts[:-1]]
        ids.append(run.tokenizer.encode(parts[-1]).ids)
    else:
        ids = [run.tokenizer.encode(part).ids for part in parts]
    if run.objective == "span":
        guesses = [_predict_span(run, ids, top, max_new_tokens, seed)]
    else:
        guesses = _predict_tokens(run, ids, top)
    return [[_to_prediction(run, parts, i, guess) for guess in row] for i, row in enumerate(guesses)]


def add_sentence_marks(run: LanguageModel, ids: list[int]) -> list[int]:
    """Add [BOS] and [SEP] if the model was trained on pairs of sentences."""
    return [BOS, *ids, SEP] if run.objective == "masked" and run.settings.corruption.next_sentence else ids


def _predict_tokens(run: LanguageModel, parts: list[list[int]], top: int) -> list[list[mask_filling.Guess]]:
    ids = list(parts[0])
    for part in parts[1:]:
        ids += [MASK, *part]
    ids = add_sentence_marks(run, ids)
    window = run.settings.data.block_size
    if len(ids) > window:
        logger.info(f"the text has {len(ids):,} tokens; the model reads {window} tokens around each {MASK_TOKEN}")
    return mask_filling.predict_masks(run.model, ids, top=top, suppress=range(len(SPECIAL_TOKENS)), window=window)


def _predict_span(
    run: LanguageModel, parts: list[list[int]], top: int, max_new_tokens: int, seed: int
) -> list[mask_filling.Guess]:
    if len(parts) > 2:
        raise UserError(
            f"a span model predicts one {MASK_TOKEN}, but the text has {len(parts) - 1}; fill one at a time"
        )
    prefix, suffix = parts
    window = run.settings.data.block_size
    max_new_tokens = min(max_new_tokens, max(1, window // 2))  # the longest span in training
    max_context = window - max_new_tokens - 2
    if len(prefix) + len(suffix) > max_context:
        before = max(max_context - len(suffix), max_context // 2)
        prefix = prefix[-before:] if before else []
        suffix = suffix[: max_context - len(prefix)]
        logger.info(f"the text does not fit into {window} tokens: the model reads the text near the {MASK_TOKEN}")
    return mask_filling.predict_spans(
        run.generator(),
        prefix,
        suffix,
        top=top,
        max_new_tokens=max_new_tokens,
        sampling=Sampling(seed=seed),
        suppress=SUPPRESSED_IDS,
    )


def _to_prediction(run: LanguageModel, parts: list[str], index: int, guess: mask_filling.Guess) -> MaskPrediction:
    """Decode a guess and put it in place of its mask, with the space that belongs to it."""
    before = parts[index].removesuffix(" ") if run.tokenizer.kind == "bpe" else parts[index]
    words = run.detokenizer.decode(guess.ids, prompt=before)
    text = MASK_TOKEN.join([*parts[:index], before]) + words + MASK_TOKEN.join(parts[index + 1 :])
    return MaskPrediction(words.strip() or words, guess.probability, text)
