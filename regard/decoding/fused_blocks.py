"""The blocks of a decoder or a GPT, each as one call of a kernel: a step without Python between its parts.

    fused = fuse(blocks)                                    # None where a part is of another kind
    x = fused.step(x, caches, seen, at, sources, source_seen)

Between two products of a step lies little work, so that the way from one call to the next, and waiting for another
thread that is on its way, is a good part of a step's time. It says what the blocks say one part at a time (blocks.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard import kernels
from regard.attention.kv_cache import KVCache
from regard.decoding.inplace_kv_cache import Cache
from regard.decoding.optimized_blocks import Block, LayerNorm, Stretch, gelu

_PLAN = np.dtype(
    [(name, np.int64) for name in ("dim", "heads", "width", "hidden", "before", "gelu")]
    + [(name, np.int64, 5) for name in ("qkv", "own", "query", "source", "up", "down")]
    + [
        (name, [("weight", np.int64), ("bias", np.int64), ("eps", np.float64)])
        for name in ("own_norm", "source_norm", "feed_norm")
    ]
)
"""`Plan` of kernels.c."""


class Fused:
    def __init__(self, blocks: Sequence[Block]):
        self.blocks, self.rotate = blocks, blocks[0].own.rotate  # blocks own what the plans point to
        self.plans = np.array([_plan(block) for block in blocks], _PLAN)
        self.where = [self.plans[i : i + 1].ctypes.data for i in range(len(blocks))]
        self.unturned = torch.zeros(1, width := blocks[0].own.width, dtype=torch.float32, device="cpu")
        self.unturned[:, : width // 2] = 1.0  # turned, it is the cosines and the sines of a place

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy's plans point to the copy's weights."""
        return Fused, (self.blocks,)

    def step(
        self,
        x: Tensor,
        caches: Sequence[Cache],
        seen: Stretch,
        at: range,
        sources: Sequence[KVCache] | None = None,
        source_seen: Stretch | None = None,
    ) -> Tensor:
        """x (b · w, dim), w new places of each row that all stand at the place `at`, through all blocks."""
        rows, b, threads = len(x), caches[0].both.shape[1], torch.get_num_threads()
        w, m = rows // b, 0 if sources is None else sources[0].keys.shape[2]
        assert w == 1 or seen.path is not None  # places beside each other do not see each other
        n = caches[0].taken + 1 if seen.path is None else seen.path.shape[2]
        room = kernels.kernels.block_room(self.where[0], rows, max(n, m), threads)  # type: ignore[union-attr]
        scratch = kernels.floats(x).new_empty(room)
        path, step = (0, 0) if seen.path is None else (seen.path.data_ptr(), seen.path.stride(1))
        first, last = kernels.address(seen.first), 0 if source_seen is None else kernels.address(source_seen.last)
        turn = None if self.rotate is None else self.rotate(self.unturned, at)
        x, out = x.contiguous(), x.new_empty(x.shape)
        for i, (plan, cache) in enumerate(zip(self.where, caches, strict=True)):
            slot = cache.claim(w)
            places, keys = cache.both.shape[3], cache.both.data_ptr()
            values = keys + 4 * (cache.both.numel() // 2)
            source = (0, 0) if sources is None else (sources[i].keys.data_ptr(), sources[i].values.data_ptr())
            kernels.kernels.block(  # type: ignore[union-attr]
                plan, x.data_ptr(), out.data_ptr(), b, w, keys, values, places, slot, path, step, first, n, *source, m,
                last, kernels.address(turn), scratch.data_ptr(), threads,
            )  # fmt: skip
            x = out  # a block may write where it read from
        return x


def fuse(blocks: Sequence[Block]) -> Fused | None:
    """The blocks as kernels, where all are alike and have products, norms and an activation that these know."""
    return Fused(blocks) if all(map(_known, blocks)) and len(set(map(_sizes, blocks))) == 1 else None


def _maps(block: Block) -> list[Any]:
    """In the plan's order; None for what a block without a source has not."""
    source = (None, None) if block.source is None else (block.source.query, block.source.out)
    return [block.own.qkv, block.own.out, *source, block.feed.up, block.feed.down]


def _norms(block: Block) -> list[Any]:
    return [block.own_norm, None if block.source is None else block.source_norm, block.feed_norm]


def _known(block: Block) -> bool:
    own, source = block.own, block.source
    return (
        (block.feed.activation is None or block.feed.activation is gelu)
        and all(part is None or isinstance(part, kernels.Product | kernels.Rounded) for part in _maps(block))
        and all(norm is None or isinstance(norm, LayerNorm) for norm in _norms(block))
        and (source is None or (source.heads, source.width) == (own.heads, own.width))
    )


def _sizes(block: Block) -> tuple[Any, ...]:
    """What blocks that share their scratch, and a turn for all, must have the same of."""
    maps, own = _maps(block), block.own
    turned = None if own.rotate is None else id(getattr(own.rotate, "__self__", own.rotate))
    bits = {part.where[0] for part in maps if part is not None}
    return maps[0].deep, own.heads, own.width, maps[4].outs, block.source is None, turned, *sorted(bits)


def _plan(block: Block) -> tuple[Any, ...]:
    maps, norms = _maps(block), _norms(block)
    return (
        *_sizes(block)[:4], block.before, block.feed.activation is gelu,
        *((0,) * 5 if part is None else part.where for part in maps),
        *((0, 0, 0.0) if norm is None else (norm.weight.data_ptr(), norm.bias.data_ptr(), norm.eps) for norm in norms),
    )  # fmt: skip
