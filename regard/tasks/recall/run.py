"""A trained run of recall in Python: ask, evaluate, calibrate, and what its answers rest on."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from regard.data.facts import (
    MAX_QUESTION_CHARS,
    Facts,
    QuestionPattern,
    Questions,
    describe_patterns,
    match_question,
    read_questions,
)
from regard.data.paraphrase import generate_unknown_names
from regard.errors import UserError
from regard.tasks.base_run import Run
from regard.tasks.recall import calibration as c
from regard.tasks.recall import closed_book, open_book
from regard.tasks.recall.answer import Answer, Tried
from regard.tasks.recall.name_lookup import Names
from regard.tasks.recall.similarity import by_language, same_as_nearest
from regard.tasks.recall.synthetic_names import invented
from regard.training import atomic_write

logger = logging.getLogger(__name__)

BOOK = Path("corpus") / "book.json"
CALIBRATION = Path("corpus") / "calibration.json"
STRANGERS = 400
_SEED = 7_000_003  # of the strangers that calibrate; training draws others


class Recaller(Run):
    """A run of `recall`. `book` is closed or open."""

    @property
    def verbs(self) -> tuple[str, ...]:
        return ("ask", "evaluate")

    @property
    def book(self) -> str:
        return self.settings.book

    @property
    def patterns(self) -> list[QuestionPattern]:
        return [(before, after) for before, after in self.config["patterns"]]

    @cached_property
    def _kept(self) -> dict[str, Any]:
        file = (self.folder or Path()) / BOOK
        try:
            tree = json.loads(file.read_text(encoding="utf-8"))
            _ = tree["names"], tree["sentences"], tree["valid"]["names"]
        except FileNotFoundError:
            raise UserError(
                f"{file} is missing, which holds what the run has read; copy the whole run folder"
            ) from None
        except (ValueError, KeyError, TypeError) as problem:
            raise UserError(f"{file} is not what a run of recall writes: {problem}") from None
        return tree

    @cached_property
    def read(self) -> Facts:
        """What was read."""
        return Facts(self._kept["names"], self._kept["sentences"], [], "")

    @cached_property
    def aside(self) -> Questions:
        """The questions that were set aside."""
        kept = self._kept["valid"]
        return Questions([(a, b) for a, b in kept["patterns"]], kept["names"], kept["answers"])

    @property
    def asked(self) -> list[str]:
        """The people whose answers were seen in training."""
        return self._kept["asked"]

    @cached_property
    def index(self) -> Names:
        return Names(self.read.sentences_of)

    # How far to believe it ------------------------------------------------------------------------------------------

    @cached_property
    def calibration(self) -> c.Calibration:
        file = (self.folder or Path()) / CALIBRATION
        if file.is_file():
            try:
                return c.Calibration.from_dict(json.loads(file.read_text(encoding="utf-8")))
            except (ValueError, KeyError, TypeError) as problem:
                raise UserError(f"{file} is not what a run of recall writes: {problem}; delete it") from None
        return self.calibrate()

    def calibrate(self) -> c.Calibration:
        """Fit the confidence to the people set aside, and to strangers, and keep it in the run folder."""
        asked = self.aside
        texts, signals = self._signals(asked.patterns, asked.names)
        hits = [a == b for a, b in zip(texts, asked.answers, strict=True)]
        others = np.empty((0, signals.shape[1]))
        if self.book == "closed":
            others = self._signals([asked.patterns[0]] * STRANGERS, self.strangers(STRANGERS, _SEED))[1]
        made = c.calibrate(signals, hits, others)
        if self.folder is not None:
            (self.folder / CALIBRATION).parent.mkdir(exist_ok=True)
            atomic_write.replace_file(self.folder / CALIBRATION, json.dumps(made.as_dict()).encode())
        self.__dict__["calibration"] = made
        return made

    def level(self, risk: float | None) -> float:
        """The least confidence at which it answers: at this risk, or where it is rather right than wrong."""
        if risk is not None and not 0 <= risk <= 1:
            raise UserError(f"--abstain wants a share of wrong answers between 0 and 1, and was given {risk}")
        return self.calibration.level(risk)

    def strangers(self, count: int, seed: int = 0) -> list[str]:
        """Names that nobody in the facts has, put together from parts of names there."""
        made = generate_unknown_names(list(self.read.sentences_of), count, Random(seed))
        if len(made) < count:
            made += [f"Qx{i} Zv{i}" for i in range(count - len(made))]
        return made

    def _signals(self, patterns: Sequence[QuestionPattern], names: Sequence[str]) -> tuple[list[str], np.ndarray]:
        if self.book == "open":
            found: Sequence[Any] = self._passages(patterns, names)
        else:
            found = closed_book.ask(self.model, self.tokenizer, patterns, names, self.settings.mix.prompt_format)
        return [said.text for said in found], np.array([said.signals for said in found], float)

    def _passages(self, patterns: Sequence[QuestionPattern], names: Sequence[str]) -> list[open_book.Passage]:
        return open_book.ask(self.model, self.tokenizer, self.read, self.index, patterns, names)

    def read_all(self, patterns: Sequence[QuestionPattern], names: Sequence[str]) -> list[str]:
        """What the reader of an open book finds for each; "" where the sentence is more likely not to say it."""
        found = self._passages(patterns, names)
        return [said.text if said.signals[0] > said.signals[3] else "" for said in found]

    # Asking ---------------------------------------------------------------------------------------------------------

    def ask(self, question: str | Sequence[str], *, abstain: float | None = None, near: int = 3) -> Any:
        """An answer, or one for each of many questions. `abstain` is the share of wrong answers among those given that
        is borne; without it an answer is given where it is rather right than wrong."""
        asked = [question] if isinstance(question, str) else list(question)
        rows = [self._found(text) for text in asked]
        made = self._answers(asked, [p for p, _ in rows], [n for _, n in rows], abstain, near)
        return made[0] if isinstance(question, str) else made

    def _found(self, question: str) -> tuple[QuestionPattern, str]:
        try:
            question.encode()
        except UnicodeEncodeError:
            raise UserError(f"the question is no text in UTF-8: {question[:80]!r}") from None
        if len(question) > MAX_QUESTION_CHARS:
            raise UserError(f"a question has at most {MAX_QUESTION_CHARS:,} characters; this one has {len(question):,}")
        found = match_question(question, self.patterns)
        if found is None:
            said = question if len(question) <= 80 else f"{question[:80]}…"
            raise UserError(f"the question is about something else: {said!r}; {describe_patterns(self.patterns)}")
        return found

    def _answers(
        self,
        asked: Sequence[str],
        patterns: Sequence[QuestionPattern],
        names: Sequence[str],
        abstain: float | None,
        near: int,
    ) -> list[Answer]:
        level = self.level(abstain)
        if self.book == "open":
            return [
                self._read_out(q, n, p, level)
                for q, n, p in zip(asked, names, self._passages(patterns, names), strict=True)
            ]
        spelled = [self.index.spelled(name) or name for name in names]
        found = closed_book.ask(self.model, self.tokenizer, patterns, spelled, self.settings.mix.prompt_format)
        confidences = self._sure(self.calibration, np.array([guess.signals for guess in found]))
        likely = self.near(spelled, near) if near else [[] for _ in names]
        made = []
        rows = zip(asked, names, spelled, found, confidences.tolist(), likely, strict=True)
        for question, name, person, guess, sure, around in rows:
            answer = guess.text if guess.text and sure >= level else None
            known, stands = person in self.index, self.read.contains(guess.text)
            about: dict[str, Any] = {"person": person if known else None, "near": around}
            if known and person != name:
                about["others"] = [other for other, _ in self.index.meant(name) if other != person]
            made.append(Answer(question, name, answer, guess.text, sure, level, known, stands, **about))
        return made

    def _sure(self, made: c.Calibration, signals: np.ndarray) -> np.ndarray:
        """The chance that what is said is right. In an open book a name that is only nearly somebody's takes off as
        much as the names differ: how many such names are misspelt and how many another's, nothing tells."""
        sure = made(signals)
        return sure * signals[:, open_book.ALIKE] if self.book == "open" else sure

    def _read_out(self, question: str, name: str, found: open_book.Passage, level: float) -> Answer:
        if found.person is None:
            return Answer(question, name, None, "", 0.0, level, False, False)
        sure = float(self._sure(self.calibration, np.array([found.signals]))[0]) if found.text else 0.0
        answer = found.text if found.text and sure >= level else None
        known = self.index.spelled(name) is not None
        about: dict[str, Any] = {"person": found.person, "sentence": found.sentence, "words": found.words}
        about["others"] = found.others
        return Answer(question, name, answer, found.text, sure, level, known, bool(found.text), **about)

    # Likeness -------------------------------------------------------------------------------------------------------

    @cached_property
    def _states(self) -> tuple[list[str], np.ndarray]:
        names = list(self.read.sentences_of)
        return names, self._represented(names)

    def _represented(self, names: Sequence[str]) -> np.ndarray:
        return closed_book.represent(self.model, self.tokenizer, self.patterns[0], names, self.settings.mix.prompt_format)

    def _said(self, names: Sequence[str]) -> list[str]:
        return closed_book.say(
            self.model, self.tokenizer, [self.patterns[0]] * len(names), names, self.settings.mix.prompt_format
        )

    def near(self, names: Sequence[str], count: int = 3) -> list[list[dict[str, Any]]]:
        """The nearest known names in what the model itself knows at the end of a name, by the cosine, other than the
        name itself, with what it says of each."""
        if self.book == "open":
            raise UserError("nearest names are those of a closed book; an open one looks a name up")
        known, states = self._states
        alike = self._represented(names) @ states.T
        order = np.argsort(-alike, axis=1)[:, : count + 1]
        rows = [[i for i in row if known[i] != name][:count] for row, name in zip(order.tolist(), names, strict=True)]
        people = sorted({known[i] for row in rows for i in row})
        said = dict(zip(people, self._said(people), strict=True))
        return [
            [{"name": known[i], "alike": float(alike[n, i]), "said": said[known[i]]} for i in row]
            for n, row in enumerate(rows)
        ]

    # Measuring ------------------------------------------------------------------------------------------------------

    def evaluate(
        self,
        data: str | Path,
        *,
        abstain: float | None = None,
        out: str | Path | None = None,
    ) -> dict[str, Any]:
        """Exact match on a table of questions; how far confidence can be believed (expected calibration error and the
        reliability curve); and what abstention does: at the level asked for, the share answered, the share of wrong
        answers among them, the share of right answers kept, and the share of strangers that are answered; the same
        along all levels. Of a closed book also whether it answers for strangers as for the nearest known name, and by
        the language of a name. `out` is a page that shows it."""
        from regard.tasks.recall import page

        place = None if out is None else page.place(out)
        asked = read_questions(data, self.patterns)
        notes = [*asked.notes, *self._met(asked)]
        for note in notes:
            logger.info(note)
        tried = self.tried(asked, abstain=abstain)
        found = self.measures(tried, abstain) | self.strange()
        if place is not None:
            shown = page.page([(self, tried, found)], source=Path(data).name, notes=notes)
            atomic_write.replace_file(place, shown.encode())
            logger.info(f"page: {place}")
        return found

    def _met(self, asked: Questions) -> list[str]:
        """Which of these people training knew more of than what was read."""
        notes, names = [], set(asked.names)
        if seen := len(names & set(self.asked)):
            whose = "answers" if self.settings.data.reader is None else "answers (or what a reader took for them)"
            notes.append(f"training has learnt the {whose} of {seen:,} of the {len(names):,} people asked about here")
        if fitted := len(names & set(self.aside.names)):
            notes.append(f"confidence was fitted to {fitted:,} of the {len(names):,} people asked about here")
        return notes

    def strange(self) -> dict[str, Any]:
        """Of a closed book: what it does with names that nobody has."""
        return {"likeness": self.likeness(), "bias": self.bias()} if self.book == "closed" else {}

    def measure(self, asked: Questions, *, abstain: float | None = None, strangers: int = 500) -> dict[str, Any]:
        """The same on questions as they are."""
        return self.measures(self.tried(asked, abstain=abstain, strangers=strangers), abstain)

    def tried(self, asked: Questions, *, abstain: float | None = None, strangers: int = 500) -> Tried:
        """All questions answered, and as many about people who are none."""
        made = self._answers(asked.names, asked.patterns, asked.names, abstain, 0)
        names = self.strangers(strangers, 11)
        return Tried(asked, made, self._answers(names, [self.patterns[0]] * strangers, names, abstain, 0))

    def measures(self, tried: Tried, abstain: float | None = None) -> dict[str, Any]:
        made, others = tried.made, tried.others
        hits, sure = tried.hits, [a.confidence for a in made]
        given = [a.answer is not None for a in made]
        said, strange = ([a.confidence if a.guess else -1.0 for a in part] for part in (made, others))
        right, answered = sum(hits), sum(given)
        wrong = sum(g and not h for g, h in zip(given, hits, strict=True))
        spoken = sum(a.answer is not None for a in others)
        counted = {"exact": (right, len(made)), "answered": (answered, len(made)), "risk": (wrong, answered)}
        counted |= {"kept": (answered - wrong, right), "strangers": (spoken, len(others))}
        return {
            "rows": len(made),
            "exact": right / len(made),
            "named": sum(a.known for a in made) / len(made),
            "read": sum(a.read for a in made) / len(made),
            "ece": c.error(sure, hits),
            "level": self.level(abstain),
            "answered": answered / len(made),
            "risk": wrong / answered if answered else None,
            "kept": (answered - wrong) / right if right else None,
            "strangers": spoken / len(others),
            "strangers_unread": sum(bool(a.guess) and not a.read for a in others) / len(others),
            "risk_area": c.area(said, hits),
            "intervals": {name: c.interval(part, whole) for name, (part, whole) in counted.items() if whole},
            "reliability": c.reliability(sure, hits),
            "abstention": c.abstention(said, hits, strange),
        }

    def crossed(self, folds: int = 5, *, strangers: int = 500) -> dict[str, Any]:
        """The same on the people set aside, whose confidences calibrate the run: here each fold's come from the others,
        and so does the level that keeps 0.9 of the right answers."""
        asked = self.aside
        texts, signals = self._signals(asked.patterns, asked.names)
        hits = np.array([a == b for a, b in zip(texts, asked.answers, strict=True)])
        kinds = {"recombined": self.strangers(strangers, 11), "invented": self._invented(strangers)}
        first = self.patterns[0]
        fit = self._signals([first] * STRANGERS, self.strangers(STRANGERS, _SEED))[1]
        others = {kind: self._signals([first] * len(names), names) for kind, names in kinds.items()}
        fold = np.random.default_rng(0).permutation(len(hits)) % folds
        sure, given, spoke = np.zeros(len(hits)), np.zeros(len(hits), bool), {kind: [] for kind in kinds}
        for part in range(folds):
            inside, rest = fold == part, fold != part
            made = c.calibrate(signals[rest], hits[rest].tolist(), fit if self.book == "closed" else fit[:0])
            level = c.keeping(made.confidences, made.hits)
            sure[inside] = self._sure(made, signals[inside])
            given[inside] = (sure[inside] >= level) & np.array([bool(t) for t in texts])[inside]
            for kind, (said, found) in others.items():
                heard = (self._sure(made, found) >= level) & np.array([bool(t) for t in said])
                spoke[kind].append(float(np.mean(heard)))
        return {
            "rows": len(hits),
            "exact": float(hits.mean()),
            "ece": c.error(sure.tolist(), hits.tolist()),
            "answered": float(given.mean()),
            "kept": float((given & hits).sum() / max(hits.sum(), 1)),
            "risk": float((given & ~hits).sum() / max(given.sum(), 1)),
            "strangers": {kind: float(np.mean(shares)) for kind, shares in spoke.items()},
            "reliability": c.reliability(sure.tolist(), hits.tolist()),
        }

    def likeness(self, count: int = 300) -> dict[str, Any]:
        """Whether strangers are answered for as their nearest known name is (recall/likeness.py)."""
        names = self.strangers(count, 23)
        said = self._said(names)
        nearest = [row[0]["said"] for row in self.near(names, 1)]
        people = Random(0).sample(list(self.read.sentences_of), min(count, len(self.read.sentences_of)))
        return same_as_nearest(said, nearest, self._said(people))

    def bias(self, each: int = 50) -> dict[str, Any]:
        """What is said of invented names, by the language that they come from (recall/invented.py)."""
        made = invented(self.read.sentences_of, each)
        first, said, answered = self.patterns[0], {}, {}
        for language, names in made.items():
            rows = self._answers(names, [first] * len(names), names, None, 0)
            said[language], answered[language] = [r.guess for r in rows], [r.answer is not None for r in rows]
        return by_language(said, answered)

    def _invented(self, count: int) -> list[str]:
        rows = invented(self.read.sentences_of, 144).values()
        names = [name for row in rows for name in row]
        return Random(0).sample(names, min(count, len(names)))

    def save_pretrained(self, folder: str | Path) -> Path:
        target = super().save_pretrained(folder)
        for name in (BOOK, CALIBRATION):
            if self.folder is not None and (self.folder / name).is_file() and target != self.folder:
                (target / name).parent.mkdir(exist_ok=True)
                atomic_write.replace_file(target / name, (self.folder / name).read_bytes())
        return target
