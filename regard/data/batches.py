"""Batches of documents of like length, cut by a budget of tokens, and padding.

A batch costs (longest document) x (documents) places. Sorting all documents would waste the fewest places, and would
show the model the same neighbours in each epoch; so shuffle, sort inside pools of many batches, cut, and shuffle the
batches.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from regard.errors import UserError

POOL = 50  # batches in a pool


def plan(
    lengths: Sequence[int] | np.ndarray, tokens: int, *, seed: int, epoch: int, shuffle: bool = True
) -> list[np.ndarray]:
    """Indices of the documents of each batch: each document once, longest x count <= tokens unless it is alone.

    The same arguments give the same batches. Without `shuffle`, the longest documents come first.
    """
    if tokens < 1:
        raise UserError(f"the budget of a batch must be 1 token or more, and was given {tokens}")
    sizes = np.maximum(np.asarray(lengths, np.int64), 1)
    if not len(sizes):
        return []
    if not shuffle:
        return _cut(np.argsort(-sizes, kind="stable"), sizes, tokens)
    random = np.random.default_rng([seed, epoch])
    order = random.permutation(len(sizes))
    pool = max(1, int(POOL * tokens / sizes.mean()))
    batches: list[np.ndarray] = []
    for start in range(0, len(order), pool):
        part = order[start : start + pool]
        batches.extend(_cut(part[np.argsort(-sizes[part], kind="stable")], sizes, tokens))
    return [batches[i] for i in random.permutation(len(batches))]


def _cut(order: np.ndarray, sizes: np.ndarray, tokens: int) -> list[np.ndarray]:
    """Cut documents that stand in falling order of length: the first of a batch is its longest and fixes its count."""
    batches, start = [], 0
    while start < len(order):
        count = max(1, tokens // int(sizes[order[start]]))
        batches.append(order[start : start + count])
        start += count
    return batches


def pad(rows: Sequence[np.ndarray | Sequence[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Rows of ids as one array (b, n) int64, filled up with [PAD] = 0, and a mask (b, n), True on real tokens."""
    lengths = np.array([len(row) for row in rows], np.int64)
    mask = np.arange(lengths.max(initial=0)) < lengths[:, None]
    ids = np.zeros(mask.shape, np.int64)
    if lengths.sum():
        ids[mask] = np.concatenate([np.asarray(row, np.int64) for row in rows])
    return ids, mask
