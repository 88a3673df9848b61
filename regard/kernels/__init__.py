"""C kernels for a decoding step, which has few rows and many small operations. kernels.c is compiled at installation.

Torch needs several passes over little data for the same, and each call costs a few microseconds. Callers fall back to
torch where `can_use_kernels` is false: the kernels are not compiled, or the tensors are not float32 on a CPU.

    KernelLinear        x weightᵀ + bias, with a weight in panels (product.c)
    Int8KernelLinear    the same, rounded to int8 (product8.c)
    attend              softmax(q keysᵀ) values, for few queries that each see a range of keys or a path through them
    append_and_attend   the same for new positions, whose keys and values are written first
    add_norm            x + y and its layer norm
    top_candidates      the k most probable continuations of beams
"""

from __future__ import annotations

import os
import warnings

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

VERSION = 2
"""Version of the interface; must equal VERSION of kernels.c."""

try:
    from regard.kernels import kernels  # pyright: ignore[reportAttributeAccessIssue]
except ImportError:  # not compiled on this machine
    kernels = None
if kernels is not None and getattr(kernels, "VERSION", 0) != VERSION:
    warnings.warn("the compiled kernels have another version and are not used; install regard again", stacklevel=2)
    kernels = None

TORCH_ONLY = "REGARD_TORCH_ONLY"
"""Environment variable that switches the kernels off. It is read when weights are converted."""

BLOCK = 64

PANEL = 32
"""Outputs whose weights are stored together, as in product.h."""


def can_use_kernels(tensor: Tensor) -> bool:
    """Whether the kernels support a tensor of this type and device, and are not switched off."""
    return (
        kernels is not None
        and tensor.dtype == torch.float32
        and tensor.device.type == "cpu"
        and TORCH_ONLY not in os.environ
    )


def require_float32(tensor: Tensor) -> Tensor:
    """Return the tensor, or raise if it is not float32. The kernels read from raw addresses."""
    if tensor.dtype is not torch.float32:
        raise TypeError(f"the kernels need float32, got {tensor.dtype}")
    return tensor


class KernelLinear:
    """relu(x weightᵀ + bias) or x weightᵀ + bias, with the weight stored in panels of 32 outputs. Needs `can_multiply`.

    Args:
        weight: (out, in). The last panel is padded with zeros.
        bias: (out,) or None.
        relu: Whether to apply a ReLU in the same pass.
        dtype: How the weight is stored, float32 or float16. Products are computed in float32.
    """

    def __init__(
        self, weight: Tensor, bias: Tensor | None, relu: bool = False, dtype: torch.dtype = torch.float32
    ) -> None:
        (self.out_features, self.in_features), self.relu = weight.shape, relu
        panels = _pad_to_panels(require_float32(weight.detach())).view(-1, PANEL, self.in_features)
        if dtype is torch.float16:  # larger values would become infinite
            panels = panels.clamp(-65504.0, 65504.0)
        self.weight = panels.transpose(1, 2).to(dtype).contiguous()
        self.bias = None if bias is None else _pad_to_panels(require_float32(bias.detach()))

    @property
    def pointers(self) -> tuple[int, int, int, int, int]:
        """Bits of the weight; addresses of the weight, its bias, its scales and its sums."""
        return 8 * self.weight.itemsize, self.weight.data_ptr(), address(self.bias), 0, 0

    def __call__(self, x: Tensor) -> Tensor:
        rows, row_stride = len(x), self.in_features
        if rows > 1 and row_stride % 1024 == 0:  # rows 4 KiB apart would share a few cache lines
            x = (
                require_float32(x)
                .new_empty(rows, row_stride := row_stride + 16)
                .narrow(1, 0, self.in_features)
                .copy_(x)
            )
        return _multiply(self, x if row_stride > self.in_features else x.contiguous(), row_stride, 0)


class Int8KernelLinear:
    """`KernelLinear` with the weight rounded to int8, one scale per output, and x too, one scale per row.

    It computes four times as many products per instruction. Needs `can_multiply_int8`.
    """

    def __init__(self, weight: Tensor, bias: Tensor | None, relu: bool = False):
        (self.out_features, self.in_features), self.relu = weight.shape, relu
        weight = _pad_to_panels(require_float32(weight.detach()))
        self.scales = (weight.abs().amax(1) / 127).clamp_min(1e-30)
        rounded = F.pad((weight / self.scales[:, None]).round(), (0, -self.in_features % 4))
        self.sums = 128 * rounded.sum(1).int()
        self.weight = rounded.to(torch.int8).view(-1, PANEL, rounded.shape[1] // 4, 4).transpose(1, 2).contiguous()
        self.bias = None if bias is None else _pad_to_panels(require_float32(bias.detach()))

    @property
    def pointers(self) -> tuple[int, int, int, int, int]:
        return 8, self.weight.data_ptr(), address(self.bias), self.scales.data_ptr(), self.sums.data_ptr()

    def __call__(self, x: Tensor) -> Tensor:
        scratch_bytes = kernels.rounded_bytes(len(x), self.in_features)  # type: ignore[union-attr]
        scratch = x.new_empty(scratch_bytes, dtype=torch.uint8)
        return _multiply(self, x.contiguous(), self.in_features, scratch.data_ptr())


def _multiply(linear: KernelLinear | Int8KernelLinear, x: Tensor, row_stride: int, scratch: int) -> Tensor:
    if x.shape[1] != linear.in_features:
        raise ValueError(f"the weight has {linear.in_features} inputs, got rows of {x.shape[1]}")
    rows, out = len(x), require_float32(x).new_empty(len(x), linear.out_features)
    kernels.product(  # type: ignore[union-attr]
        x.data_ptr(), rows, row_stride, linear.in_features, *linear.pointers, linear.out_features, linear.relu,
        out.data_ptr(), linear.out_features, scratch, torch.get_num_threads(),
    )  # fmt: skip
    return out


def _pad_to_panels(tensor: Tensor) -> Tensor:
    """Pad the rows to a multiple of the panel size."""
    return F.pad(tensor, (0, 0) * (tensor.dim() - 1) + (0, -len(tensor) % PANEL)).contiguous()


def address(tensor: Tensor | None) -> int:
    """The address of a tensor's data; 0 for None."""
    return 0 if tensor is None else tensor.data_ptr()


def can_multiply(weight: Tensor) -> bool:
    """Whether `KernelLinear` supports this weight. It needs AVX2 or AVX-512."""
    return can_use_kernels(weight) and kernels.lanes(0) > 0  # type: ignore[union-attr]


def can_multiply_int8(weight: Tensor) -> bool:
    """Whether `Int8KernelLinear` supports this weight. It needs AVX-512 VNNI."""
    return can_use_kernels(weight) and kernels.rounded_bytes(1, 1) > 0  # type: ignore[union-attr]


def attend(
    q: Tensor,
    keys: Tensor,
    values: Tensor,
    path: Tensor | None = None,
    first: Tensor | None = None,
    last: Tensor | None = None,
) -> Tensor:
    """softmax(q keysᵀ) values, for few queries.

    Args:
        q: Queries (b, h, w, d), already scaled.
        keys, values: (b, h, k, d), with the same strides.
        path: (b, w, n) int32: query w of row b sees the keys path[b, w, t]. None: all keys.
        first, last: (b,) int32: restrict t to first[b] <= t < last[b].

    Returns:
        (b · w, h · d).
    """
    (b, h, w, d), n = q.shape, keys.shape[2] if path is None else path.shape[2]
    qb, qh, qw, _ = q.stride()
    kb, kh, key_stride, _ = keys.stride()
    threads = torch.get_num_threads()
    out, scratch = require_float32(q).new_empty(b * w, h * d), require_float32(keys).new_empty(threads * n)
    kernels.attend(  # type: ignore[union-attr]
        q.data_ptr(), qb, qw, qh, keys.data_ptr(), values.data_ptr(), kb, kh, key_stride,
        0 if path is None else path.data_ptr(), 0 if path is None else path.stride(1),
        0 if first is None else first.data_ptr(), 0 if last is None else last.data_ptr(), n,
        out.data_ptr(), b, w, h, d, threads, scratch.data_ptr(), 0, 0, 0,
    )  # fmt: skip
    return out


def append_and_attend(
    qkv: Tensor, keys_values: Tensor, length: int, path: Tensor | None = None, first: Tensor | None = None
) -> Tensor:
    """Write the keys and values of new positions into a cache, then attend.

    Args:
        qkv: Queries, keys and values of w new positions per row, (b · w, 3 · h · d).
        keys_values: The cache, (2, b, h, positions, d).
        length: How many positions of it are used; the new ones are written there.
        path: (b, w, n) int32: the keys that each query sees, its own last. None, for w = 1: all up to its own.
        first: (b,) int32: the first visible key of each row.

    Returns:
        (b · w, h · d).
    """
    _, b, h, positions, d = keys_values.shape
    w, width, threads = len(qkv) // b, h * d, torch.get_num_threads()
    n, path_stride = (length + 1, 0) if path is None else (path.shape[2], path.stride(1))
    out, scratch = require_float32(qkv).new_empty(b * w, width), require_float32(keys_values).new_empty(threads * n)
    q, keys = qkv.data_ptr(), keys_values.data_ptr()
    kernels.attend(  # type: ignore[union-attr]
        q, 3 * w * width, 3 * width, d, keys, keys + 4 * b * positions * width, positions * width, positions * d, d,
        0 if path is None else path.data_ptr(), path_stride, 0 if first is None else first.data_ptr(), 0, n,
        out.data_ptr(), b, w, h, d, threads, scratch.data_ptr(), q + 4 * width, q + 8 * width, length,
    )  # fmt: skip
    return out


def add_norm(x: Tensor, y: Tensor | None, weight: Tensor, bias: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """x + y (rows, width), or x if y is None, and its layer norm."""
    rows, width = x.shape
    x, y = require_float32(x).contiguous(), None if y is None else require_float32(y).contiguous()
    total, out = x if y is None else torch.empty_like(x), torch.empty_like(x)
    kernels.add_norm(  # type: ignore[union-attr]
        x.data_ptr(), 0 if y is None else y.data_ptr(), weight.data_ptr(), bias.data_ptr(), total.data_ptr(),
        out.data_ptr(), rows, width, eps, torch.get_num_threads(),
    )  # fmt: skip
    return total, out


def top_candidates(logits: Tensor, scores: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The k greatest of log softmax(logits) + scores over all beams and tokens of a sentence.

    Args:
        logits: (b, w, vocab).
        scores: Score of each beam, (b, w).

    Returns:
        Scores, beams and token ids, each (b, k), the greatest first. If there are fewer: -inf, 0 and 0.
    """
    b, w, vocab = logits.shape
    logits, scores = require_float32(logits).contiguous(), np.ascontiguousarray(scores, np.float32)
    values, parents, ids = np.empty((b, k), np.float32), np.empty((b, k), np.int64), np.empty((b, k), np.int64)
    scratch = np.empty((b, -(-vocab // BLOCK)), np.float32)
    kernels.likeliest(  # type: ignore[union-attr]
        logits.data_ptr(), scores.ctypes.data, b, w, vocab, k, values.ctypes.data, parents.ctypes.data,
        ids.ctypes.data, torch.get_num_threads(), scratch.ctypes.data,
    )  # fmt: skip
    return values, parents, ids
