"""What an opened model answers: its prediction, whatever its task, and its look."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from regard.config.messages import muted
from regard.errors import UserError
from regard.explain.look_result import Look
from regard.hub.load_any import Imported, changes_of, subject_of

MARK = "[MASK]"


def predictions(model: Any, texts: Sequence[str]) -> list[dict[str, Any]]:
    """Of each text {"answer": ...} or {"error": ...}; a text that cannot be read spoils no other."""
    answer = _way(model)
    with muted():
        try:
            return [{"answer": found} for found in answer(texts)]
        except UserError:
            return [_alone(answer, text) for text in texts]


def _alone(answer: Callable[[Sequence[str]], list[dict[str, Any]]], text: str) -> dict[str, Any]:
    try:
        return {"answer": answer([text])[0]}
    except UserError as problem:
        return {"error": str(problem)}


def _way(model: Any) -> Callable[[Sequence[str]], list[dict[str, Any]]]:
    verbs = model.verbs
    if isinstance(model, Imported):
        return lambda texts: [model.predict(text) for text in texts]
    if "predict" in verbs:
        return lambda texts: [said.as_dict() for said in model.predict(list(texts))]
    if "translate" in verbs:
        return lambda texts: [said.as_dict() for said in model.translate_all(list(texts))]
    if "fill" in verbs or "generate" in verbs:
        return lambda texts: [_word(model, text) for text in texts]
    raise UserError(f"a run of {model.settings.task!r} has nothing to predict")


def _word(model: Any, text: str) -> dict[str, Any]:
    """The likeliest missing words, or next words."""
    if "fill" in model.verbs and MARK in text:
        return {"fill": [[guess.as_dict() for guess in guesses] for guesses in model.fill(text)]}
    asked = subject_of(model, text)
    return {"label": asked.labels[0], "probabilities": asked.chances()}


def looked(
    model: Any,
    text: str,
    *,
    label: str | None = None,
    what_if: Sequence[str] = (),
    faithful: bool = True,
    evidence: Sequence[str] = (),
    other: dict[str, Any] | None = None,
    form: str = "html",
) -> dict[str, Any]:
    """The page, or its data; `other` is the data of another model's look, to stand beside."""
    if "look" not in model.verbs:
        raise UserError("this model cannot be looked at")
    seen: Look = model.look(text, label=label, faithful=faithful, what_if=changes_of(list(what_if), text))
    if other is not None:
        seen = seen.compare_with(Look(other))
    if evidence:
        seen = seen.with_evidence(*evidence)
    return {"html": seen.html()} if form == "html" else {"data": seen.data}
