"""Formal languages by length: texts that belong and texts that do not, half of each, the latter as near as can be.

    parity      an odd number of ones                     majority    more ones than zeros
    dyck-1      brackets of one kind that close           dyck-2      of two kinds
    anbn        as many a as b, the a first               periodic    the word aab over and over

`generate(name, length, count, seed)` gives ids (count, length), numbered from 1, and labels (count,); the same seed the
same texts.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from regard.errors import UserError, suggest_choices

Texts = tuple[np.ndarray, np.ndarray]


def generate(name: str, length: int, count: int, seed: int) -> Texts:
    if name not in LANGUAGES:
        raise UserError(f"no language is called {name!r}; {suggest_choices(name, LANGUAGES)}")
    if length not in lengths(name, length):
        raise UserError(f"{name} has no texts of length {length}; the nearest shorter: {lengths(name, length)[-1:]}")
    draw = np.random.default_rng((sum(map(ord, name)), length, seed))
    labels = np.arange(count) % 2
    draw.shuffle(labels)
    ids = LANGUAGES[name](draw, length, labels)
    return ids.astype(np.int64) + 1, labels.astype(np.int64)


def belongs(name: str, text: np.ndarray) -> bool:
    """Whether a text (ids from 1) is in the language, by its definition."""
    return TESTS[name](text - 1)


def lengths(name: str, longest: int) -> list[int]:
    """The lengths up to the longest at which there are texts of both kinds."""
    step, least = {"majority": (2, 1), "periodic": (3, 3), "parity": (1, 1)}.get(name, (2, 4))
    return list(range(least, longest + 1, step))


def symbols(name: str) -> int:
    return 4 if name == "dyck-2" else 2


def _bits(draw: np.random.Generator, length: int, labels: np.ndarray) -> np.ndarray:
    return draw.integers(0, 2, (len(labels), length))


def _parity(draw: np.random.Generator, length: int, labels: np.ndarray) -> np.ndarray:
    """Any bits, the last set so that the label is right."""
    ids = _bits(draw, length, labels)
    ids[:, -1] ^= (ids.sum(1) + labels) % 2
    return ids


def _majority(draw: np.random.Generator, length: int, labels: np.ndarray) -> np.ndarray:
    ids = _bits(draw, length, labels)
    wrong = (2 * ids.sum(1) > length) != labels
    return np.where(wrong[:, None], 1 - ids, ids)


def _balanced(draw: np.random.Generator, length: int, kinds: int) -> np.ndarray:
    """A word of brackets that close: opened or closed by chance wherever both may be."""
    word, open_ = [], []
    for place in range(length):
        left = length - place
        must_close, must_open = len(open_) == left, not open_
        if must_open or (not must_close and draw.random() < 0.5):
            kind = int(draw.integers(kinds))
            open_.append(kind)
            word.append(2 * kind)
        else:
            word.append(2 * open_.pop() + 1)
    return np.array(word)


def _dyck(kinds: int) -> Callable[[np.random.Generator, int, np.ndarray], np.ndarray]:
    test = _closes(kinds)

    def made(draw: np.random.Generator, length: int, labels: np.ndarray) -> np.ndarray:
        rows = []
        for label in labels:
            word = _balanced(draw, length, kinds)
            while not label and test(word):  # two places trade, or a bracket changes, until it no longer closes
                i, j = draw.integers(0, length, 2)
                if kinds > 1 and draw.random() < 0.5:
                    word[i] = (word[i] + 2) % (2 * kinds)
                else:
                    word[i], word[j] = word[j], word[i]
            rows.append(word)
        return np.stack(rows)

    return made


def _closes(kinds: int) -> Callable[[np.ndarray], bool]:
    def test(word: np.ndarray) -> bool:
        stack: list[int] = []
        for symbol in word.tolist():
            kind, closing = divmod(symbol, 2)
            if not closing:
                stack.append(kind)
            elif not stack or stack.pop() != kind:
                return False
        return not stack

    return test


def _anbn(draw: np.random.Generator, length: int, labels: np.ndarray) -> np.ndarray:
    """Without: another number of a, or two places that trade."""
    half = length // 2
    rows = []
    for label in labels:
        word = np.repeat([0, 1], half)
        if not label and draw.random() < 0.5:
            other = int(draw.integers(0, length))
            other += other >= half  # anything but half
            word = np.array([0] * other + [1] * (length - other))
        elif not label:
            i, j = int(draw.integers(0, half)), int(draw.integers(half, length))
            word[i], word[j] = 1, 0
        rows.append(word)
    return np.stack(rows)


def _periodic(draw: np.random.Generator, length: int, labels: np.ndarray) -> np.ndarray:
    """Without: one symbol turned."""
    ids = np.tile([0, 0, 1], (len(labels), length // 3))
    where = draw.integers(0, length, len(labels))
    rows = np.flatnonzero(labels == 0)
    ids[rows, where[rows]] ^= 1
    return ids


LANGUAGES: dict[str, Callable[[np.random.Generator, int, np.ndarray], np.ndarray]] = {
    "parity": _parity,
    "majority": _majority,
    "dyck-1": _dyck(1),
    "dyck-2": _dyck(2),
    "anbn": _anbn,
    "periodic": _periodic,
}

TESTS: dict[str, Callable[[np.ndarray], bool]] = {
    "parity": lambda word: bool(word.sum() % 2),
    "majority": lambda word: bool(2 * word.sum() > len(word)),
    "dyck-1": _closes(1),
    "dyck-2": _closes(2),
    "anbn": lambda word: len(word) % 2 == 0 and word.tolist() == [0] * (len(word) // 2) + [1] * (len(word) // 2),
    "periodic": lambda word: len(word) % 3 == 0 and word.tolist() == [0, 0, 1] * (len(word) // 3),
}
