"""Bugs planted one by one, each of which the contract must find; a suite that finds nothing proves nothing."""

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
class Wrapped:
    """Scores that pass everything on; a planted one changes one word."""

    inner: DotScores

    @property
    def qk_positions(self) -> QueryKeyPositions:
        return self.inner.qk_positions

    def weights(self, mask: Mask | None = None) -> Tensor:
        return self.inner.weights(mask)

    def read(self, weights: Tensor, value: Tensor) -> Tensor:
        return weights @ value

    def attend(self, value: Tensor, mask: Mask | None = None) -> Tensor:
        return self.read(self.weights(mask), value)


class Sound(DotMechanism):
    """Not a bug: the same mechanism by another way, which must pass."""

    wrapper: type[Wrapped] = Wrapped

    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        return self.wrapper(super().score(query, keys, qk_positions))  # type: ignore[arg-type]


def scores(wrapper: type[Wrapped]) -> type[Sound]:
    return type(wrapper.__name__, (Sound,), {"wrapper": wrapper, "name": wrapper.__name__})


class MaskIgnored(Wrapped):
    def weights(self, mask: Mask | None = None) -> Tensor:
        return self.inner.weights(None)


class KeysIgnored(Wrapped):
    """Padding keeps its share of the softmax."""

    def weights(self, mask: Mask | None = None) -> Tensor:
        return self.inner.weights(None if mask is None else replace(mask, key_mask=None))


class OneAhead(Wrapped):
    """The causal triangle, one place too wide."""

    def weights(self, mask: Mask | None = None) -> Tensor:
        if mask is None or not mask.causal:
            return self.inner.weights(mask)
        position_ids = self.qk_positions
        seen = (
            position_tensor(position_ids.q_pos)[..., :, None] + 1 >= position_tensor(position_ids.k_pos)[..., None, :]
        )
        pairs = seen[None, None] if mask.attn_mask is None else seen & mask.attn_mask
        return self.inner.weights(Mask(mask.key_mask, pairs))


class NotQuiteForbidden(Wrapped):
    """A large negative number in place of -inf, and no exact zero after."""

    def weights(self, mask: Mask | None = None) -> Tensor:
        free = self.inner.weights(None).log()
        allowed = None if mask is None else mask.allowed(self.qk_positions.q_pos, self.qk_positions.k_pos, free.device)
        return free.softmax(-1) if allowed is None else torch.where(allowed, free, free - 20).softmax(-1)


class NaNRow(Wrapped):
    """softmax of nothing but -inf."""

    def weights(self, mask: Mask | None = None) -> Tensor:
        logits = (self.inner.query * self.inner.scale) @ self.inner.key.transpose(-2, -1)
        allowed = (
            None if mask is None else mask.allowed(self.qk_positions.q_pos, self.qk_positions.k_pos, logits.device)
        )
        return (logits if allowed is None else logits.masked_fill(~allowed, -math.inf)).softmax(-1)


class OtherWeights(Wrapped):
    """What is shown is sharper than what is read."""

    def attend(self, value: Tensor, mask: Mask | None = None) -> Tensor:
        return replace(self.inner, scale=self.inner.scale / 2).attend(value, mask)


class ReadsTooMuch(Wrapped):
    """Something is read besides the weighted values."""

    def attend(self, value: Tensor, mask: Mask | None = None) -> Tensor:
        return self.inner.attend(value, mask) + 0.1 * value.mean(-2, keepdim=True)


class NotNormalised(Wrapped):
    def weights(self, mask: Mask | None = None) -> Tensor:
        return 2 * self.inner.weights(mask)


class DropoutLeftOn(Wrapped):
    """A dropout of its own that knows no evaluation mode."""

    def attend(self, value: Tensor, mask: Mask | None = None) -> Tensor:
        return F.dropout(self.inner.weights(mask), 0.3) @ value


class EditsIgnored(Wrapped):
    """Ablated heads are read all the same."""

    def read(self, weights: Tensor, value: Tensor) -> Tensor:
        return self.inner.weights(None) @ value


class ScaleDropped(DotMechanism):
    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        return replace(super().score(query, keys, qk_positions), scale=1.0)  # type: ignore[type-var]


class PositionBiasDropped(DotMechanism):
    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        return DotScores(query, keys, qk_positions, scale=self.key_width**-0.5)


class ProjectionBiasDropped(DotMechanism):
    """A bias is there, and trained by nobody."""

    def __init__(self, dim: int, heads: int, **options: Any):
        super().__init__(dim, heads, **{**options, "bias": False})
        self.bias = nn.Parameter(torch.zeros(dim))


class DeadParameter(DotMechanism):
    """A parameter that is used, but cannot change anything: the same for every key falls out of the softmax."""

    def __init__(self, dim: int, heads: int, **options: Any):
        super().__init__(dim, heads, **options)
        self.level = nn.Parameter(torch.ones(heads, 1, 1))

    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        plain = super().score(query, keys, qk_positions)
        return replace(plain, bias=self.level.expand(-1, query.shape[2], keys.shape[2])[None])  # type: ignore[type-var]


class RotationForgotten(DotMechanism):
    """Keys are turned, queries are not."""

    def project_qkv(self, x: Tensor, position_ids: PositionIds) -> tuple[Tensor, Tensor, Tensor]:
        _, k, v = super().project_qkv(x, position_ids)
        return self.query(x, range(1)), k, v


class OffsetIgnored(DotMechanism):
    """Every stretch is taken to start at nought."""

    def project_qkv(self, x: Tensor, position_ids: PositionIds) -> tuple[Tensor, Tensor, Tensor]:
        return super().project_qkv(x, range(x.shape[1]))


class PlacesIgnored(DotMechanism):
    """Scores know no offset: a step sees what a first step would."""

    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        return super().score(query, keys, QueryKeyPositions(range(query.shape[2]), range(keys.shape[2])))


class LeakedHook(DotMechanism):
    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        self.register_forward_hook(lambda *_: None)
        return super().score(query, keys, qk_positions)


class SwappedRoles(DotMechanism):
    """Queries and keys have changed places: at equal lengths nothing but the numbers tells."""

    def project_qkv(self, x: Tensor, position_ids: PositionIds) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = super().project_qkv(x, position_ids)
        return k, q, v


class TransposedScores(DotMechanism):
    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        return super().score(keys, query, qk_positions)


class MixedAxes(DotMechanism):
    """Heads and places mixed up: a view where a transpose belongs."""

    def project_qkv(self, x: Tensor, position_ids: PositionIds) -> tuple[Tensor, Tensor, Tensor]:
        b, n, _ = x.shape
        q, k, v = self.qkv.all(x)  # type: ignore[union-attr]
        return tuple(part.reshape(b, self.heads, n, -1) for part in (q, k, v))  # type: ignore[return-value]


class BatchSeen(DotMechanism):
    """Queries are centred over the batch."""

    def project_qkv(self, x: Tensor, position_ids: PositionIds) -> tuple[Tensor, Tensor, Tensor]:
        q, k, v = super().project_qkv(x, position_ids)
        return q - q.mean(0, keepdim=True), k, v


class OrderSeen(DotMechanism):
    """Later keys weigh more, and the mechanism does not say so."""

    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        late = 0.1 * position_tensor(qk_positions.k_pos).to(query.dtype).expand(1, 1, query.shape[2], -1)
        return replace(super().score(query, keys, qk_positions), bias=late)  # type: ignore[type-var]


class CheapCard(DotMechanism):
    """Multiply and add counted as one."""

    def cost(self, n: int, m: int | None = None) -> Cost:
        whole = super().cost(n, m)
        return replace(whole, flops=whole.flops // 2)


class ShortCard(DotMechanism):
    """Biases left out of the count."""

    def params(self) -> int:
        return sum(p.numel() for p in self.parameters() if p.dim() > 1)


class NotSaved(DotMechanism):
    """Part of the weights is no parameter and no buffer."""

    def __init__(self, dim: int, heads: int, **options: Any):
        super().__init__(dim, heads, **options)
        self.gain = torch.rand(1, dtype=torch.float64) + 0.5

    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        return super().score(query * self.gain.to(query.dtype), keys, qk_positions)


class TracedOtherwise(DotMechanism):
    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        plain = super().score(query, keys, qk_positions)
        return replace(plain, scale=1.0) if torch.compiler.is_compiling() else plain  # type: ignore[type-var]


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


class PrecisionLost(DotMechanism):
    """Half precision inside, to be quick."""

    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        query = query.half().float() if query.dtype == torch.float32 else query
        return super().score(query, keys, qk_positions)


class _OwnProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Tensor) -> Tensor:
        ctx.save_for_backward(x, matrix)
        return x @ matrix

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        x, matrix = ctx.saved_tensors
        return grad @ matrix.t(), x.flatten(0, -2).t() @ grad.flatten(0, -2)


class HalfPrecisionForgotten(DotMechanism):
    """A product of its own, whose backward pass meets two precisions under autocast."""

    def __init__(self, dim: int, heads: int, **options: Any):
        super().__init__(dim, heads, **options)
        self.turn = nn.Parameter(torch.eye(self.key_width))

    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        return super().score(_OwnProduct.apply(query, self.turn), keys, qk_positions)  # type: ignore[arg-type]


class PositionsSwallowed(DotMechanism):
    """Says that it takes no rotations, is given one and keeps silent."""

    accepts = frozenset({"none", "embed"})

    def __init__(self, dim: int, heads: int, **options: Any):
        super().__init__(dim, heads, **{**options, "positions": None})


class Remembers(DotMechanism):
    """What it was asked before changes what it says now."""

    def project_query(self, x: Tensor, position_ids: PositionIds) -> Tensor:
        self.asked = getattr(self, "asked", 0) + 1
        return super().project_query(x, position_ids) * (1 + 0.1 * self.asked)


class NoReason(DotMechanism):
    reason = None  # type: ignore[assignment]


class NoCost(Mechanism):
    """Only half written."""

    name, title, citation, reason = "half", "half", "nobody 2025", "none"

    def __init__(self, dim: int, heads: int, **options: Any):
        super().__init__(dim, heads, **options)
        self.qkv = PackedLinear(dim, (dim, dim, dim))

    def project_query(self, x: Tensor, position_ids: PositionIds) -> Tensor:
        return x[:, None]

    def project_kv(self, x: Tensor, position_ids: PositionIds) -> tuple[Tensor, Tensor]:
        return x[:, None], x[:, None]

    def score(self, query: Tensor, keys: Tensor, qk_positions: QueryKeyPositions) -> Scores:
        return DotScores(query, keys, qk_positions, 1.0)


PLANTED = [
    (scores(MaskIgnored), "none", "forbidden weigh nothing"),
    (scores(KeysIgnored), "none", "padding is invisible"),
    (scores(OneAhead), "none", "future is invisible"),
    (scores(OneAhead), "none", "forbidden weigh nothing"),
    (scores(NotQuiteForbidden), "none", "forbidden weigh nothing"),
    (scores(NaNRow), "none", "nowhere reads zero"),
    (scores(OtherWeights), "none", "recorded is read"),
    (scores(ReadsTooMuch), "none", "recorded is read"),
    (scores(NotNormalised), "none", "rows sum to one"),
    (scores(DropoutLeftOn), "none", "recorded is read"),
    (scores(DropoutLeftOn), "none", "dropout is off while recording"),
    (scores(EditsIgnored), "none", "edits"),
    (ScaleDropped, "none", "formula"),
    (PositionBiasDropped, "t5", "gradients"),
    (PositionBiasDropped, "alibi", "order"),
    (ProjectionBiasDropped, "none", "gradients"),
    (DeadParameter, "none", "gradients"),
    (RotationForgotten, "rotary", "formula"),
    (OffsetIgnored, "rotary", "steps"),
    (PlacesIgnored, "none", "steps"),
    (LeakedHook, "none", "nothing is left"),
    (SwappedRoles, "none", "formula"),
    (TransposedScores, "none", "shapes"),
    (MixedAxes, "none", "future is invisible"),
    (BatchSeen, "none", "batch mates are invisible"),
    (OrderSeen, "none", "order"),
    (CheapCard, "none", "cost"),
    (ShortCard, "none", "cost"),
    (NotSaved, "none", "saved and loaded"),
    (TracedOtherwise, "none", "traced"),
    (WrongGradient, "none", "gradcheck"),
    (PrecisionLost, "none", "precision"),
    (HalfPrecisionForgotten, "none", "mixed precision"),
    (PositionsSwallowed, "none", "positions are refused"),
    (Remembers, "none", "memory is read once"),
    (NoReason, "none", "complete"),
    (NoCost, "none", "complete"),
]


@pytest.mark.parametrize(("bug", "positions", "check"), PLANTED, ids=[f"{b.__name__}-{c}" for b, _, c in PLANTED])
def test_a_planted_bug_is_found(bug: type[Mechanism], positions: str, check: str):
    with pytest.raises(AssertionError) as found:
        check_mechanism(bug, positions=positions, checks=[check], formula=dot)
    assert check in str(found.value)


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("cls", [DotMechanism, Sound])
def test_the_unbroken_one_passes(cls: type[Mechanism], check: str):
    for positions in ("none", "t5"):
        CHECKS[check](Case(cls, positions, formula=dot))


def fails(check: str, positions: str = "none") -> bool:
    """Whether the sound mechanism fails: then the layer, the memory or the looking is broken."""
    try:
        check_mechanism(DotMechanism, positions=positions, checks=[check])
    except AssertionError:
        return True
    return False


def test_a_layer_that_ignores_the_offset_of_steps_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(multi_head_attention, "after", lambda past, new: range(new))
    assert fails("steps")
    assert fails("steps", "rotary")


def test_a_layer_that_lets_padding_through_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(multi_head_attention, "_without_padding", lambda x, real: x)
    assert fails("padding is invisible")


def test_a_layer_that_forgets_the_padding_of_a_memory_is_found(monkeypatch: pytest.MonkeyPatch):
    remember = MultiHeadAttention.remember
    monkeypatch.setattr(MultiHeadAttention, "remember", lambda *a, **k: replace(remember(*a, **k), mask=None))
    assert fails("memory is read once")


def test_a_cache_that_is_written_over_is_found(monkeypatch: pytest.MonkeyPatch):
    extend = KVCache.extend

    def clobber(self: KVCache, new: KVCache) -> KVCache:
        if self._room is not None:
            self._room.taken = self._start + len(self)  # "nobody else has gone on from here"
        return extend(self, new)

    monkeypatch.setattr(KVCache, "extend", clobber)
    assert not fails("steps")
    assert fails("branches")


def test_a_memory_that_picks_no_rows_is_found(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        KVCache, "select", lambda self, rows: replace(self, keys=self.keys[rows], values=self.values[:1])
    )
    assert fails("branches")


def test_a_recording_that_leaves_its_hook_is_found(monkeypatch: pytest.MonkeyPatch):
    record = hooks.record

    @contextmanager
    def leaky(model: nn.Module):
        with record(model) as recording:
            yield recording
        next(m for m in model.modules()).register_forward_hook(lambda *_: None)

    monkeypatch.setattr(hooks, "record", leaky)
    assert fails("nothing is left")
    assert not fails("recorded is read")


def test_a_recording_that_leaves_dropout_on_is_found(monkeypatch: pytest.MonkeyPatch):
    record = hooks.record

    @contextmanager
    def lively(model: nn.Module):
        with record(model) as recording:
            model.train()
            yield recording

    monkeypatch.setattr(hooks, "record", lively)
    assert fails("dropout is off while recording")


def test_an_edit_that_outlives_its_block_is_found(monkeypatch: pytest.MonkeyPatch):
    edit, kept = hooks.edit, []

    @contextmanager
    def lasting(model: nn.Module, site: str, change: Any):
        with edit(model, site, change):
            yield
        kept.append(edit(model, site, change))  # what nobody holds would be closed at once
        kept[-1].__enter__()

    monkeypatch.setattr(hooks, "edit", lasting)
    assert fails("nothing is left")
    for one in reversed(kept):
        one.__exit__(None, None, None)
