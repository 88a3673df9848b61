"""Counter-based random numbers: they depend only on the item and the purpose.

The same item gets the same numbers in any batch, on any number of processes, and before and after a resume. The
generator is SplitMix64 (Steele et al. 2014, figure 16) with one row per item.
"""

from __future__ import annotations

import numpy as np

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def uniform(seed: int, epoch: int, purpose: int, items: np.ndarray, width: int) -> np.ndarray:
    """Return uniform numbers in [0, 1), (items, width). Different `purpose` numbers give independent streams."""
    key = np.zeros(1, np.uint64)
    for part in (seed, epoch, purpose):
        key = _mix_bits(key + np.uint64(part) + _GOLDEN)
    rows = _mix_bits(key + np.asarray(items).astype(np.uint64) * _GOLDEN)[:, None]
    columns = np.arange(1, width + 1, dtype=np.uint64) * _GOLDEN
    return (_mix_bits(rows + columns) >> np.uint64(11)) * 2.0**-53


def scale_to_int(bound: int | np.ndarray, uniforms: np.ndarray) -> np.ndarray:
    """Map uniform numbers in [0, 1) to integers from 0 to bound - 1."""
    return np.minimum((uniforms * bound).astype(np.int64), np.asarray(bound) - 1)


def _mix_bits(z: np.ndarray) -> np.ndarray:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
