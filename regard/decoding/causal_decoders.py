"""Three decoders for causal models with the same interface: read the prompts, then one token of each at a time.

    UncachedDecoder   reads the whole text again for every token: any model
    CachedDecoder     keeps a `KVCache` per layer: any mechanism and positions
    OptimizedDecoder  converted weights and caches that are written in place: dot attention

All three compute the same logits up to rounding. A decoder holds the state of one call; `copy.copy` of a decoder shares
its weights, but not its state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard import kernels
from regard.attention.kv_cache import next_position_ids
from regard.attention.positions.position_encoding import PositionEncoding
from regard.attention.positions.rotary import Rotary
from regard.decoding import quantized_linear
from regard.decoding.fused_blocks import fuse_blocks
from regard.decoding.inplace_kv_cache import InPlaceKVCache
from regard.decoding.left_padding import pad_left
from regard.decoding.optimized_blocks import KeyRange, OptimizedBlock, VisibleKeys, build_norm, optimize_blocks
from regard.errors import UserError
from regard.models.gpt import GPT

TokenRows = Sequence[Sequence[int]]


class CausalDecoder(Protocol):
    """The interface of the decoders."""

    def prefill(self, prompts: TokenRows, max_new_tokens: int) -> Tensor:
        """Drop the state and read these prompts. Returns the logits of the next token of each, (b, vocab).

        `max_new_tokens` is how many tokens may follow.
        """
        ...

    def step(self, ids: Tensor) -> Tensor:
        """Read one more token of each text, (b,). Returns the logits of the next, (b, vocab)."""
        ...

    def select(self, rows: Tensor) -> None:
        """Keep these texts, in this order. A text may be selected more than once."""
        ...


class UncachedDecoder:
    """Reads the whole text again at each step. The model maps (ids, mask=, logits_at=) to logits."""

    def __init__(self, model: nn.Module):
        self.model = model

    def prefill(self, prompts: TokenRows, max_new_tokens: int) -> Tensor:
        self.texts = [list(prompt) for prompt in prompts]
        return self._logits()

    def step(self, ids: Tensor) -> Tensor:
        for text, id in zip(self.texts, ids.tolist(), strict=True):
            text.append(id)
        return self._logits()

    def select(self, rows: Tensor) -> None:
        self.texts = [list(self.texts[i]) for i in rows.tolist()]

    def _logits(self) -> Tensor:
        last = torch.tensor([len(text) for text in self.texts]) - 1
        columns = torch.arange(int(last.max()) + 1)
        ids = torch.tensor([text + [0] * (len(columns) - len(text)) for text in self.texts])
        return self.model(ids, mask=columns <= last[:, None], logits_at=torch.arange(len(last)) * len(columns) + last)


class CachedDecoder:
    """Keeps the `KVCache` of each layer."""

    def __init__(self, model: GPT):
        self.model = model

    def prefill(self, prompts: TokenRows, max_new_tokens: int) -> Tensor:
        ids, mask, position_ids = pad_left(prompts)
        states, self.caches = self.model.step_states(ids, mask=mask, position_ids=position_ids)
        return self.model.head(states[:, -1])

    def step(self, ids: Tensor) -> Tensor:
        states, self.caches = self.model.step_states(ids[:, None], self.caches)
        return self.model.head(states[:, -1])

    def select(self, rows: Tensor) -> None:
        self.caches = [cache.select(rows) for cache in self.caches]


class OptimizedDecoder:
    """Runs optimized blocks on caches that are written in place."""

    def __init__(self, model: GPT, blocks: list[OptimizedBlock], precision: str = "float32"):
        self.model, self.blocks, self.fused = model, blocks, fuse_blocks(blocks)
        self.positions, self.embed = model.positions, model.embed.weight.detach()
        self.norm, self.head = build_norm(model.norm), model.head
        if getattr(model, "adaptive", None) is None:
            self.head = quantized_linear.linear_factory(precision)(model.embed.weight, None)

    def prefill(self, prompts: TokenRows, max_new_tokens: int) -> Tensor:
        ids, mask, position_ids = pad_left(prompts)
        # Positions inside attention depend on distances only, which padding on the left does not change. So all texts
        # can be counted from the first column.
        position_ids = range(ids.shape[1]) if self.positions.in_attention is not None else position_ids
        states, caches = self.model.step_states(ids, mask=mask, position_ids=position_ids)
        self.caches = [InPlaceKVCache(cache, max_new_tokens) for cache in caches[: len(self.blocks)]]
        self.previous_ids = caches[-1].keys[:, 0, :, 0] if self.model.embedding_lookback else None
        self.position_ids = next_position_ids(caches[0], 1)
        self.key_range = None
        can_use_kernels = kernels.can_use_kernels(states) and kernels.can_use_kernels(caches[0].keys)
        if can_use_kernels and self.positions.kind != "bias":
            padding = None if mask is None else (~mask).sum(1, dtype=torch.int32)
            self.key_range = KeyRange(first=padding)
        # Without the kernels a bias on the scores hides the padding. It is built once and cut to the number of keys.
        self.padding_bias = None
        if mask is not None and self.key_range is None:
            self.padding_bias = torch.zeros(len(ids), 1, 1, ids.shape[1] + max_new_tokens)
            self.padding_bias[:, 0, 0, : ids.shape[1]].masked_fill_(~mask, -torch.inf)
        return self.head(states[:, -1])

    def step(self, ids: Tensor) -> Tensor:
        n = self.caches[0].length
        column = range(n, n + 1)
        x = self.positions.embed(self._embed(ids), self.position_ids).flatten(0, 1)
        visible: VisibleKeys = self.key_range or self._bias(column)
        if self.fused is not None and isinstance(visible, KeyRange):
            x = self.fused.step(x, self.caches, visible, column)
        else:
            for block, cache in zip(self.blocks, self.caches, strict=True):
                x = block(x, cache, position_ids=column, visible=visible)
        current = self.position_ids
        self.position_ids = current + 1 if isinstance(current, Tensor) else range(n + 1, n + 2)
        return self.head(self.norm(x, None)[1])

    def select(self, rows: Tensor) -> None:
        for cache in self.caches:
            cache.select(rows)
        self.padding_bias = None if self.padding_bias is None else self.padding_bias[rows]
        if self.key_range is not None and self.key_range.first is not None:
            self.key_range = KeyRange(first=self.key_range.first[rows])
        self.previous_ids = None if self.previous_ids is None else self.previous_ids[rows]
        self.position_ids = self.position_ids[rows] if isinstance(self.position_ids, Tensor) else self.position_ids

    def _embed(self, ids: Tensor) -> Tensor:
        """Token ids (b,) to embeddings (b, 1, dim)."""
        if self.previous_ids is None:
            return self.embed.index_select(0, ids)[:, None]
        embeddings = self.model.embed_tokens(ids[:, None], self.previous_ids)
        self.previous_ids = torch.cat((self.previous_ids, ids[:, None]), 1)[:, -self.model.embedding_lookback :]
        return embeddings

    def _bias(self, column: range) -> Tensor | None:
        """The bias of this step's scores, which all layers share."""
        keys = range(column.stop)
        bias = self.positions.bias(column, keys) if self.positions.kind == "bias" else None
        if self.padding_bias is None:
            return bias
        if len(keys) > self.padding_bias.shape[-1]:  # keys beyond the reserved ones are not padding
            self.padding_bias = F.pad(self.padding_bias, (0, len(keys)))
        padding_bias = self.padding_bias[..., : len(keys)]
        return padding_bias if bias is None else padding_bias + bias


def build_causal_decoder(model: nn.Module, *, cache: bool = True, precision: str = "float32") -> CausalDecoder:
    """The fastest decoder for this model.

    Args:
        cache: False reads the whole text again for every token.
        precision: float32, float16 or int8. The latter two need a model that can be optimized.
    """
    if cache and isinstance(model, GPT) and uses_distances_only(model.positions):
        blocks = optimize_blocks(model.layers, precision)
        if blocks is not None:
            return OptimizedDecoder(model, blocks, precision)
    if precision != quantized_linear.FULL_PRECISION:
        raise UserError(
            f"precision {precision!r} needs a GPT with dot attention and a KV cache; {type(model).__name__} does not "
            "support it. Use float32"
        )
    return CachedDecoder(model) if cache and isinstance(model, GPT) else UncachedDecoder(model)


def has_hooks(model: nn.Module) -> bool:
    """Whether a module has a hook (of `record`, `edit` or the user), which optimized blocks would not call."""
    return any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


def uses_distances_only(positions: PositionEncoding) -> bool:
    """Whether these positions depend on distances only, where they act inside attention."""
    return positions.in_attention is None or positions.distance_only or isinstance(positions, Rotary)
