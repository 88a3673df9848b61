"""Optimizers and the learning rate schedule: AdamW, and Muon for the hidden matrices.

Muon (Keller Jordan 2024, https://kellerjordan.github.io/posts/muon/) replaces the momentum of a matrix by the nearest
orthogonal matrix, U Vᵀ of its singular value decomposition, approximated by five Newton-Schulz steps

    X ← a X + b (X Xᵀ) X + c (X Xᵀ)² X,   a, b, c = 3.4445, -4.7750, 2.0315

It is computed in float32 (torch.optim.Muon uses bfloat16, which kills the process on some processors). Its update is
scaled by 0.2 · sqrt(max(rows, columns)) (Liu et al. 2025, "Muon is scalable for LLM training", eq. 4). That gives it
the root mean square of an AdamW update, so the learning rate and the weight decay of AdamW can be used.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.optim import AdamW, Optimizer

from regard.config.settings import TrainSettings
from regard.errors import UserError, did_you_mean

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
BETAS = (0.9, 0.99)
OPTIMIZERS = ("adamw", "muon")
DECAYS = ("cosine", "linear", "constant")


def lr_multiplier(step: int, total: int, warmup: float, decay: str) -> float:
    """The factor of the learning rate at a step (from 0) of `total`: linear warmup, then decay towards 0.

    Depends on its arguments only, so that a resumed run has the same rate. In (0, 1] for each of the steps.
    """
    warmup_steps = min(round(warmup * total), total)
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    if decay == "constant":
        return 1.0
    fraction = min((step - warmup_steps) / max(total - warmup_steps, 1), 1.0)
    if decay == "linear":
        return 1.0 - fraction
    if decay == "cosine":
        return 0.5 * (1.0 + math.cos(math.pi * fraction))
    raise UserError(f"unknown decay {decay!r}; {did_you_mean(decay, DECAYS)}")


def group_parameters(model: nn.Module, optimizer: str) -> dict[str, str]:
    """How each parameter is trained, by name: `muon`, `decay` (AdamW) or `no_decay` (AdamW without weight decay).

    Biases, norms and embeddings have no weight decay. Must be called before a strategy shards the parameters.
    """
    matrices = {id(p) for p in hidden_matrices(model)} if optimizer == "muon" else set()
    embeddings = embedding_ids(model)

    def group_of(p: nn.Parameter) -> str:
        return "muon" if id(p) in matrices else "no_decay" if p.ndim < 2 or id(p) in embeddings else "decay"

    return {name: group_of(p) for name, p in model.named_parameters() if p.requires_grad}


def build_optimizers(
    model: nn.Module, settings: TrainSettings, *, fused: bool = True, groups: dict[str, str] | None = None
) -> list[Optimizer]:
    """The optimizers of a model: AdamW alone, or Muon for the hidden matrices and AdamW for the rest.

    Args:
        fused: Whether to use the fused AdamW, if the device has it.
        groups: The group of each parameter by name, from `group_parameters`.
    """
    if settings.optimizer not in OPTIMIZERS:
        raise UserError(f"unknown optimizer {settings.optimizer!r}; {did_you_mean(settings.optimizer, OPTIMIZERS)}")
    groups = group_parameters(model, settings.optimizer) if groups is None else groups
    if not groups:
        raise UserError("the model has no parameters to train; set requires_grad for some")
    params: dict[str, list[nn.Parameter]] = {"muon": [], "decay": [], "no_decay": []}
    for name, p in model.named_parameters():
        if p.requires_grad:
            params[groups[name.replace("_fsdp_wrapped_module.", "")]].append(p)
    optimizers: list[Optimizer] = []
    if params["muon"]:
        optimizers.append(Muon(params["muon"], lr=settings.lr, weight_decay=settings.weight_decay))
    weight_decays = {"decay": settings.weight_decay, "no_decay": 0.0}
    param_groups = [
        {"params": params[group], "weight_decay": decay} for group, decay in weight_decays.items() if params[group]
    ]
    if param_groups:
        optimizers.append(_adamw(param_groups, settings.lr, fused))
    return optimizers


def _adamw(groups: list[dict], lr: float, fused: bool) -> Optimizer:
    try:
        return AdamW(groups, lr=lr, betas=BETAS, fused=fused)
    except RuntimeError:  # not every device and type has a fused AdamW
        return AdamW(groups, lr=lr, betas=BETAS)


def embedding_ids(model: nn.Module) -> set[int]:
    """The ids of all embedding matrices, and so of the matrices tied to them."""
    return {id(m.weight) for m in model.modules() if isinstance(m, (nn.Embedding, nn.EmbeddingBag))}


def hidden_matrices(model: nn.Module) -> list[nn.Parameter]:
    """The matrices for Muon: 2-D, no embedding, not tied to one, and not the output head.

    The output head is assumed to be the linear layer that was defined last. A module or parameter with the attribute
    `muon = False` is excluded too; a parameter with `muon = True` is always included.
    """
    embeddings = embedding_ids(model)
    excluded = {
        id(p) for m in model.modules() if getattr(m, "muon", None) is False for p in m.parameters() if p.requires_grad
    }
    _split_gates(model)
    linears = [m for m in model.modules() if isinstance(m, nn.Linear)]
    head = id(linears[-1].weight) if linears else None
    matrices = []
    for p in model.parameters():
        use_muon = getattr(p, "muon", None)
        if p.ndim != 2 or not p.requires_grad or use_muon is False or min(p.shape) == 1:
            continue
        if use_muon or not (id(p) in embeddings or id(p) in excluded or id(p) == head):
            matrices.append(p)
    return matrices


def _split_gates(model: nn.Module) -> None:
    """Mark the gates of recurrent layers, which are separate matrices packed in one."""
    for m in model.modules():
        if isinstance(m, nn.RNNBase | nn.RNNCellBase):
            for name, p in m.named_parameters():
                if name.startswith(("weight_ih", "weight_hh")):
                    p.muon_splits = p.shape[0] // m.hidden_size  # type: ignore[attr-defined]


class Muon(Optimizer):
    """Momentum, orthogonalized. Matrices of the same shape are processed in one batch.

    A packed matrix (such as queries, keys and values) is orthogonalized part by part along its rows, if the parameter
    has an attribute `muon_splits`, the number of parts.
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict],
        lr: float = 1e-3,
        weight_decay: float = 0.0,
        momentum: float = 0.95,
        nesterov: bool = True,
        steps: int = 5,
    ) -> None:
        defaults = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "steps": steps,
        }
        super().__init__(params, defaults)  # type: ignore[arg-type]
        for group in self.param_groups:
            for p in group["params"]:
                splits = getattr(p, "muon_splits", 1)
                if p.ndim != 2 or p.shape[0] % splits:
                    raise ValueError(
                        f"Muon needs matrices whose number of rows is divisible by {splits}, got {tuple(p.shape)}"
                    )

    @torch.no_grad()
    def step(self, closure=None):  # type: ignore[override]
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            self._step(group)
        return loss

    def _step(self, group: dict) -> None:
        params = [p for p in group["params"] if p.grad is not None]
        if not params:
            return
        lr, beta, decay = group["lr"], group["momentum"], group["weight_decay"]
        by_shape: dict[torch.Size, list[tuple[Tensor, Tensor]]] = defaultdict(list)
        for p in params:
            gradient, state = p.grad.float(), self.state[p]
            if "momentum" not in state:
                state["momentum"] = torch.zeros_like(p, dtype=torch.float32, memory_format=torch.contiguous_format)
            moment = state["momentum"].lerp_(gradient, 1 - beta)
            update = gradient.lerp(moment, beta) if group["nesterov"] else moment
            splits = getattr(p, "muon_splits", 1)
            for target, part in zip(p.chunk(splits), update.chunk(splits), strict=True):
                by_shape[part.shape].append((target, part))
        for shape, pairs in by_shape.items():
            orthogonal = orthogonalize(torch.stack([part for _, part in pairs]), group["steps"])
            scale = 0.2 * math.sqrt(max(shape))
            for (target, _), update in zip(pairs, orthogonal.unbind(), strict=True):
                if decay:
                    target.mul_(1 - lr * decay)
                target.add_(update.to(target.dtype), alpha=-lr * scale)


def orthogonalize(matrices: Tensor, steps: int = 5) -> Tensor:
    """Approximate the nearest orthogonal matrix of each of a batch (b, rows, columns): singular values near 1."""
    a, b, c = NEWTON_SCHULZ
    x = matrices.float()
    tall = x.shape[-2] > x.shape[-1]
    if tall:
        x = x.mT
    x = x / x.norm(dim=(-2, -1), keepdim=True).clamp_min(1e-7)
    for _ in range(steps):
        gram = torch.bmm(x, x.mT)
        inner = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        x = torch.baddbmm(x, inner, x, beta=a)
    return x.mT if tall else x
