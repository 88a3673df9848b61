"""The predictions and the look of a loaded model, for any task."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from regard.config.messages import muted
from regard.errors import UserError
from regard.explain.look_result import Look
from regard.hub.load_any import ImportedModel, build_text_explainer, parse_interventions

MASK = "[MASK]"


def predict_texts(model: Any, texts: Sequence[str]) -> list[dict[str, Any]]:
    """For each text {"answer": ...} or {"error": ...}. A text that cannot be read does not affect the others."""
    answer = _choose_predictor(model)
    with muted():
        try:
            return [{"answer": prediction} for prediction in answer(texts)]
        except UserError:
            return [_predict_one(answer, text) for text in texts]


def _predict_one(answer: Callable[[Sequence[str]], list[dict[str, Any]]], text: str) -> dict[str, Any]:
    try:
        return {"answer": answer([text])[0]}
    except UserError as problem:
        return {"error": str(problem)}


def _choose_predictor(model: Any) -> Callable[[Sequence[str]], list[dict[str, Any]]]:
    verbs = model.verbs
    if isinstance(model, ImportedModel):
        return lambda texts: [model.predict(text) for text in texts]
    if "predict" in verbs:
        return lambda texts: [prediction.as_dict() for prediction in model.predict(list(texts))]
    if "translate" in verbs:
        return lambda texts: [prediction.as_dict() for prediction in model.translate_all(list(texts))]
    if "fill" in verbs or "generate" in verbs:
        return lambda texts: [_predict_word(model, text) for text in texts]
    raise UserError(f"a run of {model.settings.task!r} has no predictions")


def _predict_word(model: Any, text: str) -> dict[str, Any]:
    """The most probable missing words, or next words."""
    if "fill" in model.verbs and MASK in text:
        return {"fill": [[guess.as_dict() for guess in guesses] for guesses in model.fill(text)]}
    explainer = build_text_explainer(model, text)
    return {"label": explainer.targets[0], "probabilities": explainer.probabilities()}


def build_look(
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
    """The page or its data. `other` is the data of another model's look, to compare with."""
    if "look" not in model.verbs:
        raise UserError("this model has no attention to look at")
    look: Look = model.look(text, label=label, faithful=faithful, what_if=parse_interventions(list(what_if), text))
    if other is not None:
        look = look.compare_with(Look(other))
    if evidence:
        look = look.with_evidence(*evidence)
    return {"html": look.html()} if form == "html" else {"data": look.data}
