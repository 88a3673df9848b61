"""The HTML page of `regard evaluate` for recall runs: reliability, abstention, and answers with their evidence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.pages.recall_report import render_recall_report
from regard.tasks.recall.answer import Answer, AnsweredQuestions
from regard.tasks.recall.run import QuestionAnswerer
from regard.tasks.recall.similarity import describe_bias, describe_similarity
from regard.training import environment

EXAMPLES = 4  # answers of each kind

EvaluatedRun = tuple[QuestionAnswerer, AnsweredQuestions, dict[str, Any]]
"""A run, its answers, and its metrics."""


def check_page_path(out: str | Path) -> Path:
    """Return the path of the page and create its folder. Raises a UserError if it does not end in .html."""
    path = Path(out)
    if path.suffix.lower() != ".html":
        raise UserError(f"the page must be an .html file, got {str(out)!r}")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def render_page(
    evaluated_runs: Sequence[EvaluatedRun],
    *,
    source: str,
    title: str = "Accuracy, calibration and abstention",
    notes: Sequence[str] = (),
) -> str:
    """Render a self-contained page about one or several runs on the same questions."""
    return render_recall_report(
        {
            "title": title,
            "lead": " ".join(_describe_metrics(run, metrics) for run, _, metrics in evaluated_runs),
            "runs": [
                {
                    "name": _run_name(run),
                    "metrics": metrics,
                    "examples": choose_examples(run, answered),
                    "unknown_names": _describe_unknown_names(metrics),
                }
                for run, answered, metrics in evaluated_runs
            ],
            "settings": {"questions": source, **{_run_name(run): str(run.folder or "") for run, *_ in evaluated_runs}},
            "machine": environment.describe_machine(),
            "notes": [
                "Confidence is calibrated (Platt) on people who were held out from training.",
                "Unknown names are not in the facts; they are combined from parts of names that are.",
                *notes,
            ],
        }
    )


def choose_examples(run: QuestionAnswerer, answered: AnsweredQuestions) -> list[dict[str, Any]]:
    """Return the most confident correct and wrong answers, and answers about unknown names."""
    answers, questions, hits = answered.answers, answered.questions, answered.hits
    ranking = sorted(range(len(answers)), key=lambda i: -answers[i].confidence)
    by_kind = {"right": [i for i in ranking if hits[i]], "wrong": [i for i in ranking if not hits[i]]}
    rows = [
        (kind, answers[i], questions.patterns[i], questions.answers[i])
        for kind, indices in by_kind.items()
        for i in indices[:EXAMPLES]
    ]
    unknown = sorted(answered.unknown_answers, key=lambda a: (a.answer is None, -a.confidence))[:EXAMPLES]
    rows += [("unknown", answer, run.patterns[0], "–") for answer in unknown]
    nearest: list[list[dict[str, Any]]] = [[]] * len(rows)
    if run.book == "closed" and rows:
        nearest = run.nearest_names([answer.name for _, answer, *_ in rows], 1)
    return [
        {
            "kind": kind,
            "question": " ".join(part for part in (pattern[0], answer.name, pattern[1]) if part).replace(" ?", "?"),
            "answer": answer.answer,
            "guess": answer.guess,
            "truth": truth,
            "confidence": answer.confidence,
            "evidence": _describe_evidence(answer, nearest_row),
        }
        for (kind, answer, pattern, truth), nearest_row in zip(rows, nearest, strict=True)
    ]


def _describe_evidence(answer: Answer, nearest: Sequence[dict[str, Any]]) -> str:
    if answer.sentence is not None:
        top = sorted(answer.word_weights, key=lambda pair: -pair[1])[:3]
        person = "" if answer.person == answer.name else f"taken to mean {answer.person}: "
        return f"{person}{answer.sentence} (attends to {', '.join(f'{word} {weight:.2f}' for word, weight in top)})"
    parts = [] if answer.name_known else ["the name is not in the facts"]
    if answer.guess and not answer.in_facts:
        parts.append("the answer does not occur in the facts")
    parts += [f"nearest known name: {row['name']}, for whom it answers {row['answer']}" for row in nearest]
    return "; ".join(parts)


def _run_name(run: QuestionAnswerer) -> str:
    return f"{run.book} book"


def _describe_metrics(run: QuestionAnswerer, metrics: dict[str, Any]) -> str:
    wrong = "" if metrics["risk"] is None else f" ({metrics['risk']:.1%} of these wrongly)"
    low, high = metrics["intervals"]["exact"]
    return (
        f"The {_run_name(run)} answers {metrics['exact']:.1%} ({low:.1%} to {high:.1%}) of {metrics['rows']:,} "
        f"questions correctly. With a confidence threshold of {metrics['threshold']:.2f} it answers "
        f"{metrics['answered']:.1%} of the questions{wrong}, and {metrics['unknown_answered']:.1%} of those about "
        f"unknown names. Its expected calibration error is {metrics['ece']:.3f}."
    )


def _describe_unknown_names(metrics: dict[str, Any]) -> dict[str, Any] | None:
    """Return sentences and a table by language about unknown names."""
    if "similarity" not in metrics:
        return None
    bias = metrics["bias"]
    languages = [
        {
            "language": language,
            "answered": fraction,
            "guesses": ", ".join(f"{place} {count}" for place, count in bias["most_frequent"][language]),
        }
        for language, fraction in bias["answered"].items()
    ]
    return {"sentences": [describe_similarity(metrics["similarity"]), describe_bias(bias)], "languages": languages}
