"""Show the attention of a translator: what each word of the translation attends to in the source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from regard.config.messages import muted
from regard.data.tokenizer import BOS, EOS, SPECIAL_TOKENS
from regard.errors import UserError
from regard.explain.build import build_look
from regard.explain.interventions import Intervention
from regard.explain.seq2seq_explainer import Seq2SeqExplainer, TokenizedText
from regard.tasks.translate.alignment import text_word_ids
from regard.tasks.translate.run import encode_sources

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
    """Show the attention of a translator on a source. Each word of the translation is a target.

    Args:
        run: The translator.
        text: The source.
        label: Not supported.
        faithful: Whether to measure the faithfulness of the attention.
        what_if: Interventions (regard.explain.interventions).
        beam: Beam size.
    """
    if label is not None:
        raise UserError("--label names a class, but a translator has no classes; leave it out")
    explainer, notes = build_explainer(run, text, beam)
    return build_look(explainer, faithful=faithful, interventions=what_if, notes=notes)


def build_explainer(run: Translator, text: str, beam: int = BEAM) -> tuple[Seq2SeqExplainer, list[str]]:
    """Translate a source and build its explainer.

    Returns:
        The explainer and notes for the page.
    """
    if not text.strip():
        raise UserError("the text is empty")
    with muted():
        translation = run.translate_all([text], beam=beam)[0].text
    source, truncated = encode_sources([text], run.tokenizer, run.max_tokens)
    target = run.tokenizer.encode(f" {translation}" if run.tokenizer.kind == "bpe" else translation).ids
    sides = [_tokenize(text, source[0], run), _tokenize(translation, [*target, EOS], run)]
    notes = ["The first line is the source, the second its translation."]
    if truncated:
        notes.append(
            f"The source has more than {run.max_tokens} tokens; it was truncated to the first {run.max_tokens}."
        )
    if not target:
        notes.append("The translation is empty.")
    explainer = Seq2SeqExplainer(
        run.model,
        *sides,
        bos_id=BOS,
        bos_token=SPECIAL_TOKENS[BOS],
        empty_id=EOS,
        name=run.settings.model_name,
        folder=str(run.folder or ""),
    )
    return explainer, notes


def _tokenize(text: str, ids: Sequence[int], run: Translator) -> TokenizedText:
    """One side with the character offsets and the word of each token; [EOS] is the last token."""
    spaces = 1 if run.tokenizer.kind == "bpe" else 0
    encoding = run.tokenizer.encode(" " * spaces + text)
    words = text_word_ids([text], run.tokenizer, len(ids) - 1)[0]
    tokens: list[dict[str, Any]] = []
    for (a, b), word in zip(encoding.offsets[: len(ids) - 1], words, strict=True):
        start, end = max(a - spaces, 0), max(b - spaces, 0)
        tokens.append({"text": text[start:end], "start": start, "end": end, "word": word, "special": False})
    eos = {"text": SPECIAL_TOKENS[EOS], "start": len(text), "end": len(text), "word": None, "special": True}
    return TokenizedText(text, list(ids), [*tokens, eos])
