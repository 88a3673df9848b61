"""Kernels in C for a step of decoding: few rows, and much to do with them; kernels.c, compiled at installation.

Torch does the same in several passes over little data, and each costs a few microseconds before it begins. Where there
was no compiler, or the tensors are not float32 on a processor, `ready` says no and the callers do it with torch.

    Product     x weightᵀ + bias, of a weight that was put in order (product.c)
    Rounded     the same, rounded to eight bits (product8.c)
    attend      softmax(q keysᵀ) values, of few queries that each see a stretch of keys or a path through them
    attend_own  the same of new places, whose keys and values are written first
    add_norm    x + y and its layer norm
    likeliest   the k likeliest ways to go on from beams
"""

from __future__ import annotations

import os
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

VERSION = 2
"""Of what is asked of the kernels; raised with kernels.c's when that changes."""

try:
    from regard.kernels import kernels  # pyright: ignore[reportAttributeAccessIssue]
except ImportError:  # not compiled on this machine
    kernels = None
if kernels is not None and getattr(kernels, "VERSION", 0) != VERSION:
    warnings.warn("the compiled kernels are of another version and are left alone; install regard again", stacklevel=2)
    kernels = None

OFF = "REGARD_TORCH_ONLY"
"""Set in the environment when weights are prepared, kernels are left alone: to measure what they are worth, or to rule
them out."""

BLOCK = 64

PANEL = 32
"""Outputs of a product whose weights lie together, as in product.h."""


def ready(tensor: Tensor) -> bool:
    """Whether the kernels can take what is made of such a tensor."""
    return (
        kernels is not None and tensor.dtype == torch.float32 and tensor.device.type == "cpu" and OFF not in os.environ
    )


def floats(tensor: Tensor) -> Tensor:
    """The kernels know addresses only: what lies there must be what they take it for."""
    if tensor.dtype is not torch.float32:
        raise TypeError(f"the kernels take float32, and were given {tensor.dtype}")
    return tensor


class Product:
    """x weightᵀ + bias, and max(0, ·) of it where asked for, of a weight (out, in) that is put in order once: panels of
    32 outputs, the last one filled up with zeros. In `kept`, float32 or float16; the products are float32. Only where
    `multiplies` says yes."""

    def __init__(
        self, weight: Tensor, bias: Tensor | None, relu: bool = False, kept: torch.dtype = torch.float32
    ) -> None:
        (self.outs, self.deep), self.relu = weight.shape, relu
        panels = _filled(floats(weight.detach())).view(-1, PANEL, self.deep)
        if kept is torch.float16:  # what is more would be infinite
            panels = panels.clamp(-65504.0, 65504.0)
        self.weight = panels.transpose(1, 2).to(kept).contiguous()
        self.bias = None if bias is None else _filled(floats(bias.detach()))

    @property
    def where(self) -> tuple[int, int, int, int, int]:
        """Bits of the weight, and where it, its bias, its steps and its sums lie."""
        return 8 * self.weight.itemsize, self.weight.data_ptr(), address(self.bias), 0, 0

    def __call__(self, x: Tensor) -> Tensor:
        rows, far = len(x), self.deep
        if rows > 1 and far % 1024 == 0:  # rows 4 KiB apart would share a few lines of the cache
            x = floats(x).new_empty(rows, far := far + 16).narrow(1, 0, self.deep).copy_(x)
        return _product(self, x if far > self.deep else x.contiguous(), far, 0)


class Rounded:
    """The same with the weight rounded to eight bits, a step for each output, and x too, a step for each row: four
    times as many products at once. Only where `rounds` says yes."""

    def __init__(self, weight: Tensor, bias: Tensor | None, relu: bool = False):
        (self.outs, self.deep), self.relu = weight.shape, relu
        weight = _filled(floats(weight.detach()))
        self.steps = (weight.abs().amax(1) / 127).clamp_min(1e-30)
        whole = F.pad((weight / self.steps[:, None]).round(), (0, -self.deep % 4))
        self.sums = 128 * whole.sum(1).int()
        self.weight = whole.to(torch.int8).view(-1, PANEL, whole.shape[1] // 4, 4).transpose(1, 2).contiguous()
        self.bias = None if bias is None else _filled(floats(bias.detach()))

    @property
    def where(self) -> tuple[int, int, int, int, int]:
        return 8, self.weight.data_ptr(), address(self.bias), self.steps.data_ptr(), self.sums.data_ptr()

    def __call__(self, x: Tensor) -> Tensor:
        room = kernels.rounded_bytes(len(x), self.deep)  # type: ignore[union-attr]
        scratch = x.new_empty(room, dtype=torch.uint8)
        return _product(self, x.contiguous(), self.deep, scratch.data_ptr())


def _product(of: Product | Rounded, x: Tensor, far: int, scratch: int) -> Tensor:
    if x.shape[1] != of.deep:
        raise ValueError(f"the weight wants rows of {of.deep}, and was given {x.shape[1]}")
    rows, out = len(x), floats(x).new_empty(len(x), of.outs)
    kernels.product(  # type: ignore[union-attr]
        x.data_ptr(), rows, far, of.deep, *of.where, of.outs, of.relu, out.data_ptr(), of.outs, scratch,
        torch.get_num_threads(),
    )  # fmt: skip
    return out


def _filled(tensor: Tensor) -> Tensor:
    """With as many rows as whole panels have."""
    return F.pad(tensor, (0, 0) * (tensor.dim() - 1) + (0, -len(tensor) % PANEL)).contiguous()


def address(tensor: Tensor | None) -> int:
    """Where it lies, or 0 where there is none."""
    return 0 if tensor is None else tensor.data_ptr()


def multiplies(weight: Tensor) -> bool:
    """Whether `Product` can take such a weight: it is made for the vectors of AVX2 and AVX-512."""
    return ready(weight) and kernels.lanes(0) > 0  # type: ignore[union-attr]


def rounds(weight: Tensor) -> bool:
    """Whether `Rounded` can take such a weight: it is made for AVX-512 VNNI."""
    return ready(weight) and kernels.rounded_bytes(1, 1) > 0  # type: ignore[union-attr]


def attend(
    q: Tensor,
    keys: Tensor,
    values: Tensor,
    path: Tensor | None = None,
    first: Tensor | None = None,
    last: Tensor | None = None,
) -> Tensor:
    """q (b, h, w, d), which is scaled already, regards keys and values (b, h, k, d), which lie alike; (b · w, h · d).
    Query w of row b sees the keys path[b, w, t] of a path (b, w, k or more), or all of them; of these the places t from
    first[b] up to last[b]. All of these are int32."""
    (b, h, w, d), n = q.shape, keys.shape[2] if path is None else path.shape[2]
    qb, qh, qw, _ = q.stride()
    kb, kh, far, _ = keys.stride()
    threads = torch.get_num_threads()
    out, scratch = floats(q).new_empty(b * w, h * d), floats(keys).new_empty(threads * n)
    kernels.attend(  # type: ignore[union-attr]
        q.data_ptr(), qb, qw, qh, keys.data_ptr(), values.data_ptr(), kb, kh, far,
        0 if path is None else path.data_ptr(), 0 if path is None else path.stride(1),
        0 if first is None else first.data_ptr(), 0 if last is None else last.data_ptr(), n,
        out.data_ptr(), b, w, h, d, threads, scratch.data_ptr(), 0, 0, 0,
    )  # fmt: skip
    return out


def attend_own(
    qkv: Tensor, both: Tensor, taken: int, path: Tensor | None = None, first: Tensor | None = None
) -> Tensor:
    """Queries, keys and values qkv (b · w, 3 · h · d) of w new places in each row: the keys and values are written to
    the places from `taken` on of both (2, b, h, places, d), and each query sees a path through them that ends with its
    own place, or all up to it where w is 1; (b · w, h · d)."""
    _, b, h, places, d = both.shape
    w, wide, threads = len(qkv) // b, h * d, torch.get_num_threads()
    n, step = (taken + 1, 0) if path is None else (path.shape[2], path.stride(1))
    out, scratch = floats(qkv).new_empty(b * w, wide), floats(both).new_empty(threads * n)
    q, keys = qkv.data_ptr(), both.data_ptr()
    kernels.attend(  # type: ignore[union-attr]
        q, 3 * w * wide, 3 * wide, d, keys, keys + 4 * b * places * wide, places * wide, places * d, d,
        0 if path is None else path.data_ptr(), step, 0 if first is None else first.data_ptr(), 0, n,
        out.data_ptr(), b, w, h, d, threads, scratch.data_ptr(), q + 4 * wide, q + 8 * wide, taken,
    )  # fmt: skip
    return out


def add_norm(x: Tensor, y: Tensor | None, weight: Tensor, bias: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """x + y (rows, wide), or x itself where there is no y; and its layer norm."""
    rows, wide = x.shape
    x, y = floats(x).contiguous(), None if y is None else floats(y).contiguous()
    whole, out = x if y is None else torch.empty_like(x), torch.empty_like(x)
    kernels.add_norm(  # type: ignore[union-attr]
        x.data_ptr(), 0 if y is None else y.data_ptr(), weight.data_ptr(), bias.data_ptr(), whole.data_ptr(),
        out.data_ptr(), rows, wide, eps, torch.get_num_threads(),
    )  # fmt: skip
    return whole, out


def likeliest(logits: Tensor, scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """logits (b, w, vocab) and scores (b, w) of beams to the k greatest of log softmax(logits) + scores, and their
    beams and words, each (b, k), the greatest first. Where there are fewer, -inf, 0 and 0."""
    b, w, vocab = logits.shape
    logits, scores = floats(logits).contiguous(), np.ascontiguousarray(scores, np.float32)
    values, parents, words = np.empty((b, k), np.float32), np.empty((b, k), np.int64), np.empty((b, k), np.int64)
    scratch = np.empty((b, -(-vocab // BLOCK)), np.float32)
    kernels.likeliest(  # type: ignore[union-attr]
        logits.data_ptr(), scores.ctypes.data, b, w, vocab, k, values.ctypes.data, parents.ctypes.data,
        words.ctypes.data, torch.get_num_threads(), scratch.ctypes.data,
    )  # fmt: skip
    return values, parents, words
