"""The blocks of a decoder or a GPT, each as one kernel call. A step runs no Python between the parts of a block.

    fused = fuse_blocks(blocks)                                    # None if a part is not supported
    x = fused.step(x, caches, visible, position_ids, sources, source_visible)

The products of a step are short, so the overhead of calls and of waiting for other threads between them is a large part
of its time. The results are those of the blocks one part at a time (optimized_blocks.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard import kernels
from regard.attention.kv_cache import KVCache
from regard.decoding.inplace_kv_cache import InPlaceKVCache
from regard.decoding.optimized_blocks import KernelLayerNorm, KeyRange, OptimizedBlock, gelu

_PLAN = np.dtype(
    [(name, np.int64) for name in ("dim", "heads", "width", "hidden", "before", "gelu")]
    + [(name, np.int64, 5) for name in ("qkv", "own", "query", "source", "up", "down")]
    + [
        (name, [("weight", np.int64), ("bias", np.int64), ("eps", np.float64)])
        for name in ("own_norm", "source_norm", "feed_norm")
    ]
)
"""`Plan` of kernels.c."""


class FusedBlocks:
    """A list of blocks as kernel calls."""

    def __init__(self, blocks: Sequence[OptimizedBlock]):
        self.blocks, self.rotate = blocks, blocks[0].self_attention.rotate  # the plans point to weights of the blocks
        self.plans = np.array([_plan(block) for block in blocks], _PLAN)
        self.addresses = [self.plans[i : i + 1].ctypes.data for i in range(len(blocks))]
        self.unrotated = torch.zeros(1, width := blocks[0].self_attention.width, dtype=torch.float32, device="cpu")
        self.unrotated[:, : width // 2] = 1.0  # rotated, it holds the cosines and the sines of a position

    def __reduce__(self) -> tuple[Any, ...]:
        """The plans of a copy point to the weights of the copy."""
        return FusedBlocks, (self.blocks,)

    def step(
        self,
        x: Tensor,
        caches: Sequence[InPlaceKVCache],
        visible: KeyRange,
        position_ids: range,
        sources: Sequence[KVCache] | None = None,
        source_visible: KeyRange | None = None,
    ) -> Tensor:
        """x (b · w, dim), w new tokens of each row that all have the position `position_ids`, through all blocks."""
        rows, b, threads = len(x), caches[0].keys_values.shape[1], torch.get_num_threads()
        w, m = rows // b, 0 if sources is None else sources[0].keys.shape[2]
        assert w == 1 or visible.path is not None  # beams do not see each other
        n = caches[0].length + 1 if visible.path is None else visible.path.shape[2]
        scratch_size = kernels.kernels.block_room(self.addresses[0], rows, max(n, m), threads)  # type: ignore[union-attr]
        scratch = kernels.require_float32(x).new_empty(scratch_size)
        path, path_stride = (0, 0) if visible.path is None else (visible.path.data_ptr(), visible.path.stride(1))
        first, last = (
            kernels.address(visible.first),
            0 if source_visible is None else kernels.address(source_visible.last),
        )
        rotation = None if self.rotate is None else self.rotate(self.unrotated, position_ids)
        x, out = x.contiguous(), x.new_empty(x.shape)
        for i, (plan, cache) in enumerate(zip(self.addresses, caches, strict=True)):
            slot = cache.reserve(w)
            positions, keys = cache.keys_values.shape[3], cache.keys_values.data_ptr()
            values = keys + 4 * (cache.keys_values.numel() // 2)
            source = (0, 0) if sources is None else (sources[i].keys.data_ptr(), sources[i].values.data_ptr())
            kernels.kernels.block(  # type: ignore[union-attr]
                plan, x.data_ptr(), out.data_ptr(), b, w, keys, values, positions, slot, path, path_stride, first, n,
                *source, m, last, kernels.address(rotation), scratch.data_ptr(), threads,
            )  # fmt: skip
            x = out  # a block may overwrite its input
        return x


def fuse_blocks(blocks: Sequence[OptimizedBlock]) -> FusedBlocks | None:
    """The blocks as kernel calls; None unless all are alike and have supported products, norms and activation."""
    return FusedBlocks(blocks) if all(map(_is_supported, blocks)) and len(set(map(_shapes, blocks))) == 1 else None


def _linears(block: OptimizedBlock) -> list[Any]:
    """In the order of the plan; None for the cross-attention of a block without one."""
    cross = (None, None) if block.cross_attention is None else (block.cross_attention.query, block.cross_attention.out)
    return [block.self_attention.qkv, block.self_attention.out, *cross, block.ffn.up, block.ffn.down]


def _norms(block: OptimizedBlock) -> list[Any]:
    return [
        block.self_attention_norm,
        None if block.cross_attention is None else block.cross_attention_norm,
        block.ffn_norm,
    ]


def _is_supported(block: OptimizedBlock) -> bool:
    attention, cross_attention = block.self_attention, block.cross_attention
    return (
        (block.ffn.activation is None or block.ffn.activation is gelu)
        and all(
            part is None or isinstance(part, kernels.KernelLinear | kernels.Int8KernelLinear)
            for part in _linears(block)
        )
        and all(norm is None or isinstance(norm, KernelLayerNorm) for norm in _norms(block))
        and (
            cross_attention is None
            or (cross_attention.heads, cross_attention.width) == (attention.heads, attention.width)
        )
    )


def _shapes(block: OptimizedBlock) -> tuple[Any, ...]:
    """What must be equal for blocks that share scratch memory and a rotation."""
    linears, attention = _linears(block), block.self_attention
    rotation = None if attention.rotate is None else id(getattr(attention.rotate, "__self__", attention.rotate))
    bits = {part.pointers[0] for part in linears if part is not None}
    return (
        linears[0].in_features,
        attention.heads,
        attention.width,
        linears[4].out_features,
        block.cross_attention is None,
        rotation,
        *sorted(bits),
    )


def _plan(block: OptimizedBlock) -> tuple[Any, ...]:
    linears, norms = _linears(block), _norms(block)
    return (
        *_shapes(block)[:4], block.pre_norm, block.ffn.activation is gelu,
        *((0,) * 5 if part is None else part.pointers for part in linears),
        *((0, 0, 0.0) if norm is None else (norm.weight.data_ptr(), norm.bias.data_ptr(), norm.eps) for norm in norms),
    )  # fmt: skip
