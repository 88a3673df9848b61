"""Look into a run of a language model: the text as its tokenizer reads it, then as look_words.py asks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from regard.data.tokenizer import BOS, EOS, MASK, SEP, SPECIAL_TOKENS
from regard.errors import UserError
from regard.explain.build import seen_by
from regard.explain.interventions import Change
from regard.explain.subject import Subject
from regard.explain.word_subjects import Missing, Next, Reading, Vector
from regard.tasks.language.generate_text import begin

if TYPE_CHECKING:
    from regard.tasks.classify.look import Look
    from regard.tasks.language.run import LanguageModel

MARK = SPECIAL_TOKENS[MASK]


def look(
    run: LanguageModel,
    text: str,
    *,
    label: str | None = None,
    faithful: bool = True,
    changes: Sequence[Change | str] = (),
) -> Look:
    """What the next word, or the word at [MASK], regards; `label` is the word asked about, if not the likeliest."""
    from regard.tasks.classify.look import Look

    asked, notes = subject(run, text, label)
    return Look(seen_by(asked, faithful=faithful, heads=faithful, changes=changes, notes=notes))


def subject(run: LanguageModel, text: str, label: str | None = None) -> tuple[Subject, list[str]]:
    """The run with a text before it, and what is to be said of it."""
    if not text.strip():
        raise UserError("there is nothing to look at: the text is empty")
    name, folder = run.settings.model_name, str(run.folder or "")
    known = {"name": name, "folder": folder}
    if run.objective in ("causal", "span"):
        reading, notes = _written(run, text)
        return Next(run.net, reading, label=label, **known), notes
    if MARK not in text and not hasattr(run.net, "states"):
        raise UserError(f'the text has no {MARK}; write one where a word is missing: "The {MARK} sat"')
    reading, notes = _with_masks(run, text)
    places = [i for i, id in enumerate(reading.ids) if id == MASK]
    if places:
        if len(places) > 1:
            notes.append(f"The text has {len(places)} {MARK}s; the first is asked about.")
        return Missing(run.net, reading, places[0], label=label, **known), notes
    if label is not None:
        raise UserError(f"a word is asked about at a {MARK}, and the text has none")
    return Vector(run.net, reading, **known), notes


def _written(run: LanguageModel, text: str) -> tuple[Reading, list[str]]:
    encoding, whole = run.words.encode(text), begin(run, text)
    lead = 0 if run.objective == "span" else len(whole) - len(encoding.ids)
    tokens = [_special(run, whole[0])] * lead + _tokens(run, text, 0, 0)[0]
    tokens += [_special(run, id) for id in whole[len(tokens) :]]
    return _cut(run, text, whole, tokens, last=True)


def _with_masks(run: LanguageModel, text: str) -> tuple[Reading, list[str]]:
    """Masks are no text to a tokenizer: what stands between them is read part by part."""
    ids: list[int] = []
    tokens: list[dict[str, Any]] = []
    at = word = 0
    parts = text.split(MARK)
    for number, part in enumerate(parts):
        cut = part.removesuffix(" ") if run.words.kind == "bpe" and number + 1 < len(parts) else part
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
    encoding = run.words.encode(text)
    words = [word + int(w) for w in encoding.word_ids]
    made = [
        {"text": text[a:b] or run.words.token(i), "start": at + a, "end": at + b, "word": w, "special": False}
        for i, (a, b), w in zip(encoding.ids, encoding.offsets, words, strict=True)
    ]
    return made, list(encoding.ids), max(words, default=word - 1) + 1


def _special(run: LanguageModel, id: int) -> dict[str, Any]:
    return {"text": run.words.token(id), "start": 0, "end": 0, "word": None, "special": True}


def _cut(
    run: LanguageModel, text: str, ids: list[int], tokens: list[dict[str, Any]], *, last: bool
) -> tuple[Reading, list[str]]:
    """A model sees as much at once as a window of its training held."""
    most, notes = run.settings.data.block, []
    if len(ids) > most:
        end = "last" if last else "first"
        notes.append(f"The text has {len(ids):,} tokens, and the model sees {most}: the {end} {most} were read.")
        ids, tokens = (ids[-most:], tokens[-most:]) if last else (ids[:most], tokens[:most])
    speller = run.speller

    def find(word: str) -> int | None:
        for written in (f" {word}", word):
            found = run.words.encode(written).ids
            if len(found) == 1:
                return found[0]
        return None

    never = tuple(i for i in range(len(SPECIAL_TOKENS)) if i != EOS)
    tokens = [dict(token) for token in tokens]

    def word(id: int) -> str:
        return speller.text([id]) or run.words.token(id)

    return Reading(text, ids, tokens, word, find, EOS if last else MASK, never), notes
