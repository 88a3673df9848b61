"""Stratified split into training and validation parts, and duplicates between two parts."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from regard.errors import UserError


def split_indices(labels: Sequence[str], fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Split documents, stratified by class. Returns the sorted indices for training and for validation.

    A class with at least two documents has at least one in each part. A class with one document is used for training.
    """
    if not 0 < fraction < 1:
        raise UserError(f"the validation fraction must be between 0 and 1, got {fraction}")
    if len(labels) < 2:
        raise UserError(f"cannot split {len(labels)} document(s) into training and validation; at least two are needed")
    rng = np.random.default_rng(seed)
    _, classes = np.unique(np.asarray(labels, dtype=object).astype(str), return_inverse=True)
    is_valid = np.zeros(len(labels), bool)
    for number in range(classes.max() + 1):
        members = np.flatnonzero(classes == number)
        if len(members) > 1:
            count = int(np.clip(round(len(members) * fraction), 1, len(members) - 1))
            is_valid[rng.permutation(members)[:count]] = True
    if not is_valid.any():
        raise UserError(
            f"each of the {len(labels)} documents has a different label, so none can be held out for validation; "
            "is it the right label column?"
        )
    return np.flatnonzero(~is_valid), np.flatnonzero(is_valid)


def count_duplicates(texts_a: Sequence[str], texts_b: Sequence[str]) -> int:
    """Count the texts of `texts_b` that are also in `texts_a`, ignoring letter case and whitespace."""
    keys = {_hash_text(text) for text in texts_a}
    return sum(_hash_text(text) in keys for text in texts_b)


def _hash_text(text: str) -> bytes:
    return blake2b(" ".join(text.lower().split()).encode("utf-8", "surrogatepass"), digest_size=16).digest()
