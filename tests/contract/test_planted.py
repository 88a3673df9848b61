"""The contract finds planted bugs, each by the check that is made for it."""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.cost import Cost
from regard.attention.kv_cache import KVCache
from regard.attention.masks import Mask
from regard.attention.mechanisms.dot import DotMechanism
from regard.attention.mechanisms.mechanism import Mechanism, PackedLinear
from regard.attention.scores import DotScores, Scores
from regard.attention.token_positions import PositionIds, QueryKeyPositions, position_tensor
from regard.layers import multi_head_attention
from regard.layers.multi_head_attention import MultiHeadAttention
from regard.testing import CHECKS, Case, check_mechanism, hooks
from regard.testing.reference_formulas import dot


@dataclass(frozen=True)
class WrappedScores:
    """Scores that delegate to DotScores. A planted bug overrides one method."""

    inner: DotScores

    @property
    def qk_positions(self) -> QueryKeyPositions:
        return self.inner.qk_positions

    def weights(self, mask: Mask | None = None) -> Tensor:
        return self.inner.weights(mask)

    def apply(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights @ value

    def attend(self, value: Tensor, mask: Mask | None = None) -> Tensor:
        return self.apply(self.weights(mask), value)


class WrappedDot(DotMechanism):
    """Not a bug: the same mechanism through WrappedScores. It must pass."""

    wrapper: type[WrappedScores] = WrappedScores

    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        return self.wrapper(super().score(query, keys, qk_positions))  # type: ignore[arg-type]


def mechanism_with(wrapper: type[WrappedScores]) -> type[WrappedDot]:
    return type(wrapper.__name__, (WrappedDot,), {"wrapper": wrapper, "name": wrapper.__name__})


class MaskIgnored(WrappedScores):
    def weights(self, mask: Mask | None = None) -> Tensor:
        return self.inner.weights(None)


class KeyMaskIgnored(WrappedScores):
    """Padding is part of the softmax."""

    def weights(self, mask: Mask | None = None) -> Tensor:
        return self.inner.weights(None if mask is None else replace(mask, key_mask=None))


class OneTokenAhead(WrappedScores):
    """The causal triangle is one position too wide."""

    def weights(self, mask: Mask | None = None) -> Tensor:
        if mask is None or not mask.causal:
            return self.inner.weights(mask)
        q_pos, k_pos = position_tensor(self.qk_positions.q_pos), position_tensor(self.qk_positions.k_pos)
        allowed = q_pos[..., :, None] + 1 >= k_pos[..., None, :]
        pairs = allowed[None, None] if mask.attn_mask is None else allowed & mask.attn_mask
        return self.inner.weights(Mask(mask.key_mask, pairs))


class FiniteMask(WrappedScores):
    """A large negative number instead of -inf, so that weights are not exactly zero."""

    def weights(self, mask: Mask | None = None) -> Tensor:
        logits = self.inner.weights(None).log()
        allowed = (
            None if mask is None else mask.allowed(self.qk_positions.q_pos, self.qk_positions.k_pos, logits.device)
        )
        return logits.softmax(-1) if allowed is None else torch.where(allowed, logits, logits - 20).softmax(-1)


class NaNRow(WrappedScores):
    """Softmax of a row of -inf."""

    def weights(self, mask: Mask | None = None) -> Tensor:
        logits = (self.inner.query * self.inner.scale) @ self.inner.key.transpose(-2, -1)
        allowed = (
            None if mask is None else mask.allowed(self.qk_positions.q_pos, self.qk_positions.k_pos, logits.device)
        )
        return (logits if allowed is None else logits.masked_fill(~allowed, -math.inf)).softmax(-1)


class OtherWeights(WrappedScores):
    """The weights are sharper than those that attend uses."""

    def attend(self, value: Tensor, mask: Mask | None = None) -> Tensor:
        return replace(self.inner, scale=self.inner.scale / 2).attend(value, mask)


class ExtraOutput(WrappedScores):
    """The output is more than the weighted values."""

    def attend(self, value: Tensor, mask: Mask | None = None) -> Tensor:
        return self.inner.attend(value, mask) + 0.1 * value.mean(-2, keepdim=True)


class NotNormalized(WrappedScores):
    def weights(self, mask: Mask | None = None) -> Tensor:
        return 2 * self.inner.weights(mask)


class DropoutAlwaysOn(WrappedScores):
    """Dropout that ignores the evaluation mode."""

    def attend(self, value: Tensor, mask: Mask | None = None) -> Tensor:
        return F.dropout(self.inner.weights(mask), 0.3) @ value


class EditsIgnored(WrappedScores):
    """Ablated heads have an effect."""

    def apply(self, weights: Tensor, value: Tensor) -> Tensor:
        return self.inner.weights(None) @ value


class ScaleDropped(DotMechanism):
    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        return replace(super().score(query, keys, qk_positions), scale=1.0)  # type: ignore[type-var]


class PositionBiasDropped(DotMechanism):
    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        return DotScores(query, keys, qk_positions, scale=self.key_width**-0.5)


class UnusedParameter(DotMechanism):
    """A parameter that is never used."""

    def __init__(self, dim: int, heads: int, **options: Any):
        super().__init__(dim, heads, **{**options, "bias": False})
        self.bias = nn.Parameter(torch.zeros(dim))


class DeadParameter(DotMechanism):
    """A parameter that is used without effect: a term that is the same for every key cancels in the softmax."""

    def __init__(self, dim: int, heads: int, **options: Any):
        super().__init__(dim, heads, **options)
        self.level = nn.Parameter(torch.ones(heads, 1, 1))

    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        scores = super().score(query, keys, qk_positions)
        return replace(scores, bias=self.level.expand(-1, query.shape[2], keys.shape[2])[None])  # type: ignore[type-var]


class QueryNotRotated(DotMechanism):
    """Keys are rotated, queries are not."""

    def project_qkv(self, x: Tensor, position_ids: PositionIds) -> tuple[Tensor, Tensor, Tensor]:
        _, k, v = super().project_qkv(x, position_ids)
        return self.project_query(x, range(1)), k, v


class StartIgnored(DotMechanism):
    """All positions start at 0."""

    def project_qkv(self, x: Tensor, position_ids: PositionIds) -> tuple[Tensor, Tensor, Tensor]:
        return super().project_qkv(x, range(x.shape[1]))


class PositionsIgnored(DotMechanism):
    """Scores ignore the positions: every step is a first step."""

    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        return super().score(query, keys, QueryKeyPositions(range(query.shape[2]), range(keys.shape[2])))


class LeakedHook(DotMechanism):
    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        self.register_forward_hook(lambda *_: None)
        return super().score(query, keys, qk_positions)


class QueryKeySwapped(DotMechanism):
    """Queries and keys are exchanged. At equal lengths all shapes are right."""

    def project_qkv(self, x: Tensor, position_ids: PositionIds) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = super().project_qkv(x, position_ids)
        return k, q, v


class TransposedScores(DotMechanism):
    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        return super().score(keys, query, qk_positions)


class HeadsMixed(DotMechanism):
    """A view instead of a transpose mixes heads and positions."""

    def project_qkv(self, x: Tensor, position_ids: PositionIds) -> tuple[Tensor, Tensor, Tensor]:
        b, n, _ = x.shape
        q, k, v = self.qkv.all(x)  # type: ignore[union-attr]
        return tuple(part.reshape(b, self.heads, n, -1) for part in (q, k, v))  # type: ignore[return-value]


class BatchCentered(DotMechanism):
    """Queries are centered over the batch."""

    def project_qkv(self, x: Tensor, position_ids: PositionIds) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = super().project_qkv(x, position_ids)
        return q - q.mean(0, keepdim=True), k, v


class OrderUndeclared(DotMechanism):
    """Later keys get larger weights, but order_sensitive is False."""

    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        bias = 0.1 * position_tensor(qk_positions.k_pos).to(query.dtype).expand(1, 1, query.shape[2], -1)
        return replace(super().score(query, keys, qk_positions), bias=bias)  # type: ignore[type-var]


class HalfFlops(DotMechanism):
    """A multiply-add counts as one FLOP."""

    def cost(self, n: int, m: int | None = None) -> Cost:
        cost = super().cost(n, m)
        return replace(cost, flops=cost.flops // 2)


class BiasesNotCounted(DotMechanism):
    """The number of parameters omits the biases."""

    def num_params(self) -> int:
        return sum(p.numel() for p in self.parameters() if p.dim() > 1)


class NotSaved(DotMechanism):
    """A tensor that is neither a parameter nor a buffer."""

    def __init__(self, dim: int, heads: int, **options: Any):
        super().__init__(dim, heads, **options)
        self.gain = torch.rand(1, dtype=torch.float64) + 0.5

    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        return super().score(query * self.gain.to(query.dtype), keys, qk_positions)


class TracedDifferently(DotMechanism):
    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        scores = super().score(query, keys, qk_positions)
        return replace(scores, scale=1.0) if torch.compiler.is_compiling() else scores  # type: ignore[type-var]


class _WrongBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        return grad


class WrongGradient(DotMechanism):
    def project_qkv(self, x: Tensor, position_ids: PositionIds) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = super().project_qkv(x, position_ids)
        return _WrongBackward.apply(q), k, v  # type: ignore[return-value]


class QueriesRounded(DotMechanism):
    """Queries are rounded to float16."""

    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        query = query.half().float() if query.dtype == torch.float32 else query
        return super().score(query, keys, qk_positions)


class _CustomProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Tensor) -> Tensor:
        ctx.save_for_backward(x, matrix)
        return x @ matrix

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        x, matrix = ctx.saved_tensors
        return grad @ matrix.t(), x.flatten(0, -2).t() @ grad.flatten(0, -2)


class AutocastForgotten(DotMechanism):
    """A custom function whose backward pass gets two dtypes under autocast."""

    def __init__(self, dim: int, heads: int, **options: Any):
        super().__init__(dim, heads, **options)
        self.matrix = nn.Parameter(torch.eye(self.key_width))

    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        return super().score(_CustomProduct.apply(query, self.matrix), keys, qk_positions)  # type: ignore[arg-type]


class PositionsDropped(DotMechanism):
    """Accepts no rotary positions, but ignores them without an error."""

    accepts = frozenset({"none", "embed"})

    def __init__(self, dim: int, heads: int, **options: Any):
        super().__init__(dim, heads, **{**options, "positions": None})


class Stateful(DotMechanism):
    """Earlier calls change later ones."""

    def project_query(self, x: Tensor, position_ids: PositionIds) -> Tensor:
        self.calls = getattr(self, "calls", 0) + 1
        return super().project_query(x, position_ids) * (1 + 0.1 * self.calls)


class NoReason(DotMechanism):
    reason = None  # type: ignore[assignment]


class NoKeys(Mechanism):
    """An incomplete class: project_kv is missing."""

    name, title, citation, reason = "incomplete", "incomplete", "none", "none"

    def __init__(self, dim: int, heads: int, **options: Any):
        super().__init__(dim, heads, **options)
        self.qkv = PackedLinear(dim, (dim, dim, dim))

    def project_query(self, x: Tensor, position_ids: PositionIds) -> Tensor:
        return x[:, None]

    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        return DotScores(query, keys, qk_positions, 1.0)


class NoScoreWidth(DotMechanism):
    """The default cost does not fit the scores."""

    def __init__(self, dim: int, heads: int, **options: Any):
        super().__init__(dim, heads, **options)
        self.score_width = 0


PLANTED = [
    (mechanism_with(MaskIgnored), "none", "masked keys get zero"),
    (mechanism_with(KeyMaskIgnored), "none", "padding is invisible"),
    (mechanism_with(OneTokenAhead), "none", "future is invisible"),
    (mechanism_with(OneTokenAhead), "none", "masked keys get zero"),
    (mechanism_with(FiniteMask), "none", "masked keys get zero"),
    (mechanism_with(NaNRow), "none", "masked rows are zero"),
    (mechanism_with(OtherWeights), "none", "recorded weights give the output"),
    (mechanism_with(ExtraOutput), "none", "recorded weights give the output"),
    (mechanism_with(NotNormalized), "none", "rows sum to one"),
    (mechanism_with(DropoutAlwaysOn), "none", "recorded weights give the output"),
    (mechanism_with(DropoutAlwaysOn), "none", "dropout is off while recording"),
    (mechanism_with(EditsIgnored), "none", "edits"),
    (ScaleDropped, "none", "formula"),
    (PositionBiasDropped, "t5", "gradients"),
    (PositionBiasDropped, "alibi", "key order"),
    (UnusedParameter, "none", "gradients"),
    (DeadParameter, "none", "gradients"),
    (QueryNotRotated, "rotary", "formula"),
    (StartIgnored, "rotary", "steps"),
    (PositionsIgnored, "none", "steps"),
    (LeakedHook, "none", "no hooks are left"),
    (QueryKeySwapped, "none", "formula"),
    (TransposedScores, "none", "shapes"),
    (HeadsMixed, "none", "future is invisible"),
    (BatchCentered, "none", "batch rows are independent"),
    (OrderUndeclared, "none", "key order"),
    (HalfFlops, "none", "cost"),
    (BiasesNotCounted, "none", "cost"),
    (NotSaved, "none", "save and load"),
    (TracedDifferently, "none", "traced"),
    (WrongGradient, "none", "gradcheck"),
    (QueriesRounded, "none", "precision"),
    (AutocastForgotten, "none", "mixed precision"),
    (PositionsDropped, "none", "unsupported positions raise"),
    (Stateful, "none", "cached context"),
    (NoReason, "none", "complete"),
    (NoKeys, "none", "complete"),
    (NoScoreWidth, "none", "cost"),
]


@pytest.mark.parametrize(("bug", "positions", "check"), PLANTED, ids=[f"{b.__name__}-{c}" for b, _, c in PLANTED])
def test_a_planted_bug_is_found(bug: type[Mechanism], positions: str, check: str):
    with pytest.raises(AssertionError) as error:
        check_mechanism(bug, positions=positions, checks=[check], formula=dot)
    assert check in str(error.value)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("cls", [DotMechanism, WrappedDot])
def test_a_correct_mechanism_passes(cls: type[Mechanism], check: str):
    for positions in ("none", "t5"):
        CHECKS[check](Case(cls, positions, formula=dot))


def fails(check: str, positions: str = "none") -> bool:
    """Whether a check of the correct mechanism fails, because the layer, the cache or `record` is broken."""
    try:
        check_mechanism(DotMechanism, positions=positions, checks=[check])
    except AssertionError:
        return True
    return False


def test_a_layer_that_ignores_the_positions_of_the_cache_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(multi_head_attention, "next_position_ids", lambda cache, n: range(n))
    assert fails("steps")
    assert fails("steps", "rotary")


def test_a_layer_that_does_not_zero_padding_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(multi_head_attention, "_zero_padding", lambda x, key_mask: x)
    assert fails("padding is invisible")


def test_a_layer_that_loses_the_mask_of_a_cached_context_is_found(monkeypatch: pytest.MonkeyPatch):
    project_kv = MultiHeadAttention.project_kv
    monkeypatch.setattr(
        MultiHeadAttention, "project_kv", lambda *args, **options: replace(project_kv(*args, **options), key_mask=None)
    )
    assert fails("cached context")


def test_a_cache_that_is_overwritten_is_found(monkeypatch: pytest.MonkeyPatch):
    extend = KVCache.extend

    def overwrite(self: KVCache, new: KVCache) -> KVCache:
        if self._buffer is not None:
            self._buffer.used = self._offset + len(self)  # pretends that there is no other continuation
        return extend(self, new)

    monkeypatch.setattr(KVCache, "extend", overwrite)
    assert not fails("steps")
    assert fails("cache branches")


def test_a_cache_that_does_not_select_values_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        KVCache, "select", lambda self, rows: replace(self, keys=self.keys[rows], values=self.values[:1])
    )
    assert fails("cache branches")


def test_a_recording_that_leaves_its_hook_is_found(monkeypatch: pytest.MonkeyPatch):
    record = hooks.record

    @contextmanager
    def leaky(model: nn.Module):
        with record(model) as recording:
            yield recording
        next(m for m in model.modules()).register_forward_hook(lambda *_: None)

    monkeypatch.setattr(hooks, "record", leaky)
    assert fails("no hooks are left")
    assert not fails("recorded weights give the output")


def test_a_recording_that_leaves_dropout_on_is_found(monkeypatch: pytest.MonkeyPatch):
    record = hooks.record

    @contextmanager
    def with_dropout(model: nn.Module):
        with record(model) as recording:
            model.train()
            yield recording

    monkeypatch.setattr(hooks, "record", with_dropout)
    assert fails("dropout is off while recording")


def test_an_edit_that_outlives_its_block_is_found(monkeypatch: pytest.MonkeyPatch):
    edit, active = hooks.edit, []

    @contextmanager
    def permanent(model: nn.Module, layer: str, change: Any):
        with edit(model, layer, change):
            yield
        active.append(edit(model, layer, change))  # an unreferenced context manager would be closed
        active[-1].__enter__()

    monkeypatch.setattr(hooks, "edit", permanent)
    assert fails("no hooks are left")
    for context in reversed(active):
        context.__exit__(None, None, None)
