"""The page of `regard evaluate` for runs of recall: reliability, abstention, and answers with what they rest on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.pages.recall_report import render_recall_report
from regard.tasks.recall.answer import Answer, Tried
from regard.tasks.recall.run import Recaller
from regard.tasks.recall.similarity import by_origin, like_nearest
from regard.training import environment

EXAMPLES = 4  # answers of each kind

Measured = tuple[Recaller, Tried, dict[str, Any]]


def place(out: str | Path) -> Path:
    """Where a page can be written."""
    path = Path(out)
    if path.suffix.lower() != ".html":
        raise UserError(f"the page is written as .html, and {str(out)!r} was given")
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def page(
    measured: Sequence[Measured], *, source: str, title: str = "How far to believe it", notes: Sequence[str] = ()
) -> str:
    """One self-contained document about one run or several on the same questions."""
    return render_recall_report(
        {
            "title": title,
            "lead": " ".join(_sentence(run, found) for run, _, found in measured),
            "runs": [
                {"name": _name(run), "measures": found, "examples": examples(run, tried), "strange": _strange(found)}
                for run, tried, found in measured
            ],
            "settings": {"questions": source, **{_name(run): str(run.folder or "") for run, *_ in measured}},
            "machine": environment.describe_machine(),
            "notes": [
                "Confidence is fitted (Platt) to people who were set aside in training.",
                "Strangers are names that nobody in the facts has, made of parts of names there.",
                *notes,
            ],
        }
    )


def examples(run: Recaller, tried: Tried) -> list[dict[str, Any]]:
    """The surest right answers, the surest wrong ones, and strangers: those answered first."""
    order = sorted(range(len(tried.made)), key=lambda i: -tried.made[i].confidence)
    hits, before = tried.hits, tried.asked.patterns
    kinds = {"right": [i for i in order if hits[i]], "wrong": [i for i in order if not hits[i]]}
    rows = [
        (kind, tried.made[i], before[i], tried.asked.answers[i])
        for kind, found in kinds.items()
        for i in found[:EXAMPLES]
    ]
    strange = sorted(tried.others, key=lambda a: (a.answer is None, -a.confidence))[:EXAMPLES]
    rows += [("stranger", answer, run.patterns[0], "–") for answer in strange]
    near = run.near([answer.name for _, answer, *_ in rows], 1) if run.book == "closed" and rows else [[]] * len(rows)
    return [
        {
            "kind": kind,
            "question": " ".join(part for part in (pattern[0], answer.name, pattern[1]) if part).replace(" ?", "?"),
            "answer": answer.answer,
            "guess": answer.guess,
            "truth": truth,
            "confidence": answer.confidence,
            "rests": _rests(answer, around),
        }
        for (kind, answer, pattern, truth), around in zip(rows, near, strict=True)
    ]


def _rests(answer: Answer, near: Sequence[dict[str, Any]]) -> str:
    if answer.sentence is not None:
        seen = sorted(answer.words, key=lambda pair: -pair[1])[:3]
        taken = "" if answer.person == answer.name else f"taken for {answer.person}: "
        return f"{taken}{answer.sentence} (looked at {', '.join(f'{word} {weight:.2f}' for word, weight in seen)})"
    said = [] if answer.known else ["nobody of that name was read of"]
    if answer.guess and not answer.read:
        said.append("the answer stands nowhere in what was read")
    said += [f"nearest known name: {one['name']}, of whom it says {one['said']}" for one in near]
    return "; ".join(said)


def _name(run: Recaller) -> str:
    return f"{run.book} book"


def _sentence(run: Recaller, found: dict[str, Any]) -> str:
    errs = "" if found["risk"] is None else f", errs on {found['risk']:.1%} of these"
    low, high = found["intervals"]["exact"]
    return (
        f"With the {_name(run)} {found['exact']:.1%} ({low:.1%} to {high:.1%}) of {found['rows']:,} questions are "
        f"answered rightly. Answering only from a confidence of {found['level']:.2f} on, it speaks on "
        f"{found['answered']:.1%}{errs}, and speaks of {found['strangers']:.1%} of the people that are none. Its "
        f"confidence is off by {found['ece']:.3f} in the mean."
    )


def _strange(found: dict[str, Any]) -> dict[str, Any] | None:
    """What is said of names that nobody has, in words, and by language as a table."""
    if "likeness" not in found:
        return None
    bias = found["bias"]
    rows = [
        {"language": language, "answered": share, "said": ", ".join(f"{p} {n}" for p, n in bias["commonest"][language])}
        for language, share in bias["answered"].items()
    ]
    return {"told": [like_nearest(found["likeness"]), by_origin(bias)], "languages": rows}
