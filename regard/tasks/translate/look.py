"""Look into a run of a translator: its translation, and what each of its words regards in the source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from regard.config.messages import muted
from regard.data.tokenizer import BOS, EOS, SPECIAL_TOKENS
from regard.errors import UserError
from regard.explain.build import seen_by
from regard.explain.interventions import Change
from regard.explain.seq2seq_subject import Pair, Side
from regard.tasks.translate.alignment import word_numbers
from regard.tasks.translate.run import encode

if TYPE_CHECKING:
    from regard.tasks.classify.look import Look
    from regard.tasks.translate.run import Translator

BEAM = 5


def look(
    run: Translator,
    text: str,
    *,
    label: str | None = None,
    faithful: bool = True,
    changes: Sequence[Change | str] = (),
    beam: int = BEAM,
) -> Look:
    """A page with the source, its translation, and every map; each word of the translation can be asked about."""
    from regard.tasks.classify.look import Look

    if label is not None:
        raise UserError("--label asks about a class, and a translation has none; leave it out")
    asked, notes = subject(run, text, beam)
    data = seen_by(asked, faithful=faithful, heads=faithful, changes=changes, notes=notes)
    return Look({**data, "translation": asked.target.text})


def subject(run: Translator, text: str, beam: int = BEAM) -> tuple[Pair, list[str]]:
    """The run with a source before it, translated."""
    if not text.strip():
        raise UserError("there is nothing to look at: the text is empty")
    with muted():
        said = run.translate_all([text], beam=beam)[0]
    source, cut = encode([text], run.words, run.most)
    target = run.words.encode(f" {said.text}" if run.words.kind == "bpe" else said.text).ids
    sides = [_side(text, source[0], run), _side(said.text, [*target, EOS], run)]
    known = {"name": run.settings.model_name, "folder": str(run.folder or "")}
    notes = ["The first line is the source, the second its translation."]
    if cut:
        notes.append(f"The source has more than {run.most} tokens; only the first {run.most} were read.")
    if not target:
        notes.append("The translation is empty.")
    return Pair(run.net, *sides, begin=BOS, first=SPECIAL_TOKENS[BOS], empty=EOS, **known), notes


def _side(text: str, ids: Sequence[int], run: Translator) -> Side:
    """Tokens with their places in the text, and the end."""
    lead = 1 if run.words.kind == "bpe" else 0
    encoding = run.words.encode(" " * lead + text)
    words = word_numbers([text], run.words, len(ids) - 1)[0]
    tokens: list[dict[str, Any]] = []
    for (a, b), word in zip(encoding.offsets[: len(ids) - 1], words, strict=True):
        start, end = max(a - lead, 0), max(b - lead, 0)
        tokens.append({"text": text[start:end], "start": start, "end": end, "word": word, "special": False})
    end = {"text": SPECIAL_TOKENS[EOS], "start": len(text), "end": len(text), "word": None, "special": True}
    return Side(text, list(ids), [*tokens, end])
