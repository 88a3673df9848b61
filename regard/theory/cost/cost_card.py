"""The cost card of a layer or a model: every figure by formula and counted on the computation itself, side by side."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef

from regard.layers.multi_head_attention import MultiHeadAttention
from regard.theory.cost.classifier_formulas import NAMERS, SENTENCE
from regard.theory.cost.image_formulas import SEERS
from regard.theory.cost.language_formulas import WRITERS
from regard.theory.cost.layer_formulas import Item, layer_items
from regard.theory.cost.trace import Trace

CLOSE = 0.01


@dataclass(frozen=True)
class CostCard:
    """formula and counted hold the same keys where both know them. `agrees`: whether parameters are equal and FLOPs
    within 1 %; None where there is no formula or an operator without a rule."""

    name: str
    sizes: dict[str, int]
    items: list[Item] | None
    formula: dict[str, int] | None
    counted: dict[str, int | None]
    operators: dict[str, int]
    unknown: list[str]

    @property
    def agrees(self) -> dict[str, bool | None]:
        if self.formula is None:
            return {"params": None, "forward": None, "backward": None}
        near = {}
        for key in ("forward", "backward"):
            said, seen = self.formula[key], self.counted[key]
            near[key] = None if seen is None or self.unknown else abs(said - seen) <= CLOSE * max(1, seen)
        return {"params": self.formula["params"] == self.counted["params"], **near}

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "agrees": self.agrees}


def example_inputs(
    module: nn.Module, n: int, m: int | None = None, *, batch: int = 1, seed: int = 0
) -> tuple[tuple, dict[str, Any]]:
    """Arguments for examples of n places: ids for a model, a sequence for a layer."""
    if type(module).__name__ == "Ensemble":
        return example_inputs(module.members[0], n, m, batch=batch, seed=seed)  # type: ignore[index,arg-type]
    draw = torch.Generator().manual_seed(seed)
    eye = getattr(getattr(module, "image_encoder", None), "backbone", None)
    if eye is not None:
        captions = isinstance(getattr(module, "embed", None), nn.Embedding)
        size = batch, eye.shrinks, eye.shrinks * (m if captions and m is not None else n), 3
        picture = torch.randint(0, 256, size, generator=draw).float()
        ids = torch.randint(0, module.embed.num_embeddings, (batch, n), generator=draw) if captions else None  # type: ignore[union-attr,arg-type]
        return (picture,) if ids is None else (picture, ids), {}
    table = getattr(module, "embed", None) or getattr(module, "embedding", None)
    if isinstance(table, nn.Embedding):
        ids = torch.randint(min(7, table.num_embeddings - 1), table.num_embeddings, (batch, n), generator=draw)
        if hasattr(module, "encode") and hasattr(module, "decode"):
            source = torch.randint(0, table.num_embeddings, (batch, n if m is None else m), generator=draw)
            return (source, ids), {}
        if type(module).__name__ == "SpanReader":
            real = torch.ones_like(ids, dtype=torch.bool)
            return (ids, ids % module.shape.num_embeddings, ids % 2, real, real), {}  # type: ignore[union-attr]
        if hasattr(module, "embedding"):
            return (ids, torch.ones_like(ids, dtype=torch.bool), torch.arange(n).expand(batch, n) // SENTENCE), {}
        return (ids,), {}
    x = torch.randn(batch, n, width(module), generator=draw, requires_grad=True)
    return (x,), {}


def width(module: Any) -> int:
    """How wide a layer's input is."""
    for found in (
        getattr(getattr(module, "mechanism", None), "dim", None),
        getattr(module, "input_size", None),
        getattr(getattr(module, "filter", None), "in_channels", None),
        getattr(getattr(module, "up", None), "in_features", None),
        getattr(getattr(module, "project", None), "in_features", None),
        getattr(getattr(module, "onward", None), "input_size", None),
        getattr(getattr(getattr(module, "attention", None), "mechanism", None), "dim", None),
    ):
        if isinstance(found, int):
            return found
    raise TypeError(f"{type(module).__name__}: no width is known of its input")


def output_tensors(out: Any) -> list[Tensor]:
    """Every tensor of an output that a loss could be made of."""
    if isinstance(out, Tensor):
        return [out]
    if isinstance(out, tuple | list):
        return [t for one in out for t in output_tensors(one)]
    logits = getattr(out, "logits", None)
    if logits is None:
        return []
    return [logits, *(total for total, _ in getattr(out, "terms", {}).values())]


def measure_cost(module: nn.Module, name: str, n: int, m: int | None = None, *, backward: bool = True) -> CostCard:
    """Count one example in evaluation mode (no dropout), forward and backward."""
    was = module.training
    module.eval()
    args, kwargs = example_inputs(module, n, m)
    given = [t for t in args if isinstance(t, Tensor) and t.is_floating_point()]
    if type(module).__name__ == "BidirectionalRNN":
        args = (*args, torch.tensor([n]))
    try:
        with Trace() as forward, SavedActivations(module, given) as kept:
            outs = [t for t in output_tensors(module(*args, **kwargs)) if t.requires_grad]
        if isinstance(module, nn.RNNBase):
            outs = outs[:1]
        back = None
        if backward and outs:
            with Trace() as back:
                torch.autograd.backward(outs, [torch.ones_like(t) for t in outs])
            module.zero_grad(set_to_none=True)
    finally:
        module.train(was)
    parts = items(module, n, m)
    counted: dict[str, int | None] = {
        "params": sum(p.numel() for p in module.parameters()),
        "forward": forward.flops,
        "backward": None if back is None else back.flops,
        "other": forward.other,
        "activations": kept.bytes,
        "kv_cache": kv_cache(module, n),
        "products": forward.products,
        "span": forward.span,
        "serial": forward.serial,
    }
    formula = None if parts is None else total(module, parts, n)
    unknown = sorted({**forward.unknown, **(back.unknown if back else {})})
    return CostCard(name, {"n": n, "m": n if m is None else m}, parts, formula, counted, dict(forward.by), unknown)


def items(module: nn.Module, n: int, m: int | None = None) -> list[Item] | None:
    """The parts of a layer or a model on n places (m of a source); None where there is no formula."""
    found = {**WRITERS, **NAMERS, **SEERS}.get(type(module).__name__)
    if found is None or any(type(one).__name__ not in NAMERS for one in getattr(module, "members", ())):
        return layer_items(module, n, m)
    return list(found(module, n, n if m is None else m))


def total(module: nn.Module, parts: list[Item], n: int) -> dict[str, int]:
    """All parts together. One way between two places is enough, so the path is that of the part with the shortest."""
    paths = [part.path for part in parts if part.path]
    cache = kv_formula(module, n)
    return {
        **({} if cache is None else {"kv_cache": cache}),
        "params": sum(part.params for part in parts),
        "forward": sum(part.flops for part in parts),
        "backward": sum(part.backward for part in parts),
        "scores": sum(part.memory for part in parts),
        "steps": sum(part.steps for part in parts),
        "path": min(paths) if paths else 0,
    }


class SavedActivations(torch.autograd.graph.saved_tensors_hooks):
    """Bytes that are kept for the backward pass, each piece of memory once; parameters and inputs are not counted."""

    def __init__(self, module: nn.Module, given: list[Tensor]):
        self.bytes = 0
        seen = {StorageWeakRef(t.untyped_storage()) for t in [*module.parameters(), *module.buffers(), *given]}

        def pack(tensor: Tensor) -> Tensor:
            where = StorageWeakRef(tensor.untyped_storage())
            if where not in seen:
                seen.add(where)
                self.bytes += tensor.untyped_storage().nbytes()
            return tensor

        super().__init__(pack, lambda tensor: tensor)

    def __enter__(self) -> SavedActivations:
        super().__enter__()
        return self


def kv_formula(module: Any, n: int) -> int | None:
    """4 · n · h · (d_k + d_v) bytes for each layer that is remembered, in float32; the last words besides, where their
    n-grams are looked up."""
    if not hasattr(module, "step") or hasattr(module, "decode"):
        return None
    mechanisms: list[Any] = [m.mechanism for m in module.modules() if isinstance(m, MultiHeadAttention)]
    if not mechanisms or not all(hasattr(m, "key_width") for m in mechanisms):
        return None
    words = 2 * 8 * min(n, getattr(module, "reach", 0))
    return words + sum(4 * n * m.heads * (m.key_width + m.value_width) for m in mechanisms)


def kv_cache(module: Any, n: int) -> int | None:
    """Bytes that a causal model remembers after n places, or of a layer; None where it remembers nothing."""
    from regard.attention.kv_cache import KVCache

    if not hasattr(module, "step") or hasattr(module, "decode"):
        return None
    args, _ = example_inputs(module, n)
    with torch.no_grad():
        _, past = module.step(args[0].detach() if args[0].is_floating_point() else args[0])
    memories = [past] if isinstance(past, KVCache) else past
    return sum(
        (one.keys.numel() * one.keys.element_size()) + one.values.numel() * one.values.element_size()
        for one in memories
    )
