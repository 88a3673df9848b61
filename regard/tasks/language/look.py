"""Look into a run of a language model: the text as its tokenizer reads it, then as look_words.py asks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from regard.data.tokenizer import BOS, EOS, MASK, SEP, SPECIAL_TOKENS
from regard.errors import UserError
from regard.explain.build import build_look
from regard.explain.explainer import Explainer
from regard.explain.interventions import Intervention
from regard.explain.token_explainers import EmbeddingExplainer, MaskedTokenExplainer, NextTokenExplainer, PromptText
from regard.tasks.language.generate_text import begin

if TYPE_CHECKING:
    from regard.explain.look_result import Look
    from regard.tasks.language.run import LanguageModel

MARK = SPECIAL_TOKENS[MASK]


def look(
    run: LanguageModel,
    text: str,
    *,
    label: str | None = None,
    faithful: bool = True,
    what_if: Sequence[Intervention | str] = (),
) -> Look:
    """What the next word, or the word at [MASK], regards; `label` is the word asked about, if not the likeliest."""
    explainer, notes = build_explainer(run, text, label)
    return build_look(explainer, faithful=faithful, interventions=what_if, notes=notes)


def build_explainer(run: LanguageModel, text: str, label: str | None = None) -> tuple[Explainer, list[str]]:
    """The run with a text before it, and what is to be said of it."""
    if not text.strip():
        raise UserError("there is nothing to look at: the text is empty")
    name, folder = run.settings.model_name, str(run.folder or "")
    known = {"name": name, "folder": folder}
    if run.objective in ("causal", "span"):
        reading, notes = _written(run, text)
        return NextTokenExplainer(run.model, reading, label=label, **known), notes
    if MARK not in text and not hasattr(run.model, "hidden_states"):
        raise UserError(f'the text has no {MARK}; write one where a word is missing: "The {MARK} sat"')
    reading, notes = _with_masks(run, text)
    places = [i for i, id in enumerate(reading.ids) if id == MASK]
    if places:
        if len(places) > 1:
            notes.append(f"The text has {len(places)} {MARK}s; the first is asked about.")
        return MaskedTokenExplainer(run.model, reading, places[0], label=label, **known), notes
    if label is not None:
        raise UserError(f"a word is asked about at a {MARK}, and the text has none")
    return EmbeddingExplainer(run.model, reading, **known), notes


def _written(run: LanguageModel, text: str) -> tuple[PromptText, list[str]]:
    encoding, whole = run.tokenizer.encode(text), begin(run, text)
    lead = 0 if run.objective == "span" else len(whole) - len(encoding.ids)
    tokens = [_special(run, whole[0])] * lead + _tokens(run, text, 0, 0)[0]
    tokens += [_special(run, id) for id in whole[len(tokens) :]]
    return _cut(run, text, whole, tokens, last=True)


def _with_masks(run: LanguageModel, text: str) -> tuple[PromptText, list[str]]:
    """Masks are no text to a tokenizer: what stands between them is read part by part."""
    ids: list[int] = []
    tokens: list[dict[str, Any]] = []
    at = word = 0
    parts = text.split(MARK)
    for number, part in enumerate(parts):
        cut = part.removesuffix(" ") if run.tokenizer.kind == "bpe" and number + 1 < len(parts) else part
        made, found, word = _tokens(run, cut, at, word)
        ids, tokens, at = ids + found, tokens + made, at + len(part)
        if number + 1 < len(parts):
            ids.append(MASK)
            tokens.append({"text": MARK, "start": at, "end": at + len(MARK), "word": word, "special": False})
            at, word = at + len(MARK), word + 1
    if run.objective == "masked" and run.settings.corruption.next_sentence:  # rows of training looked like this
        ids, tokens = [BOS, *ids, SEP], [_special(run, BOS), *tokens, _special(run, SEP)]
    return _cut(run, text, ids, tokens, last=False)


def _tokens(run: LanguageModel, text: str, at: int, word: int) -> Any:
    encoding = run.tokenizer.encode(text)
    words = [word + int(w) for w in encoding.word_ids]
    made = [
        {"text": text[a:b] or run.tokenizer.token(i), "start": at + a, "end": at + b, "word": w, "special": False}
        for i, (a, b), w in zip(encoding.ids, encoding.offsets, words, strict=True)
    ]
    return made, list(encoding.ids), max(words, default=word - 1) + 1


def _special(run: LanguageModel, id: int) -> dict[str, Any]:
    return {"text": run.tokenizer.token(id), "start": 0, "end": 0, "word": None, "special": True}


def _cut(
    run: LanguageModel, text: str, ids: list[int], tokens: list[dict[str, Any]], *, last: bool
) -> tuple[PromptText, list[str]]:
    """A model sees as much at once as a window of its training held."""
    most, notes = run.settings.data.block_size, []
    if len(ids) > most:
        end = "last" if last else "first"
        notes.append(f"The text has {len(ids):,} tokens, and the model sees {most}: the {end} {most} were read.")
        ids, tokens = (ids[-most:], tokens[-most:]) if last else (ids[:most], tokens[:most])
    detokenizer = run.detokenizer

    def find(word: str) -> int | None:
        for written in (f" {word}", word):
            found = run.tokenizer.encode(written).ids
            if len(found) == 1:
                return found[0]
        return None

    never = tuple(i for i in range(len(SPECIAL_TOKENS)) if i != EOS)
    tokens = [dict(token) for token in tokens]

    def word(id: int) -> str:
        return detokenizer.decode([id]) or run.tokenizer.token(id)

    return PromptText(text, ids, tokens, word, find, EOS if last else MASK, never), notes
