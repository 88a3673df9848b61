"""The cost card of a layer or a model: every number by formula, and counted on the computation itself, side by side."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef

from regard.attention.kv_cache import KVCache
from regard.data.frames import html_table, to_frame
from regard.layers.attention_pooling import AttentionPooling
from regard.layers.bidirectional_rnn import BidirectionalRNN
from regard.layers.cost_formulas import (
    PartCost,
    attention_cost,
    birnn_costs,
    conv_cost,
    encoder_block_costs,
    ffn_costs,
    num_params,
    params_cost,
    pooling_cost,
    rnn_costs,
)
from regard.layers.multi_head_attention import MultiHeadAttention
from regard.layers.transformer_blocks import EncoderBlock, FeedForward
from regard.models.ensemble import Ensemble
from regard.models.sentence_groups import SENTENCE_LENGTH
from regard.models.span_reader import SpanReader
from regard.theory.cost.reference_layers import CausalConv
from regard.theory.cost.trace import Trace

TOLERANCE = 0.01
"""Relative difference of FLOPs up to which formula and count agree."""


@dataclass(frozen=True, repr=False)
class CostCard:
    """The cost of one example.

    Attributes:
        name: What is costed.
        sizes: n, the length of the sequence, and m, the length of the source.
        parts: The cost of each part by formula; None if there is no formula.
        formula: Totals by formula: params, forward, backward, scores, steps, path, and kv_cache where there is one.
        counted: The same counted on the computation, and more: activations, products, span, serial.
        operators: FLOPs of the forward pass by operator.
        unknown: Operators without a counting rule.
    """

    name: str
    sizes: dict[str, int]
    parts: list[PartCost] | None
    formula: dict[str, int] | None
    counted: dict[str, int | None]
    operators: dict[str, int]
    unknown: list[str]

    @property
    def agrees(self) -> dict[str, bool | None]:
        """Whether formula and count agree: parameters exactly, FLOPs within 1 %.

        None where there is no formula, or an operator without a rule.
        """
        if self.formula is None:
            return {"params": None, "forward": None, "backward": None}
        agrees: dict[str, bool | None] = {"params": self.formula["params"] == self.counted["params"]}
        for key in ("forward", "backward"):
            expected, counted = self.formula[key], self.counted[key]
            if counted is None or self.unknown:
                agrees[key] = None
            else:
                agrees[key] = abs(expected - counted) <= TOLERANCE * max(1, counted)
        return agrees

    def as_dict(self) -> dict[str, Any]:
        """The card as plain data."""
        return {**asdict(self), "agrees": self.agrees}

    def to_frame(self) -> Any:
        """A DataFrame with one row per figure: its name, by formula, and counted."""
        return to_frame(self._records())

    def _records(self) -> list[dict[str, Any]]:
        formula = self.formula or {}
        names = [*self.counted, *(name for name in formula if name not in self.counted)]
        return [{"figure": name, "formula": formula.get(name), "counted": self.counted.get(name)} for name in names]

    def __repr__(self) -> str:
        def show(value: int | None) -> str:
            return "-" if value is None else f"{value:,}"

        rows = [f"{r['figure']:12} {show(r['formula']):>18} {show(r['counted']):>18}" for r in self._records()]
        sizes = ", ".join(f"{name}={size}" for name, size in self.sizes.items())
        return "\n".join([f"{self.name} ({sizes})", f"{'':12} {'by formula':>18} {'counted':>18}", *rows])

    def _repr_html_(self) -> str:
        return html_table(self._records())


def measure_cost(module: nn.Module, name: str, n: int, m: int | None = None, *, backward: bool = True) -> CostCard:
    """Count one example in evaluation mode (no dropout), and compute the same by formula.

    Args:
        module: A layer or a model.
        name: Its name on the card.
        n: Length of the sequence.
        m: Length of the source; None for n.
        backward: Whether to count the backward pass too.
    """
    was_training = module.training
    module.eval()
    args = example_inputs(module, n, m)
    float_inputs = [t for t in args if t.is_floating_point()]
    if isinstance(module, BidirectionalRNN):
        args = (*args, torch.tensor([n]))
    try:
        with Trace() as forward_trace, SavedActivations(module, float_inputs) as activations:
            outputs = [t for t in output_tensors(module(*args)) if t.requires_grad]
        if isinstance(module, nn.RNNBase):
            outputs = outputs[:1]
        backward_trace = None
        if backward and outputs:
            with Trace() as backward_trace:
                torch.autograd.backward(outputs, [torch.ones_like(t) for t in outputs])
            module.zero_grad(set_to_none=True)
    finally:
        module.train(was_training)
    counted: dict[str, int | None] = {
        "params": num_params(module),
        "forward": forward_trace.flops,
        "backward": None if backward_trace is None else backward_trace.flops,
        "other": forward_trace.other_ops,
        "activations": activations.bytes,
        "kv_cache": measure_kv_cache(module, n),
        "products": forward_trace.products,
        "span": forward_trace.span,
        "serial": forward_trace.serial,
    }
    parts = cost_parts(module, n, m)
    formula = None if parts is None else sum_parts(module, parts, n)
    unknown = sorted({**forward_trace.unknown_ops, **(backward_trace.unknown_ops if backward_trace else {})})
    sizes = {"n": n, "m": n if m is None else m}
    return CostCard(name, sizes, parts, formula, counted, dict(forward_trace.flops_by_op), unknown)


def example_inputs(module: Any, n: int, m: int | None = None, *, batch: int = 1, seed: int = 0) -> tuple[Tensor, ...]:
    """Random arguments of a forward pass.

    Args:
        module: A layer or a model.
        n: Length of the sequence; of an image classifier, the number of grid cells.
        m: Length of the source, or its number of grid cells; None for n.
        batch: Number of examples.
        seed: Seed of the random ids.

    Returns:
        Token ids (batch, n) and what else the model takes, or a sequence (batch, n, dim) for a layer.
    """
    if isinstance(module, Ensemble):
        return example_inputs(module.members[0], n, m, batch=batch, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    source_length = n if m is None else m
    table = getattr(module, "embed", None) or getattr(module, "embedding", None)
    num_ids = table.num_embeddings if isinstance(table, nn.Embedding) else 0
    if hasattr(module, "image_encoder"):
        cell_size = module.image_encoder.backbone.downsampling
        cells = source_length if num_ids else n
        images = torch.randint(0, 256, (batch, cell_size, cell_size * cells, 3), generator=generator).float()
        if not num_ids:
            return (images,)
        return images, torch.randint(0, num_ids, (batch, n), generator=generator)
    if not num_ids:
        return (torch.randn(batch, n, input_width(module), generator=generator, requires_grad=True),)
    ids = torch.randint(min(7, num_ids - 1), num_ids, (batch, n), generator=generator)
    if hasattr(module, "encode") and hasattr(module, "decode"):
        return torch.randint(0, num_ids, (batch, source_length), generator=generator), ids
    mask = torch.ones_like(ids, dtype=torch.bool)
    if isinstance(module, SpanReader):
        return ids, ids % module.shape.num_embeddings, ids % 2, mask, mask
    if hasattr(module, "embedding"):  # a classifier
        return ids, mask, torch.arange(n).expand(batch, n) // SENTENCE_LENGTH
    return (ids,)


def input_width(module: Any) -> int:
    """The width of a layer's input."""
    if isinstance(module, nn.RNNBase):
        return module.input_size
    if isinstance(module, EncoderBlock):
        return module.attention.mechanism.dim
    if isinstance(module, MultiHeadAttention):
        return module.mechanism.dim
    for child in module.modules():  # the first matrix
        for attribute in ("in_features", "in_channels", "input_size"):
            if hasattr(child, attribute):
                return getattr(child, attribute)
    raise TypeError(f"{type(module).__name__}: the width of its input is not known")


def output_tensors(output: Any) -> list[Tensor]:
    """Every tensor of a model's output that enters a loss."""
    if isinstance(output, Tensor):
        return [output]
    if isinstance(output, tuple | list):
        return [t for part in output for t in output_tensors(part)]
    logits = getattr(output, "logits", None)
    if logits is None:
        return []
    return [logits, *(total for total, _ in getattr(output, "terms", {}).values())]


def cost_parts(module: Any, n: int, m: int | None = None) -> list[PartCost] | None:
    """The parts of a layer or a model by formula; None if there is no formula."""
    if hasattr(module, "cost_parts"):
        members = getattr(module, "members", ())
        if all(hasattr(member, "cost_parts") for member in members):
            return list(module.cost_parts(n, n if m is None else m))
    if isinstance(module, MultiHeadAttention):
        parts = [attention_cost("attention", module, n, m)]
        positions = params_cost("positions", module.mechanism.positions)
        return [*parts, positions] if positions.params else parts
    if isinstance(module, nn.RNNBase):
        return list(rnn_costs(type(module).__name__.lower(), module, n))
    if isinstance(module, CausalConv):
        lookback = module.conv.kernel_size[0] - 1
        return [conv_cost("convolution", module.conv, n, -(-(n - 1) // max(1, lookback)))]
    if isinstance(module, BidirectionalRNN):
        return list(birnn_costs("rnn", module, n))
    if isinstance(module, AttentionPooling):
        return [pooling_cost("pool", module, n)]
    if isinstance(module, FeedForward):
        return list(ffn_costs("ffn", module, n))
    if isinstance(module, EncoderBlock):
        return list(encoder_block_costs("block", module, n))
    return None


def sum_parts(module: nn.Module, parts: list[PartCost], n: int) -> dict[str, int]:
    """Totals of all parts.

    One path between two positions is enough, so the path is that of the part with the shortest one.
    """
    paths = [part.path for part in parts if part.path]
    kv_cache = kv_cache_formula(module, n)
    return {
        **({} if kv_cache is None else {"kv_cache": kv_cache}),
        "params": sum(part.params for part in parts),
        "forward": sum(part.flops for part in parts),
        "backward": sum(part.backward for part in parts),
        "scores": sum(part.memory for part in parts),
        "steps": sum(part.steps for part in parts),
        "path": min(paths) if paths else 0,
    }


class SavedActivations(torch.autograd.graph.saved_tensors_hooks):
    """Context manager that counts the bytes that autograd saves for the backward pass.

    Each storage counts once; parameters, buffers and inputs do not count.
    """

    def __init__(self, module: nn.Module, inputs: list[Tensor]):
        self.bytes = 0
        seen = {StorageWeakRef(t.untyped_storage()) for t in [*module.parameters(), *module.buffers(), *inputs]}

        def pack(tensor: Tensor) -> Tensor:
            storage = StorageWeakRef(tensor.untyped_storage())
            if storage not in seen:
                seen.add(storage)
                self.bytes += tensor.untyped_storage().nbytes()
            return tensor

        super().__init__(pack, lambda tensor: tensor)

    def __enter__(self) -> SavedActivations:
        super().__enter__()
        return self


def kv_cache_formula(module: Any, n: int) -> int | None:
    """Bytes of the KV cache of a causal model after n tokens, in float32: 4 · n · h · (d_k + d_v) for each layer.

    The last token ids are cached too if n-grams of them are embedded. None if there is no cache.
    """
    if not hasattr(module, "step") or hasattr(module, "decode"):
        return None
    mechanisms: list[Any] = [layer.mechanism for layer in module.modules() if isinstance(layer, MultiHeadAttention)]
    if not mechanisms or not all(hasattr(mechanism, "key_width") for mechanism in mechanisms):
        return None
    ids = 2 * 8 * min(n, getattr(module, "embedding_lookback", 0))
    return ids + sum(4 * n * m.heads * (m.key_width + m.value_width) for m in mechanisms)


def measure_kv_cache(module: Any, n: int) -> int | None:
    """Bytes of the KV cache of a causal model or layer after n tokens; None if there is no cache."""
    if not hasattr(module, "step") or hasattr(module, "decode"):
        return None
    with torch.no_grad():
        _, caches = module.step(example_inputs(module, n)[0].detach())
    return sum(
        tensor.numel() * tensor.element_size()
        for cache in ([caches] if isinstance(caches, KVCache) else caches)
        for tensor in (cache.keys, cache.values)
    )
