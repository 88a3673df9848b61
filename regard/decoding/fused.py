"""The blocks of a decoder, each as one call of a kernel: from a step's words to its states without Python in between.

    fused = fuse(blocks)                                    # None where a part is of another kind
    x = fused.step(x, caches, sources, seen, source_seen, turn)

Between two products of a step lies little work, so that the way from one call to the next, and waiting for another
thread that is on its way, is a good part of a step's time. It says what the blocks say one part at a time (blocks.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard import native
from regard.decoding.blocks import Block, LayerNorm, Stretch
from regard.decoding.cache import Cache
from regard.memory import Memory

_PLAN = np.dtype(
    [(name, np.int64) for name in ("dim", "heads", "width", "hidden", "before")]
    + [(name, np.int64, 5) for name in ("qkv", "own", "query", "source", "up", "down")]
    + [
        (name, [("weight", np.int64), ("bias", np.int64), ("eps", np.float64)])
        for name in ("own_norm", "source_norm", "feed_norm")
    ]
)
"""`Plan` of kernels.c."""


class Fused:
    def __init__(self, blocks: Sequence[Block]):
        self.blocks = blocks  # they own what the plans point to
        self.plans = np.array([_plan(block) for block in blocks], _PLAN)
        self.where = [self.plans[i : i + 1].ctypes.data for i in range(len(blocks))]

    def step(
        self,
        x: Tensor,
        caches: Sequence[Cache],
        sources: Sequence[Memory],
        seen: Stretch,
        source_seen: Stretch,
        turn: Tensor | None = None,
    ) -> Tensor:
        """x (b · w, dim), w new places of each row at the same place, through all blocks. `turn` (d,) are the cosines
        and sines that queries and keys are turned by."""
        rows, b, threads = len(x), caches[0].both.shape[1], torch.get_num_threads()
        w, m = rows // b, sources[0].keys.shape[2]
        n = caches[0].taken + w if seen.path is None else seen.path.shape[2]
        most = max(n, m)
        scratch = x.new_empty(native.kernels.block_room(self.where[0], rows, most, threads))  # type: ignore[union-attr]
        path, step = (0, 0) if seen.path is None else (seen.path.data_ptr(), seen.path.stride(1))
        first, last = _address(seen.first), _address(source_seen.last)
        x, out = x.contiguous(), torch.empty_like(x)
        for plan, cache, source in zip(self.where, caches, sources, strict=True):
            slot = cache.claim(w)
            places, keys = cache.both.shape[3], cache.both.data_ptr()
            values = keys + 4 * (cache.both.numel() // 2)
            native.kernels.block(  # type: ignore[union-attr]
                plan, x.data_ptr(), out.data_ptr(), b, w, keys, values, places, slot, path, step, first, n,
                source.keys.data_ptr(), source.values.data_ptr(), m, last, _address(turn), scratch.data_ptr(), most,
                threads,
            )  # fmt: skip
            x = out  # a block may write where it read from
        return x


def fuse(blocks: Sequence[Block]) -> Fused | None:
    """The blocks as kernels, where all are of a decoder with products, norms and an activation that these know."""
    return Fused(blocks) if native.kernels is not None and all(_known(block) for block in blocks) else None


def _maps(block: Block) -> list[Any]:
    source = [] if block.source is None else [block.source.query, block.source.out]
    return [block.own.qkv, block.own.out, *source, block.feed.up, block.feed.down]


def _norms(block: Block) -> list[Any]:
    return [block.own_norm, *([] if block.source is None else [block.source_norm]), block.feed_norm]


def _known(block: Block) -> bool:
    return (
        block.source is not None
        and block.feed.activation is None
        and all(isinstance(part, native.Product | native.Rounded) for part in _maps(block))
        and all(isinstance(norm, LayerNorm) for norm in _norms(block))
    )


def _plan(block: Block) -> tuple[Any, ...]:
    maps: list[native.Product | native.Rounded] = _maps(block)
    norms: list[LayerNorm] = _norms(block)
    return (
        maps[0].deep, block.own.heads, block.own.width, maps[4].outs, block.before,
        *(part.where for part in maps),
        *((norm.weight.data_ptr(), norm.bias.data_ptr(), norm.eps) for norm in norms),
    )  # fmt: skip


def _address(tensor: Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()
