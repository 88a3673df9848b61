"""Random numbers that hang on what they are for and on nothing else: the same item gets the same ones in any batch, on
any number of processes, before and after a resume. SplitMix64 (Steele et al. 2014, figure 16), a row for each item."""

from __future__ import annotations

import numpy as np

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def uniform(seed: int, epoch: int, use: int, items: np.ndarray, width: int) -> np.ndarray:
    """(items, width) in [0, 1). `use` tells apart what they are drawn for."""
    key = np.zeros(1, np.uint64)
    for part in (seed, epoch, use):
        key = _mixed(key + np.uint64(part) + _GOLDEN)
    rows = _mixed(key + np.asarray(items).astype(np.uint64) * _GOLDEN)[:, None]
    places = np.arange(1, width + 1, dtype=np.uint64) * _GOLDEN
    return (_mixed(rows + places) >> np.uint64(11)) * 2.0**-53


def below(bound: int | np.ndarray, chance: np.ndarray) -> np.ndarray:
    """Whole numbers from 0 to bound - 1 out of numbers in [0, 1)."""
    return np.minimum((chance * bound).astype(np.int64), np.asarray(bound) - 1)


def _mixed(z: np.ndarray) -> np.ndarray:
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))
