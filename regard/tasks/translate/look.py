"""Look into a run of a translator: its translation, and what each of its words regards in the source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from regard.config.messages import muted
from regard.data.tokenizer import BOS, EOS, SPECIAL_TOKENS
from regard.errors import UserError
from regard.explain.build import build_look
from regard.explain.interventions import Intervention
from regard.explain.seq2seq_explainer import Seq2SeqExplainer, TokenizedText
from regard.tasks.translate.alignment import word_numbers
from regard.tasks.translate.run import encode

if TYPE_CHECKING:
    from regard.explain.look_result import Look
    from regard.tasks.translate.run import Translator

BEAM = 5


def look(
    run: Translator,
    text: str,
    *,
    label: str | None = None,
    faithful: bool = True,
    what_if: Sequence[Intervention | str] = (),
    beam: int = BEAM,
) -> Look:
    """A page with the source, its translation, and every map; each word of the translation can be asked about."""
    if label is not None:
        raise UserError("--label asks about a class, and a translation has none; leave it out")
    explainer, notes = build_explainer(run, text, beam)
    return build_look(explainer, faithful=faithful, interventions=what_if, notes=notes)


def build_explainer(run: Translator, text: str, beam: int = BEAM) -> tuple[Seq2SeqExplainer, list[str]]:
    """The run with a source before it, translated."""
    if not text.strip():
        raise UserError("there is nothing to look at: the text is empty")
    with muted():
        said = run.translate_all([text], beam=beam)[0]
    source, cut = encode([text], run.tokenizer, run.most)
    target = run.tokenizer.encode(f" {said.text}" if run.tokenizer.kind == "bpe" else said.text).ids
    sides = [_side(text, source[0], run), _side(said.text, [*target, EOS], run)]
    known = {"name": run.settings.model_name, "folder": str(run.folder or "")}
    notes = ["The first line is the source, the second its translation."]
    if cut:
        notes.append(f"The source has more than {run.most} tokens; only the first {run.most} were read.")
    if not target:
        notes.append("The translation is empty.")
    return Seq2SeqExplainer(run.model, *sides, bos_id=BOS, bos_token=SPECIAL_TOKENS[BOS], empty_id=EOS, **known), notes


def _side(text: str, ids: Sequence[int], run: Translator) -> TokenizedText:
    """Tokens with their places in the text, and the end."""
    lead = 1 if run.tokenizer.kind == "bpe" else 0
    encoding = run.tokenizer.encode(" " * lead + text)
    words = word_numbers([text], run.tokenizer, len(ids) - 1)[0]
    tokens: list[dict[str, Any]] = []
    for (a, b), word in zip(encoding.offsets[: len(ids) - 1], words, strict=True):
        start, end = max(a - lead, 0), max(b - lead, 0)
        tokens.append({"text": text[start:end], "start": start, "end": end, "word": word, "special": False})
    end = {"text": SPECIAL_TOKENS[EOS], "start": len(text), "end": len(text), "word": None, "special": True}
    return TokenizedText(text, list(ids), [*tokens, end])
