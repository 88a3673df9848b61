"""Facts about people and questions about them: `Name. Sentence` a line, and a table of questions with their answers.

    book = read_facts("wiki.txt")           # Khatchig Mouradian. Khatchig Mouradian is a journalist born in Lebanon .
    asked = read_questions("train.tsv", book)   # Where was Khatchig Mouradian born?    Lebanon

A question is a pattern round a name: ("Where was", "born?"). Patterns are found by the names of the facts, and a new
question is one of somebody when it has such a pattern, whether the name is known or not.
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

QUESTIONS, ANSWERS = ("question", "questions", "source", "input"), ("answer", "answers", "place", "target", "output")

MAX_NAME_WORDS = 8  # words of a name
MAX_QUESTION_CHARS = 1000  # of a question
_INITIAL = re.compile(r"(?:^|[\s.])\w$")

QuestionPattern = tuple[str, str]
"""What stands before the name and what stands after it."""


@dataclass(frozen=True)
class Facts:
    """What was read: the n-th sentence is about the n-th name, and a name may stand there more than once."""

    names: list[str]
    sentences: list[str]
    notes: list[str]
    fingerprint: str

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def people(self) -> dict[str, list[int]]:
        """Which sentences are about whom."""
        found: dict[str, list[int]] = {}
        for i, name in enumerate(self.names):
            found.setdefault(name, []).append(i)
        return found

    @cached_property
    def text(self) -> str:
        return "\n".join(self.sentences)

    def holds(self, phrase: str) -> bool:
        """Whether this stands somewhere in the sentences, as whole words."""
        return bool(phrase) and re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", self.text) is not None


@dataclass(frozen=True)
class Questions:
    """The n-th question has the n-th pattern, name and answer."""

    patterns: list[QuestionPattern]
    names: list[str]
    answers: list[str]
    notes: list[str] = field(default_factory=list)
    fingerprint: str = ""

    def __len__(self) -> int:
        return len(self.names)

    def part(self, chosen: Iterable[int]) -> Questions:
        kept = list(chosen)
        return Questions(
            [self.patterns[i] for i in kept], [self.names[i] for i in kept], [self.answers[i] for i in kept]
        )


def read_facts(path: str | Path) -> Facts:
    """A file of facts. Lines without a name are left out and counted; a file of such lines is an error."""
    found, fingerprint = read_lines(path)
    names, sentences, without = [], [], 0
    for line in found:
        name, sentence = split_name(line)
        if not name or not sentence:
            without += bool(line.strip())
            continue
        names.append(name)
        sentences.append(sentence)
    if not names or without > len(names):
        raise UserError(
            f"{path} has {without:,} lines without a name and {len(names):,} with one: each line of the facts is to "
            "be `Name. Sentence`, such as `Ada Lovelace. Ada Lovelace was born in London.`"
        )
    notes = (
        [f"{Path(path).name}: {without:,} lines have no name before a full stop and are left out"] if without else []
    )
    repeated = len(names) - len(set(names))
    if repeated:
        notes.append(f"{Path(path).name}: {repeated:,} lines are about a name that had one before; all are kept")
    return Facts(names, sentences, notes, fingerprint)


def split_name(line: str) -> tuple[str, str]:
    """The name and the sentence of a line. A name ends where the sentence begins with it again (`Dr. Dre. Dr. Dre is`);
    where none does, at the first full stop that is not after an initial. What a web address wrote as %C5%82 is read as
    the letter that it is."""
    cuts: list[tuple[str, str]] = []
    for stop in re.finditer(r"\.\s+", line):
        name, rest = line[: stop.start()].strip(), line[stop.end() :].strip()
        if not name or len(name.split()) > MAX_NAME_WORDS:
            break
        cuts.append((name, rest))
    again = [cut for cut in cuts if len(cut[0]) > 1 and re.match(rf"{re.escape(cut[0])}(?!\w)", cut[1])]
    begun = [cut for cut in cuts if not _INITIAL.search(cut[0]) or cut[1].split(" ", 1)[0] == cut[0].split(" ", 1)[0]]
    for name, rest in [*again, *begun, *cuts]:
        return unquote(name), rest
    return "", line.strip()


def read_questions(path: str | Path, known: Facts | Sequence[QuestionPattern], *, answered: bool = True) -> Questions:
    """A table of questions with their answers. Patterns are those of a run, or found by the names of a book."""
    asked, answers, fingerprint = _table(Path(path), answered)
    notes: list[str] = []
    patterns = _patterns(asked, known) if isinstance(known, Facts) else list(known)
    if isinstance(known, Facts) and not patterns:
        people = ", ".join(map(repr, list(known.people)[:3]))
        raise UserError(
            f"no question of {path} holds a name of the facts: the first is {asked[0][:80]!r}, and the facts are about "
            f"{people}; are both about the same people?"
        )
    rows = [(match_question(question, patterns), answer) for question, answer in zip(asked, answers, strict=True)]
    odd = [question for question, (found, _) in zip(asked, rows, strict=True) if found is None]
    if len(odd) == len(rows):
        raise UserError(f"{path} asks something else: {odd[0]!r}; {describe_patterns(patterns)}")
    if odd:
        notes.append(f"{Path(path).name}: {len(odd):,} questions are about something else and left out: {odd[0]!r}")
    kept = [(found, answer) for found, answer in rows if found is not None]
    if answered:
        empty = sum(not answer for _, answer in kept)
        if empty:
            notes.append(f"{Path(path).name}: {empty:,} questions without an answer are left out")
        kept = [(found, answer) for found, answer in kept if answer]
    if not kept:
        raise UserError(f"{path}: no question has an answer; the second column is to hold it")
    notes += _contradictions(Path(path).name, kept)
    return Questions([f[0] for f, _ in kept], [f[1] for f, _ in kept], [a for _, a in kept], notes, fingerprint)


def match_question(question: str, patterns: Iterable[QuestionPattern]) -> tuple[QuestionPattern, str] | None:
    """The pattern of a question and the name in it, letter case and spaces aside; the longest pattern that fits."""
    said = " ".join(question.split())
    if len(said) > MAX_QUESTION_CHARS:
        return None
    for before, after in sorted(patterns, key=lambda p: -len(p[0]) - len(p[1])):
        fits = re.fullmatch(rf"{re.escape(before)}\s*(?<!\w)(\S.*?)\s*{re.escape(after)}", said, re.I)
        if not fits and after.endswith("?"):  # a question mark is easily forgotten
            fits = re.fullmatch(rf"{re.escape(before)}\s*(?<!\w)(\S.*?)\s*{re.escape(after[:-1])}", said, re.I)
        if fits:
            return (before, after), unquote(fits[1].strip())
    return None


def describe_patterns(patterns: Iterable[QuestionPattern]) -> str:
    """What can be asked, in words."""
    said = [f"'{' '.join(part for part in (before, 'NAME', after) if part)}'" for before, after in patterns]
    return f"it can be asked {' or '.join(said[:5])}"


def question_without_name(pattern: QuestionPattern) -> str:
    """The question without the name."""
    return " ".join(part for part in pattern if part)


def _table(path: Path, answered: bool) -> tuple[list[str], list[str], str]:
    plain = path.with_suffix("") if path.suffix.lower() == ".gz" else path
    if plain.suffix.lower() == ".txt" and not answered:
        found, fingerprint = read_lines(path)
        return found, [""] * len(found), fingerprint
    names = list(read_columns(path)[0])
    lower = {name.lower(): name for name in names}
    question = next((lower[name] for name in QUESTIONS if name in lower), None)
    answer = next((lower[name] for name in ANSWERS if name in lower), None)
    if question is None or (answer is None and answered):
        if len(names) < 2 and answered:
            raise UserError(
                f"{path} has one column, {names[0][:60]!r}: questions with their answers are wanted, two columns with "
                "a tab between them, or named question and answer"
            )
        question, answer = "0", "1" if answered or len(names) > 1 else None  # no header
    wanted = [question] if answer is None else [question, answer]
    cells, fingerprint = read_columns(path, wanted)
    asked = [" ".join((cell or "").split()) for cell in cells[question]]
    answers = [""] * len(asked) if answer is None else [" ".join((cell or "").split()) for cell in cells[answer]]
    return asked, answers, fingerprint


def _patterns(asked: Sequence[str], book: Facts) -> list[QuestionPattern]:
    """Patterns of questions round names of the book, the most frequent first; one that fits a single question of many
    is a chance."""
    found: Counter[QuestionPattern] = Counter()
    for question in asked:
        inside = [name for name in _spans(question) if unquote(name) in book.people]
        if inside:
            before, _, after = question.partition(max(inside, key=len))
            found[before.strip(), after.strip()] += 1
    least = 2 if len(asked) >= 20 else 1
    return [pattern for pattern, count in found.most_common() if count >= least and any(pattern)]


def _spans(question: str) -> Iterable[str]:
    """Stretches of whole words of a question."""
    ends = [(m.start(), m.end()) for m in re.finditer(r"[^\s?]+", question)]
    for i, (start, _) in enumerate(ends):
        for _, end in ends[i : i + 12]:
            yield question[start:end]


def _contradictions(name: str, kept: Sequence[tuple[tuple[QuestionPattern, str], str]]) -> list[str]:
    said: dict[tuple[QuestionPattern, str], set[str]] = {}
    for key, answer in kept:
        said.setdefault(key, set()).add(answer)
    several = [(key[1], sorted(answers)) for key, answers in said.items() if len(answers) > 1]
    if not several:
        return []
    who, answers = several[0]
    told = f"{name}: {len(several):,} names have two different answers or more, such as {who!r}: {answers}"
    return [f"{told}; each row is taken as it stands"]
