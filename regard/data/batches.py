"""Batches of documents of similar length within a token budget, and padding.

A batch costs (longest document) x (documents) tokens. Sorting all documents by length would need the least padding, but
every epoch would have the same batches. So documents are shuffled, sorted within pools of many batches, and cut into
batches, which are shuffled again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.errors import UserError

BATCHES_PER_POOL = 50


def plan_batches(
    lengths: Sequence[int] | np.ndarray, max_tokens: int, *, seed: int, epoch: int, shuffle: bool = True
) -> list[np.ndarray]:
    """Return the document indices of each batch. Each document is in one batch.

    Args:
        lengths: Number of tokens of each document.
        max_tokens: Budget of a batch, longest document x documents. Only a batch of one document may exceed it.
        seed: The same seed and epoch give the same batches.
        epoch: Number of the epoch.
        shuffle: If False, the longest documents come first.
    """
    check_token_budget(max_tokens)
    sizes = np.maximum(np.asarray(lengths, np.int64), 1)
    if not len(sizes):
        return []
    if not shuffle:
        return _cut_batches(np.argsort(-sizes, kind="stable"), sizes, max_tokens)
    rng = np.random.default_rng([seed, epoch])
    permutation = rng.permutation(len(sizes))
    pool_size = max(1, int(BATCHES_PER_POOL * max_tokens / sizes.mean()))
    batches: list[np.ndarray] = []
    for start in range(0, len(permutation), pool_size):
        pool = permutation[start : start + pool_size]
        batches.extend(_cut_batches(pool[np.argsort(-sizes[pool], kind="stable")], sizes, max_tokens))
    return [batches[i] for i in rng.permutation(len(batches))]


def check_token_budget(max_tokens: int) -> None:
    """Raise a UserError if a batch could hold no token."""
    if max_tokens < 1:
        raise UserError(f"the token budget of a batch must be at least 1, got {max_tokens}")


def _cut_batches(indices: np.ndarray, sizes: np.ndarray, max_tokens: int) -> list[np.ndarray]:
    """Cut documents sorted by falling length: the first one of a batch is the longest and determines its size."""
    batches, start = [], 0
    while start < len(indices):
        count = max(1, max_tokens // int(sizes[indices[start]]))
        batches.append(indices[start : start + count])
        start += count
    return batches


def pad_rows(rows: Sequence[np.ndarray | Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Pad rows of ids with [PAD] = 0.

    Returns:
        ids, (batch, longest) int64, and mask, (batch, longest), True on real tokens.
    """
    lengths = np.array([len(row) for row in rows], np.int64)
    mask = np.arange(lengths.max(initial=0)) < lengths[:, None]
    ids = np.zeros(mask.shape, np.int64)
    if lengths.sum():
        ids[mask] = np.concatenate([np.asarray(row, np.int64) for row in rows])
    return ids, mask
