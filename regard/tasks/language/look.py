"""Show the attention of a language model for the prediction of one token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from regard.data.tokenizer import BOS, EOS, MASK, SEP
from regard.errors import UserError
from regard.explain.build import build_look
from regard.explain.explainer import Explainer
from regard.explain.interventions import Intervention
from regard.explain.token_explainers import EmbeddingExplainer, MaskedTokenExplainer, NextTokenExplainer, PromptText
from regard.tasks.language.fill_mask import MASK_TOKEN, add_sentence_marks
from regard.tasks.language.generate_text import SUPPRESSED_IDS, encode_prompt

if TYPE_CHECKING:
    from regard.explain.look_result import Look
    from regard.tasks.language.run import LanguageModel

PageToken = dict[str, Any]
"""A token as the page expects it: text, start, end, word, special."""


def look(
    run: LanguageModel,
    text: str,
    *,
    label: str | None = None,
    faithful: bool = True,
    what_if: Sequence[Intervention | str] = (),
) -> Look:
    """Show the attention for the prediction of the next token, or of the token at [MASK].

    Args:
        run: The language model.
        text: The text.
        label: The token to explain. Default: the most probable one.
        faithful: Whether to measure the faithfulness of the attention.
        what_if: Interventions (regard.explain.interventions).
    """
    explainer, notes = build_explainer(run, text, label)
    return build_look(explainer, faithful=faithful, interventions=what_if, notes=notes)


def build_explainer(run: LanguageModel, text: str, label: str | None = None) -> tuple[Explainer, list[str]]:
    """Build the explainer of a text.

    Returns:
        The explainer and notes for the page.
    """
    if not text.strip():
        raise UserError("the text is empty")
    name, folder = run.settings.model_name, str(run.folder or "")
    if run.objective in ("causal", "span"):
        prompt, notes = _read_prompt(run, text)
        return NextTokenExplainer(run.model, prompt, label=label, name=name, folder=folder), notes
    if MASK_TOKEN not in text and not hasattr(run.model, "hidden_states"):
        raise UserError(f'the text has no {MASK_TOKEN}; write one where a word is missing: "The {MASK_TOKEN} sat"')
    prompt, notes = _read_masked_text(run, text)
    masks = [i for i, id in enumerate(prompt.ids) if id == MASK]
    if masks:
        if len(masks) > 1:
            notes.append(f"The text has {len(masks)} {MASK_TOKEN}s; the first one is explained.")
        return MaskedTokenExplainer(run.model, prompt, masks[0], label=label, name=name, folder=folder), notes
    if label is not None:
        raise UserError(f"--label names the token at a {MASK_TOKEN}, but the text has none")
    return EmbeddingExplainer(run.model, prompt, name=name, folder=folder), notes


def _read_prompt(run: LanguageModel, text: str) -> tuple[PromptText, list[str]]:
    ids = encode_prompt(run, text)
    num_special = 0 if run.objective == "span" else len(ids) - len(run.tokenizer.encode(text).ids)
    tokens = [_special_token(run, ids[0])] * num_special + _tokenize(run, text)[1]
    tokens += [_special_token(run, id) for id in ids[len(tokens) :]]
    return _truncate(run, text, ids, tokens, keep_end=True)


def _read_masked_text(run: LanguageModel, text: str) -> tuple[PromptText, list[str]]:
    """Tokenize the text between the masks part by part: a tokenizer does not know [MASK]."""
    ids: list[int] = []
    tokens: list[PageToken] = []
    offset = word = 0
    parts = text.split(MASK_TOKEN)
    for number, part in enumerate(parts, 1):
        is_last = number == len(parts)
        visible = part if is_last or run.tokenizer.kind != "bpe" else part.removesuffix(" ")
        part_ids, part_tokens, word = _tokenize(run, visible, offset, word)
        ids, tokens, offset = ids + part_ids, tokens + part_tokens, offset + len(part)
        if not is_last:
            end = offset + len(MASK_TOKEN)
            ids.append(MASK)
            tokens.append({"text": MASK_TOKEN, "start": offset, "end": end, "word": word, "special": False})
            offset, word = end, word + 1
    marked = add_sentence_marks(run, ids)
    if len(marked) > len(ids):
        tokens = [_special_token(run, BOS), *tokens, _special_token(run, SEP)]
    return _truncate(run, text, marked, tokens, keep_end=False)


def _tokenize(
    run: LanguageModel, text: str, offset: int = 0, first_word: int = 0
) -> tuple[list[int], list[PageToken], int]:
    """Tokenize a part of a text that starts at character `offset` with word `first_word`.

    Returns:
        Token ids, tokens of the page, and the number of the next word.
    """
    encoding = run.tokenizer.encode(text)
    words = [first_word + int(word) for word in encoding.word_ids]
    tokens = [
        {
            "text": text[start:end] or run.tokenizer.token(id),
            "start": offset + start,
            "end": offset + end,
            "word": word,
            "special": False,
        }
        for id, (start, end), word in zip(encoding.ids, encoding.offsets, words, strict=True)
    ]
    return list(encoding.ids), tokens, max(words, default=first_word - 1) + 1


def _special_token(run: LanguageModel, id: int) -> PageToken:
    return {"text": run.tokenizer.token(id), "start": 0, "end": 0, "word": None, "special": True}


def _truncate(
    run: LanguageModel, text: str, ids: list[int], tokens: list[PageToken], *, keep_end: bool
) -> tuple[PromptText, list[str]]:
    """Truncate to the context length of training, and add the functions that decode and find tokens."""
    limit, notes = run.settings.data.block_size, []
    if len(ids) > limit:
        side = "last" if keep_end else "first"
        notes.append(f"The text has {len(ids):,} tokens; it was truncated to the {side} {limit}.")
        kept = slice(-limit, None) if keep_end else slice(limit)
        ids, tokens = ids[kept], tokens[kept]

    def find_id(word: str) -> int | None:
        for candidate in (f" {word}", word):
            word_ids = run.tokenizer.encode(candidate).ids
            if len(word_ids) == 1:
                return word_ids[0]
        return None

    def decode(id: int) -> str:
        return run.detokenizer.decode([id]) or run.tokenizer.token(id)

    tokens = [dict(token) for token in tokens]
    return PromptText(text, ids, tokens, decode, find_id, EOS if keep_end else MASK, tuple(SUPPRESSED_IDS)), notes
