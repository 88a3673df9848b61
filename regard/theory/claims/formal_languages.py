"""Formal languages by length: half of the texts belong to the language; the others are as similar as possible.

parity      an odd number of ones                       majority    more ones than zeros
dyck-1      balanced brackets of one kind               dyck-2      balanced brackets of two kinds
anbn        n times a, then n times b                   periodic    the word aab repeated
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from regard.errors import UserError, suggest_choices

Generator = Callable[[np.random.Generator, int, np.ndarray], np.ndarray]


def generate(name: str, length: int, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return texts as ids from 1 on, (count, length), and labels (count,): 1 if the text belongs to the language."""
    if name not in LANGUAGES:
        raise UserError(f"no language is called {name!r}; {suggest_choices(name, LANGUAGES)}")
    if length not in valid_lengths(name, length):
        raise UserError(
            f"{name} has no texts of length {length}; the next shorter one: {valid_lengths(name, length)[-1:]}"
        )
    rng = np.random.default_rng((sum(map(ord, name)), length, seed))
    labels = np.arange(count) % 2
    rng.shuffle(labels)
    ids = LANGUAGES[name](rng, length, labels)
    return ids.astype(np.int64) + 1, labels.astype(np.int64)


def is_member(name: str, text: np.ndarray) -> bool:
    """Return whether a text (ids from 1 on) is in the language, by definition."""
    return MEMBERSHIP[name](text - 1)


def valid_lengths(name: str, max_length: int) -> list[int]:
    """Return the lengths up to `max_length` at which there are texts inside and outside of the language."""
    step, min_length = {"majority": (2, 1), "periodic": (3, 3), "parity": (1, 1)}.get(name, (2, 4))
    return list(range(min_length, max_length + 1, step))


def num_symbols(name: str) -> int:
    return 4 if name == "dyck-2" else 2


def _random_bits(rng: np.random.Generator, length: int, labels: np.ndarray) -> np.ndarray:
    return rng.integers(0, 2, (len(labels), length))


def _parity(rng: np.random.Generator, length: int, labels: np.ndarray) -> np.ndarray:
    """Random bits; the last bit is set to match the label."""
    ids = _random_bits(rng, length, labels)
    ids[:, -1] ^= (ids.sum(1) + labels) % 2
    return ids


def _majority(rng: np.random.Generator, length: int, labels: np.ndarray) -> np.ndarray:
    """Random bits; all bits are inverted if they do not match the label."""
    ids = _random_bits(rng, length, labels)
    mismatch = (2 * ids.sum(1) > length) != labels
    return np.where(mismatch[:, None], 1 - ids, ids)


def _balanced(rng: np.random.Generator, length: int, num_kinds: int) -> np.ndarray:
    """Return balanced brackets: open or close at random wherever both are possible."""
    word, stack = [], []
    for position in range(length):
        must_close, must_open = len(stack) == length - position, not stack
        if must_open or (not must_close and rng.random() < 0.5):
            kind = int(rng.integers(num_kinds))
            stack.append(kind)
            word.append(2 * kind)
        else:
            word.append(2 * stack.pop() + 1)
    return np.array(word)


def _dyck(num_kinds: int) -> Generator:
    def generate_words(rng: np.random.Generator, length: int, labels: np.ndarray) -> np.ndarray:
        rows = []
        for label in labels:
            word = _balanced(rng, length, num_kinds)
            while not label and _is_balanced(word):  # swap two symbols, or change one bracket, until it is unbalanced
                i, j = rng.integers(0, length, 2)
                if num_kinds > 1 and rng.random() < 0.5:
                    word[i] = (word[i] + 2) % (2 * num_kinds)
                else:
                    word[i], word[j] = word[j], word[i]
            rows.append(word)
        return np.stack(rows)

    return generate_words


def _is_balanced(word: np.ndarray) -> bool:
    stack: list[int] = []
    for symbol in word.tolist():
        kind, closing = divmod(symbol, 2)
        if not closing:
            stack.append(kind)
        elif not stack or stack.pop() != kind:
            return False
    return not stack


def _anbn(rng: np.random.Generator, length: int, labels: np.ndarray) -> np.ndarray:
    """Negative texts have another number of a, or an a and a b swapped."""
    half = length // 2
    rows = []
    for label in labels:
        word = np.repeat([0, 1], half)
        if not label and rng.random() < 0.5:
            num_a = int(rng.integers(0, length))
            num_a += num_a >= half  # any number but half
            word = np.array([0] * num_a + [1] * (length - num_a))
        elif not label:
            i, j = int(rng.integers(0, half)), int(rng.integers(half, length))
            word[i], word[j] = 1, 0
        rows.append(word)
    return np.stack(rows)


def _periodic(rng: np.random.Generator, length: int, labels: np.ndarray) -> np.ndarray:
    """Negative texts have one symbol changed."""
    ids = np.tile([0, 0, 1], (len(labels), length // 3))
    positions = rng.integers(0, length, len(labels))
    rows = np.flatnonzero(labels == 0)
    ids[rows, positions[rows]] ^= 1
    return ids


LANGUAGES: dict[str, Generator] = {
    "parity": _parity,
    "majority": _majority,
    "dyck-1": _dyck(1),
    "dyck-2": _dyck(2),
    "anbn": _anbn,
    "periodic": _periodic,
}

MEMBERSHIP: dict[str, Callable[[np.ndarray], bool]] = {
    "parity": lambda word: bool(word.sum() % 2),
    "majority": lambda word: bool(2 * word.sum() > len(word)),
    "dyck-1": _is_balanced,
    "dyck-2": _is_balanced,
    "anbn": lambda word: len(word) % 2 == 0 and word.tolist() == [0] * (len(word) // 2) + [1] * (len(word) // 2),
    "periodic": lambda word: len(word) % 3 == 0 and word.tolist() == [0, 0, 1] * (len(word) // 3),
}
