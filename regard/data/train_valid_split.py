"""Set a validation part aside, class by class, and count documents that stand in both parts."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from regard.errors import UserError


def split_indices(labels: Sequence[str], fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices for training and for validation, in order.

    Of each class `fraction` goes to validation, with one at least on each side where the class has two or more; a class
    of one goes to training.
    """
    if not 0 < fraction < 1:
        raise UserError(f"the validation fraction must lie between 0 and 1, and was given {fraction}")
    if len(labels) < 2:
        raise UserError(
            f"{len(labels)} document(s) cannot be split into training and validation; two or more are wanted"
        )
    random = np.random.default_rng(seed)
    _, classes = np.unique(np.asarray(labels, dtype=object).astype(str), return_inverse=True)
    valid = np.zeros(len(labels), bool)
    for number in range(classes.max() + 1):
        members = np.flatnonzero(classes == number)
        if len(members) > 1:
            count = int(np.clip(round(len(members) * fraction), 1, len(members) - 1))
            valid[random.permutation(members)[:count]] = True
    if not valid.any():
        raise UserError(
            f"each of the {len(labels)} documents has a label of its own, so none can be set aside for validation; "
            "is it the right label column?"
        )
    return np.flatnonzero(~valid), np.flatnonzero(valid)


def count_duplicates(texts_a: Sequence[str], texts_b: Sequence[str]) -> int:
    """How many of `texts_b` stand in `texts_a` too, letter case and spacing aside."""
    known = {_key(text) for text in texts_a}
    return sum(_key(text) in known for text in texts_b)


def _key(text: str) -> bytes:
    return blake2b(" ".join(text.lower().split()).encode("utf-8", "surrogatepass"), digest_size=16).digest()
