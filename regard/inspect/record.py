"""Record the attention weights of a model while it runs.

    output, attention = run_with_attention(model, ids)
    attention["layers.0.attention.attend"]      # weights of this layer, (b, h, q, k)

    with record(model, "layers.0.*") as recording:     # several calls, or some layers only
        model(ids)

Every `Attend` and `nn.MultiheadAttention` gets a forward hook that recomputes the weights from its inputs. The model
has no branch for this and keeps its fused kernels. Dropout is off while recording.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatch
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.masks import Mask
from regard.attention.token_positions import PositionIds, QueryKeyPositions
from regard.errors import UserError, did_you_mean
from regard.inspect.edit import AttentionLayer, apply_edits, attention_inputs, run_eagerly
from regard.inspect.evaluation_mode import evaluation_mode


@dataclass(frozen=True)
class AttentionCall:
    """One call of an attention layer: its weights (b, h, q, k), the positions of queries and keys, and the mask."""

    layer: str
    weights: Tensor
    qk_positions: QueryKeyPositions
    mask: Mask | None


@dataclass(eq=False, repr=False)
class Recording(Mapping[str, Tensor]):
    """Attention weights (b, h, q, k) by layer name, in the order of the calls.

    Attributes:
        calls: Every call. A layer has several if it runs once per decoding step or per group of sentences.
        skipped: Layers whose maps had more than `max_cells` cells.
    """

    calls: list[AttentionCall] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    @property
    def layers(self) -> list[str]:
        """Names of the recorded layers, in the order of their first call."""
        return list(dict.fromkeys(call.layer for call in self.calls))

    def calls_of(self, layer: str) -> list[AttentionCall]:
        """All calls of one layer."""
        if layer not in self.layers:
            raise UserError(f"no attention was recorded at {layer!r}; {did_you_mean(layer, self.layers)}")
        return [call for call in self.calls if call.layer == layer]

    def __getitem__(self, layer: str) -> Tensor:
        """Weights of a layer that was called once."""
        calls = self.calls_of(layer)
        if len(calls) != 1:
            raise UserError(f"{layer!r} was called {len(calls)} times; use .calls_of({layer!r}) and choose one")
        return calls[0].weights

    def __contains__(self, layer: object) -> bool:
        return layer in self.layers

    def __iter__(self) -> Iterator[str]:
        return iter(self.layers)

    def __len__(self) -> int:
        return len(self.layers)

    def __repr__(self) -> str:
        lines = [f"  {call.layer}: {tuple(call.weights.shape)}" for call in self.calls]
        return "\n".join([f"Recording of {len(self.calls)} attention calls, (batch, heads, queries, keys):", *lines])


def find_attention_layers(model: nn.Module, layers: str | Iterable[str] | None = None) -> dict[str, AttentionLayer]:
    """Attention layers of a model by name.

    Args:
        model: Any module that contains `Attend` or `nn.MultiheadAttention`.
        layers: Names or patterns such as "layers.*"; all layers by default.
    """
    modules = {name: module for name, module in model.named_modules() if isinstance(module, AttentionLayer)}
    if layers is None:
        return modules
    patterns = [layers] if isinstance(layers, str) else list(layers)
    for pattern in patterns:
        if not any(fnmatch(name, pattern) for name in modules):
            raise UserError(f"the model has no attention at {pattern!r}; {did_you_mean(pattern, modules)}")
    return {name: module for name, module in modules.items() if any(fnmatch(name, p) for p in patterns)}


@contextmanager
def record(
    model: nn.Module,
    layers: str | Iterable[str] | None = None,
    *,
    heads: list[int] | None = None,
    dtype: torch.dtype | None = None,
    max_cells: int | None = None,
) -> Iterator[Recording]:
    """Record attention weights while the model runs inside the `with` block.

    Args:
        model: A regard model, or any module with `nn.MultiheadAttention` such as `nn.TransformerEncoder`.
        layers: Names or patterns of the layers to record; all by default.
        heads: Heads to keep; all by default.
        dtype: Precision of the recorded weights; that of the model by default.
        max_cells: Maps with more cells (queries times keys, of one head) are skipped and never computed.
    """
    modules = find_attention_layers(model, layers)
    if not modules:
        raise UserError(
            f"{type(model).__name__} has no attention to record: it contains no regard attention layer and no "
            "torch.nn.MultiheadAttention"
        )
    recording = Recording()

    def make_hook(layer: str) -> Callable[..., None]:
        def hook(module: AttentionLayer, args: tuple, kwargs: dict[str, Any], output: Any) -> None:
            with torch.no_grad():
                scores, _, mask = attention_inputs(module, args, kwargs)
                positions = scores.qk_positions
                if max_cells is not None and _length(positions.q_pos) * _length(positions.k_pos) > max_cells:
                    if layer not in recording.skipped:
                        recording.skipped.append(layer)
                    return
                weights = apply_edits(module, scores.weights(mask), scores)
                if heads is not None:
                    weights = weights[:, heads]
            recording.calls.append(AttentionCall(layer, weights.to(dtype or weights.dtype), positions, mask))

        return hook

    handles = [m.register_forward_hook(make_hook(name), with_kwargs=True) for name, m in modules.items()]
    try:
        with evaluation_mode(model), run_eagerly():
            yield recording
    finally:
        for handle in handles:
            handle.remove()
    if not recording.calls and not recording.skipped:
        raise UserError("nothing was recorded: call the model inside `with record(model)`")


def run_with_attention(model: nn.Module, *args: Any, **kwargs: Any) -> tuple[Any, Recording]:
    """Run a model once and return its output with the attention weights of every layer.

    Args:
        model: A regard model, or any module with `nn.MultiheadAttention` such as `nn.TransformerEncoder`.
        *args: Passed to the model.
        **kwargs: Passed to the model.

    Returns:
        The model's output (without dropout), and its attention weights (b, h, q, k) by layer name.

    Example:
        >>> import torch, regard
        >>> encoder = torch.nn.TransformerEncoderLayer(8, nhead=2, batch_first=True)
        >>> output, attention = regard.run_with_attention(encoder, torch.randn(3, 5, 8))
        >>> attention["self_attn"].shape
        torch.Size([3, 2, 5, 5])
    """
    with record(model) as recording:
        output = model(*args, **kwargs)
    return output, recording


def _length(position_ids: PositionIds) -> int:
    return position_ids.shape[-1] if isinstance(position_ids, Tensor) else len(position_ids)
