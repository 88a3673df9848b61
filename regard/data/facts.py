"""Facts about people and questions about them: lines of `Name. Sentence`, and a table of questions and answers.

    facts = read_facts("wiki.txt")                    # Ada Lovelace. Ada Lovelace was a writer born in London .
    questions = read_questions("train.tsv", facts)    # Where was Ada Lovelace born?    London

A question is a pattern around a name: ("Where was", "born?"). Patterns are derived from questions that contain a name
of the facts. A new question is recognized by its pattern, whether its name is known or not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from urllib.parse import unquote

from regard.data.parallel_text import read_lines
from regard.data.read_table import read_columns
from regard.errors import UserError

QUESTION_COLUMNS = ("question", "questions", "source", "input")
ANSWER_COLUMNS = ("answer", "answers", "place", "target", "output")
MAX_NAME_WORDS = 8
MAX_QUESTION_CHARS = 1000
_INITIAL = re.compile(r"(?:^|[\s.])\w$")

QuestionPattern = tuple[str, str]
"""The text before the name and the text after it."""


@dataclass(frozen=True)
class Facts:
    """Sentences about people. Sentence i is about names[i]; a name may occur several times."""

    names: list[str]
    sentences: list[str]
    notes: list[str]
    fingerprint: str

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def sentences_of(self) -> dict[str, list[int]]:
        """Indices of the sentences about each name."""
        indices: dict[str, list[int]] = {}
        for i, name in enumerate(self.names):
            indices.setdefault(name, []).append(i)
        return indices

    @cached_property
    def text(self) -> str:
        return "\n".join(self.sentences)

    def contains(self, phrase: str) -> bool:
        """Return whether the phrase occurs in a sentence, as whole words."""
        return bool(phrase) and re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", self.text) is not None


@dataclass(frozen=True)
class Questions:
    """Question i has patterns[i], is about names[i], and has the answer answers[i]."""

    patterns: list[QuestionPattern]
    names: list[str]
    answers: list[str]
    notes: list[str] = field(default_factory=list)
    fingerprint: str = ""

    def __len__(self) -> int:
        return len(self.names)

    def subset(self, indices: Iterable[int]) -> Questions:
        indices = list(indices)
        return Questions(
            [self.patterns[i] for i in indices], [self.names[i] for i in indices], [self.answers[i] for i in indices]
        )


def read_facts(path: str | Path) -> Facts:
    """Read a file of facts. Lines without a name are skipped and counted; it is an error if most lines have none."""
    lines, fingerprint = read_lines(path)
    names, sentences, num_skipped = [], [], 0
    for line in lines:
        name, sentence = split_name(line)
        if not name or not sentence:
            num_skipped += bool(line.strip())
            continue
        names.append(name)
        sentences.append(sentence)
    if not names or num_skipped > len(names):
        raise UserError(
            f"{path} has {num_skipped:,} lines without a name and {len(names):,} with one; each line must be "
            "`Name. Sentence`, such as `Ada Lovelace. Ada Lovelace was born in London.`"
        )
    notes = []
    if num_skipped:
        notes.append(f"{Path(path).name}: skipped {num_skipped:,} lines that have no name before a full stop")
    repeated = len(names) - len(set(names))
    if repeated:
        notes.append(f"{Path(path).name}: {repeated:,} lines are about a name that occurred before; all are used")
    return Facts(names, sentences, notes, fingerprint)


def split_name(line: str) -> tuple[str, str]:
    """Split a line into name and sentence.

    The name ends where the sentence starts with the same name (`Dr. Dre. Dr. Dre is`); otherwise at the first full stop
    that does not follow an initial. Percent-encoded characters of a name, such as %C5%82, are decoded.
    """
    splits: list[tuple[str, str]] = []
    for stop in re.finditer(r"\.\s+", line):
        name, sentence = line[: stop.start()].strip(), line[stop.end() :].strip()
        if not name or len(name.split()) > MAX_NAME_WORDS:
            break
        splits.append((name, sentence))
    repeats_name = [s for s in splits if len(s[0]) > 1 and re.match(rf"{re.escape(s[0])}(?!\w)", s[1])]
    complete = [s for s in splits if not _INITIAL.search(s[0]) or s[1].split(" ", 1)[0] == s[0].split(" ", 1)[0]]
    for name, sentence in [*repeats_name, *complete, *splits]:
        return unquote(name), sentence
    return "", line.strip()


def read_questions(
    path: str | Path, known: Facts | Sequence[QuestionPattern], *, with_answers: bool = True
) -> Questions:
    """Read a table of questions and answers.

    Args:
        path: Table with two columns, or lines of questions (.txt) if `with_answers` is False.
        known: The question patterns, or facts from whose names patterns are derived.
        with_answers: Whether answers are required.
    """
    path = Path(path)
    texts, answers, fingerprint = _read_question_table(path, with_answers)
    notes: list[str] = []
    patterns = _find_patterns(texts, known) if isinstance(known, Facts) else list(known)
    if isinstance(known, Facts) and not patterns:
        examples = ", ".join(map(repr, list(known.sentences_of)[:3]))
        raise UserError(
            f"no question of {path} contains a name of the facts: the first question is {texts[0][:80]!r}, the facts "
            f"are about {examples}; are both about the same people?"
        )
    matches = [(match_question(text, patterns), answer) for text, answer in zip(texts, answers, strict=True)]
    unmatched = [text for text, (match, _) in zip(texts, matches, strict=True) if match is None]
    if len(unmatched) == len(matches):
        raise UserError(f"no question of {path} has a known pattern: {unmatched[0]!r}; {describe_patterns(patterns)}")
    if unmatched:
        notes.append(f"{path.name}: skipped {len(unmatched):,} questions of unknown patterns: {unmatched[0]!r}")
    rows = [(match, answer) for match, answer in matches if match is not None]
    if with_answers:
        num_empty = sum(not answer for _, answer in rows)
        if num_empty:
            notes.append(f"{path.name}: skipped {num_empty:,} questions without an answer")
        rows = [(match, answer) for match, answer in rows if answer]
    if not rows:
        raise UserError(f"{path}: no question has an answer; the second column must contain it")
    notes += _describe_contradictions(path.name, rows)
    return Questions(
        [pattern for (pattern, _), _ in rows],
        [name for (_, name), _ in rows],
        [answer for _, answer in rows],
        notes,
        fingerprint,
    )


def match_question(question: str, patterns: Iterable[QuestionPattern]) -> tuple[QuestionPattern, str] | None:
    """Return the longest pattern that matches a question, and the name in it. Letter case and spaces are ignored."""
    question = " ".join(question.split())
    if len(question) > MAX_QUESTION_CHARS:
        return None
    for before, after in sorted(patterns, key=lambda p: -len(p[0]) - len(p[1])):
        endings = [after, after[:-1]] if after.endswith("?") else [after]  # the question mark may be missing
        for ending in endings:
            match = re.fullmatch(rf"{re.escape(before)}\s*(?<!\w)(\S.*?)\s*{re.escape(ending)}", question, re.I)
            if match:
                return (before, after), unquote(match[1].strip())
    return None


def describe_patterns(patterns: Iterable[QuestionPattern]) -> str:
    """Return a sentence with the questions that can be asked, for error messages."""
    questions = [f"'{' '.join(part for part in (before, 'NAME', after) if part)}'" for before, after in patterns]
    return f"ask {' or '.join(questions[:5])}"


def question_without_name(pattern: QuestionPattern) -> str:
    """Return the text of a question without the name."""
    return " ".join(part for part in pattern if part)


def _read_question_table(path: Path, with_answers: bool) -> tuple[list[str], list[str], str]:
    unzipped = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    if unzipped.suffix.lower() == ".txt" and not with_answers:
        questions, fingerprint = read_lines(path)
        return questions, [""] * len(questions), fingerprint
    names = list(read_columns(path)[0])
    by_lowercase = {name.lower(): name for name in names}
    question = next((by_lowercase[name] for name in QUESTION_COLUMNS if name in by_lowercase), None)
    answer = next((by_lowercase[name] for name in ANSWER_COLUMNS if name in by_lowercase), None)
    if question is None or (answer is None and with_answers):
        if len(names) < 2 and with_answers:
            raise UserError(
                f"{path} has one column, {names[0][:60]!r}; expected two columns, question and answer, separated by a "
                "tab"
            )
        question, answer = "0", "1" if with_answers or len(names) > 1 else None  # no header
    cells, fingerprint = read_columns(path, [question] if answer is None else [question, answer])
    questions = [" ".join((cell or "").split()) for cell in cells[question]]
    answers = [""] * len(questions) if answer is None else [" ".join((cell or "").split()) for cell in cells[answer]]
    return questions, answers, fingerprint


def _find_patterns(questions: Sequence[str], facts: Facts) -> list[QuestionPattern]:
    """Return the patterns of questions around names of the facts, most frequent first.

    Where there are many questions, a pattern of a single question is a coincidence and is skipped.
    """
    counts: Counter[QuestionPattern] = Counter()
    for question in questions:
        names = [span for span in _word_spans(question) if unquote(span) in facts.sentences_of]
        if names:
            before, _, after = question.partition(max(names, key=len))
            counts[before.strip(), after.strip()] += 1
    min_count = 2 if len(questions) >= 20 else 1
    return [pattern for pattern, count in counts.most_common() if count >= min_count and any(pattern)]


def _word_spans(question: str) -> Iterable[str]:
    """Yield all runs of up to 12 words of a question."""
    bounds = [(m.start(), m.end()) for m in re.finditer(r"[^\s?]+", question)]
    for i, (start, _) in enumerate(bounds):
        for _, end in bounds[i : i + 12]:
            yield question[start:end]


def _describe_contradictions(file: str, rows: Sequence[tuple[tuple[QuestionPattern, str], str]]) -> list[str]:
    answers_of: dict[tuple[QuestionPattern, str], set[str]] = {}
    for key, answer in rows:
        answers_of.setdefault(key, set()).add(answer)
    contradictions = [(name, sorted(answers)) for (_, name), answers in answers_of.items() if len(answers) > 1]
    if not contradictions:
        return []
    name, answers = contradictions[0]
    return [
        f"{file}: {len(contradictions):,} names have several different answers, such as {name!r}: {answers}; all rows "
        "are used"
    ]
