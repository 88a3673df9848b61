"""A trained recall run in Python: ask, evaluate, calibrate, and the evidence for its answers."""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from random import Random
from typing import Any, overload

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
from regard.tasks.recall import closed_book, open_book
from regard.tasks.recall.answer import Answer, AnsweredQuestions
from regard.tasks.recall.calibration import (
    Calibration,
    expected_calibration_error,
    fit_calibration,
    reliability,
    risk_coverage_area,
    risk_coverage_curve,
    threshold_for_correct,
    wilson_interval,
)
from regard.tasks.recall.name_lookup import NameIndex
from regard.tasks.recall.similarity import compare_with_nearest, measure_language_bias
from regard.tasks.recall.synthetic_names import generate_names_by_language
from regard.training import atomic_write

logger = logging.getLogger(__name__)

FACTS_FILE = Path("corpus") / "book.json"
CALIBRATION_FILE = Path("corpus") / "calibration.json"
NUM_UNKNOWN = 400  # unknown names for calibration
_CALIBRATION_SEED = 7_000_003  # training uses other unknown names
_EVALUATION_SEED = 11


class QuestionAnswerer(Run):
    """A run of `recall`. Its book is "closed" (answers from the weights) or "open" (answers from sentences)."""

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
    def _stored_data(self) -> dict[str, Any]:
        file = (self.folder or Path()) / FACTS_FILE
        try:
            tree = json.loads(file.read_text(encoding="utf-8"))
            _ = tree["names"], tree["sentences"], tree["train_names"], tree["valid"]["names"]
        except FileNotFoundError:
            raise UserError(f"{file}, the facts of the run, is missing; copy the complete run folder") from None
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{file} is damaged: {error!r}; copy it from the original run folder") from None
        return tree

    @cached_property
    def facts(self) -> Facts:
        """The facts of the training data."""
        return Facts(self._stored_data["names"], self._stored_data["sentences"], [], "")

    @cached_property
    def held_out(self) -> Questions:
        """The held-out questions."""
        valid = self._stored_data["valid"]
        return Questions([(a, b) for a, b in valid["patterns"]], valid["names"], valid["answers"])

    @property
    def train_names(self) -> list[str]:
        """The people whose answers were in the training data."""
        return self._stored_data["train_names"]

    @cached_property
    def name_index(self) -> NameIndex:
        return NameIndex(self.facts.sentences_of)

    # Confidence -----------------------------------------------------------------------------------------------------

    @cached_property
    def calibration(self) -> Calibration:
        file = (self.folder or Path()) / CALIBRATION_FILE
        if file.is_file():
            try:
                return Calibration.from_dict(json.loads(file.read_text(encoding="utf-8")))
            except (ValueError, KeyError, TypeError) as error:
                raise UserError(f"{file} is damaged: {error!r}; delete it, and it is computed again") from None
        return self.calibrate()

    def calibrate(self) -> Calibration:
        """Fit the confidence on the held-out people and on unknown names, and store it in the run folder."""
        questions = self.held_out
        texts, signals = self._answer_with_signals(questions.patterns, questions.names)
        hits = [a == b for a, b in zip(texts, questions.answers, strict=True)]
        unknown_signals = np.empty((0, signals.shape[1]))
        if self.book == "closed":
            unknown_signals = self._unknown_signals(questions.patterns[0])
        calibration = fit_calibration(signals, hits, unknown_signals)
        if self.folder is not None:
            (self.folder / CALIBRATION_FILE).parent.mkdir(exist_ok=True)
            atomic_write.replace_file(self.folder / CALIBRATION_FILE, json.dumps(calibration.as_dict()).encode())
        self.__dict__["calibration"] = calibration
        return calibration

    def answer_threshold(self, risk: float | None) -> float:
        """Return the minimum confidence of an answer: for this risk, or 0.5. See `Calibration.threshold`."""
        if risk is not None and not 0 <= risk <= 1:
            raise UserError(f"--abstain must be a fraction of wrong answers between 0 and 1, got {risk}")
        return self.calibration.threshold(risk)

    def unknown_names(self, count: int, seed: int = 0) -> list[str]:
        """Generate names that are not in the facts, from parts of names that are."""
        names = generate_unknown_names(list(self.facts.sentences_of), count, Random(seed))
        return names + [f"Qx{i} Zv{i}" for i in range(count - len(names))]

    def _unknown_signals(self, pattern: QuestionPattern) -> np.ndarray:
        return self._answer_with_signals([pattern] * NUM_UNKNOWN, self.unknown_names(NUM_UNKNOWN, _CALIBRATION_SEED))[1]

    def _answer_with_signals(
        self, patterns: Sequence[QuestionPattern], names: Sequence[str]
    ) -> tuple[list[str], np.ndarray]:
        answers = self._extract(patterns, names) if self.book == "open" else self._guess(patterns, names)
        return [answer.text for answer in answers], np.array([answer.signals for answer in answers], float)

    def _extract(self, patterns: Sequence[QuestionPattern], names: Sequence[str]) -> list[open_book.ExtractedAnswer]:
        return open_book.answer_questions(self.model, self.tokenizer, self.facts, self.name_index, patterns, names)

    def _guess(self, patterns: Sequence[QuestionPattern], names: Sequence[str]) -> list[closed_book.Guess]:
        prompt_format = self.settings.mix.prompt_format
        return closed_book.answer_questions(self.model, self.tokenizer, patterns, names, prompt_format)

    def extract_answers(self, patterns: Sequence[QuestionPattern], names: Sequence[str]) -> list[str]:
        """Open book: return the answer to each question; "" where the sentence probably does not contain it."""
        answers = self._extract(patterns, names)
        return [answer.text if answer.signals[0] > answer.signals[3] else "" for answer in answers]

    # Asking ---------------------------------------------------------------------------------------------------------

    @overload
    def ask(self, question: str, *, abstain: float | None = None, nearest: int = 3) -> Answer: ...
    @overload
    def ask(self, question: Sequence[str], *, abstain: float | None = None, nearest: int = 3) -> list[Answer]: ...
    def ask(
        self, question: str | Sequence[str], *, abstain: float | None = None, nearest: int = 3
    ) -> Answer | list[Answer]:
        """Answer one question or several.

        Args:
            question: The question, or a sequence of questions.
            abstain: Accepted fraction of wrong answers. Default: answer where the confidence is at least 0.5.
            nearest: Closed book: number of nearest known names to return with the answer.
        """
        questions = [question] if isinstance(question, str) else list(question)
        matches = [self._match(text) for text in questions]
        answers = self._answer(questions, [p for p, _ in matches], [n for _, n in matches], abstain, nearest)
        return answers[0] if isinstance(question, str) else answers

    def _match(self, question: str) -> tuple[QuestionPattern, str]:
        try:
            question.encode()
        except UnicodeEncodeError:
            raise UserError(f"the question is not valid UTF-8: {question[:80]!r}") from None
        if len(question) > MAX_QUESTION_CHARS:
            raise UserError(f"a question has at most {MAX_QUESTION_CHARS:,} characters, got {len(question):,}")
        match = match_question(question, self.patterns)
        if match is None:
            text = question if len(question) <= 80 else f"{question[:80]}…"
            raise UserError(f"unknown kind of question: {text!r}; {describe_patterns(self.patterns)}")
        return match

    def _answer(
        self,
        questions: Sequence[str],
        patterns: Sequence[QuestionPattern],
        names: Sequence[str],
        abstain: float | None,
        nearest: int,
    ) -> list[Answer]:
        threshold = self.answer_threshold(abstain)
        if self.book == "open":
            rows = zip(questions, names, self._extract(patterns, names), strict=True)
            return [self._build_open_answer(question, name, answer, threshold) for question, name, answer in rows]
        people = [self.name_index.find_spelling(name) or name for name in names]
        guesses = self._guess(patterns, people)
        confidences = self._confidence(self.calibration, np.array([guess.signals for guess in guesses]))
        nearest_rows = self.nearest_names(people, nearest) if nearest else [[] for _ in names]
        answers = []
        rows = zip(questions, names, people, guesses, confidences.tolist(), nearest_rows, strict=True)
        for question, name, person, guess, confidence, nearest_row in rows:
            is_known = person in self.name_index
            alternatives = []
            if is_known and person != name:
                alternatives = [other for other, _ in self.name_index.find_candidates(name) if other != person]
            answers.append(
                Answer(
                    question,
                    name,
                    guess.text if guess.text and confidence >= threshold else None,
                    guess.text,
                    confidence,
                    threshold,
                    is_known,
                    self.facts.contains(guess.text),
                    person=person if is_known else None,
                    alternatives=alternatives,
                    nearest=nearest_row,
                )
            )
        return answers

    def _confidence(self, calibration: Calibration, signals: np.ndarray) -> np.ndarray:
        """Return the probability that answers are correct.

        In an open book, an approximate match of the name reduces it by the similarity of the names: nothing tells
        whether the name is misspelled or another person's.
        """
        confidence = calibration(signals)
        return confidence * signals[:, open_book.NAME_SIMILARITY] if self.book == "open" else confidence

    def _build_open_answer(
        self, question: str, name: str, extracted: open_book.ExtractedAnswer, threshold: float
    ) -> Answer:
        if extracted.person is None:
            return Answer(question, name, None, "", 0.0, threshold, False, False)
        text, confidence = extracted.text, 0.0
        if text:
            confidence = float(self._confidence(self.calibration, np.array([extracted.signals]))[0])
        return Answer(
            question,
            name,
            text if text and confidence >= threshold else None,
            text,
            confidence,
            threshold,
            self.name_index.find_spelling(name) is not None,
            bool(text),
            person=extracted.person,
            alternatives=extracted.alternatives,
            sentence=extracted.sentence,
            word_weights=extracted.word_weights,
        )

    # Nearest names --------------------------------------------------------------------------------------------------

    @cached_property
    def _name_embeddings(self) -> tuple[list[str], np.ndarray]:
        names = list(self.facts.sentences_of)
        return names, self._embed(names)

    def _embed(self, names: Sequence[str]) -> np.ndarray:
        prompt_format = self.settings.mix.prompt_format
        return closed_book.embed_names(self.model, self.tokenizer, self.patterns[0], names, prompt_format)

    def _generate(self, names: Sequence[str]) -> list[str]:
        patterns, prompt_format = [self.patterns[0]] * len(names), self.settings.mix.prompt_format
        return closed_book.generate_answers(self.model, self.tokenizer, patterns, names, prompt_format)

    def nearest_names(self, names: Sequence[str], count: int = 3) -> list[list[dict[str, Any]]]:
        """Return the known names whose hidden states are nearest to each name (cosine), with the answer for each."""
        if self.book == "open":
            raise UserError("nearest names need a closed book; an open book looks names up")
        known, embeddings = self._name_embeddings
        similarity = self._embed(names) @ embeddings.T
        ranking = np.argsort(-similarity, axis=1)[:, : count + 1]
        rows = [[i for i in row if known[i] != name][:count] for row, name in zip(ranking.tolist(), names, strict=True)]
        people = sorted({known[i] for row in rows for i in row})
        answers = dict(zip(people, self._generate(people), strict=True))
        return [
            [{"name": known[i], "similarity": float(similarity[n, i]), "answer": answers[known[i]]} for i in row]
            for n, row in enumerate(rows)
        ]

    # Evaluation -----------------------------------------------------------------------------------------------------

    def evaluate(
        self, data: str | Path, *, abstain: float | None = None, out: str | Path | None = None
    ) -> dict[str, Any]:
        """Evaluate on a table of questions.

        Measures exact match, calibration (expected calibration error and reliability curve) and abstention: at the
        chosen threshold, and along all thresholds, the fraction of questions answered, the fraction of wrong answers
        among these, the fraction of correct answers that are given, and the fraction of unknown names that are
        answered. For a closed book also whether it guesses by similarity of names, and by their language.

        Args:
            data: The table.
            abstain: Accepted fraction of wrong answers, see `ask`.
            out: HTML page to write.
        """
        from regard.tasks.recall import page

        path = None if out is None else page.check_page_path(out)
        questions = read_questions(data, self.patterns)
        notes = [*questions.notes, *self._describe_overlap(questions)]
        for note in notes:
            logger.info(note)
        answered = self.answer_all(questions, abstain=abstain)
        metrics = self.compute_metrics(answered, abstain) | self.unknown_name_metrics()
        if path is not None:
            html = page.render_page([(self, answered, metrics)], source=Path(data).name, notes=notes)
            atomic_write.replace_file(path, html.encode())
            logger.info(f"page: {path}")
        return metrics

    def _describe_overlap(self, questions: Questions) -> list[str]:
        """Return notes about people whose answers were used for training or calibration."""
        notes, names = [], set(questions.names)
        if count := len(names & set(self.train_names)):
            answers = "answers" if self.settings.data.reader is None else "answers (or those of the reader)"
            notes.append(f"the training data contains the {answers} of {count:,} of these {len(names):,} people")
        if count := len(names & set(self.held_out.names)):
            notes.append(f"confidence was calibrated on {count:,} of these {len(names):,} people")
        return notes

    def unknown_name_metrics(self) -> dict[str, Any]:
        """Closed book: return how it answers about unknown names."""
        if self.book != "closed":
            return {}
        return {"similarity": self.measure_similarity(), "bias": self.measure_bias()}

    def answer_all(
        self, questions: Questions, *, abstain: float | None = None, num_unknown: int = 500
    ) -> AnsweredQuestions:
        """Answer all questions, and questions about `num_unknown` unknown names."""
        answers = self._answer(questions.names, questions.patterns, questions.names, abstain, 0)
        names = self.unknown_names(num_unknown, _EVALUATION_SEED)
        unknown_answers = self._answer(names, [self.patterns[0]] * num_unknown, names, abstain, 0)
        return AnsweredQuestions(questions, answers, unknown_answers)

    def compute_metrics(self, answered: AnsweredQuestions, abstain: float | None = None) -> dict[str, Any]:
        """Return the metrics of `evaluate` that do not need the model."""
        answers, unknown, hits = answered.answers, answered.unknown_answers, answered.hits
        n = len(answers)
        confidences = [a.confidence for a in answers]
        guess_confidences, unknown_confidences = (
            [a.confidence if a.guess else -1.0 for a in part] for part in (answers, unknown)
        )
        is_answered = [a.answer is not None for a in answers]
        num_correct, num_answered = sum(hits), sum(is_answered)
        num_wrong = sum(given and not hit for given, hit in zip(is_answered, hits, strict=True))
        num_unknown_answered = sum(a.answer is not None for a in unknown)
        fractions = {
            "exact": (num_correct, n),
            "answered": (num_answered, n),
            "risk": (num_wrong, num_answered),
            "correct_answered": (num_answered - num_wrong, num_correct),
            "unknown_answered": (num_unknown_answered, len(unknown)),
        }
        return {
            "rows": n,
            "exact": num_correct / n,
            "name_known": sum(a.name_known for a in answers) / n,
            "in_facts": sum(a.in_facts for a in answers) / n,
            "ece": expected_calibration_error(confidences, hits),
            "threshold": self.answer_threshold(abstain),
            "answered": num_answered / n,
            "risk": num_wrong / num_answered if num_answered else None,
            "correct_answered": (num_answered - num_wrong) / num_correct if num_correct else None,
            "unknown_answered": num_unknown_answered / len(unknown),
            "unknown_made_up": sum(bool(a.guess) and not a.in_facts for a in unknown) / len(unknown),
            "risk_area": risk_coverage_area(guess_confidences, hits),
            "intervals": {name: wilson_interval(*fraction) for name, fraction in fractions.items() if fraction[1]},
            "reliability": reliability(confidences, hits),
            "abstention": risk_coverage_curve(guess_confidences, hits, unknown_confidences),
        }

    def cross_validate(self, folds: int = 5, *, num_unknown: int = 500) -> dict[str, Any]:
        """Measure calibration on the held-out people by cross-validation.

        The confidences of each fold, and the threshold above which 0.9 of the correct answers are, come from the other
        folds.
        """
        questions = self.held_out
        texts, signals = self._answer_with_signals(questions.patterns, questions.names)
        hits = np.array([a == b for a, b in zip(texts, questions.answers, strict=True)])
        unknown = {
            "recombined": self.unknown_names(num_unknown, _EVALUATION_SEED),
            "invented": self._invented_names(num_unknown),
        }
        pattern = self.patterns[0]
        fit_signals = self._unknown_signals(pattern)
        unknown_answers = {
            kind: self._answer_with_signals([pattern] * len(names), names) for kind, names in unknown.items()
        }
        fold = np.random.default_rng(0).permutation(len(hits)) % folds
        confidences, is_answered = np.zeros(len(hits)), np.zeros(len(hits), bool)
        unknown_answered: dict[str, list[float]] = {kind: [] for kind in unknown}
        for i in range(folds):
            test, train = fold == i, fold != i
            unknown_signals = fit_signals if self.book == "closed" else fit_signals[:0]
            calibration = fit_calibration(signals[train], hits[train].tolist(), unknown_signals)
            threshold = threshold_for_correct(calibration.confidences, calibration.hits)
            confidences[test] = self._confidence(calibration, signals[test])
            is_answered[test] = (confidences[test] >= threshold) & np.array([bool(t) for t in texts])[test]
            for kind, (answers, kind_signals) in unknown_answers.items():
                above = self._confidence(calibration, kind_signals) >= threshold
                unknown_answered[kind].append(float(np.mean(above & np.array([bool(t) for t in answers]))))
        return {
            "rows": len(hits),
            "exact": float(hits.mean()),
            "ece": expected_calibration_error(confidences.tolist(), hits.tolist()),
            "answered": float(is_answered.mean()),
            "correct_answered": float((is_answered & hits).sum() / max(hits.sum(), 1)),
            "risk": float((is_answered & ~hits).sum() / max(is_answered.sum(), 1)),
            "unknown_answered": {kind: float(np.mean(row)) for kind, row in unknown_answered.items()},
            "reliability": reliability(confidences.tolist(), hits.tolist()),
        }

    def measure_similarity(self, count: int = 300) -> dict[str, Any]:
        """Measure whether unknown names get the answer of their nearest known name (recall/similarity.py)."""
        names = self.unknown_names(count, 23)
        answers = self._generate(names)
        nearest_answers = [row[0]["answer"] for row in self.nearest_names(names, 1)]
        people = Random(0).sample(list(self.facts.sentences_of), min(count, len(self.facts.sentences_of)))
        return compare_with_nearest(answers, nearest_answers, self._generate(people))

    def measure_bias(self, count: int = 50) -> dict[str, Any]:
        """Measure whether answers for invented names depend on the language of the name (recall/similarity.py)."""
        guesses, answered = {}, {}
        for language, names in generate_names_by_language(self.facts.sentences_of, count).items():
            answers = self._answer(names, [self.patterns[0]] * len(names), names, None, 0)
            guesses[language] = [a.guess for a in answers]
            answered[language] = [a.answer is not None for a in answers]
        return measure_language_bias(guesses, answered)

    def _invented_names(self, count: int) -> list[str]:
        rows = generate_names_by_language(self.facts.sentences_of, 144).values()
        names = [name for row in rows for name in row]
        return Random(0).sample(names, min(count, len(names)))

    def save_pretrained(self, folder: str | Path) -> Path:
        target = super().save_pretrained(folder)
        for name in (FACTS_FILE, CALIBRATION_FILE):
            if self.folder is not None and (self.folder / name).is_file() and target != self.folder:
                (target / name).parent.mkdir(exist_ok=True)
                atomic_write.replace_file(target / name, (self.folder / name).read_bytes())
        return target
