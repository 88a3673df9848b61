"""Copy the weights of torch.nn layers into ours, and compare outputs and gradients."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from regard.layers import FeedForward, MultiHeadAttention

B, N, M, DIM, HEADS = 2, 11, 13, 21, 3

KEY_MASK = torch.arange(N) < torch.tensor([[N], [7]])
CAUSAL = torch.ones(N, N, dtype=torch.bool).tril()


def copy_attention(theirs: nn.MultiheadAttention, ours: MultiHeadAttention) -> None:
    with torch.no_grad():
        perturb(theirs)
        mechanism = ours.mechanism
        if theirs.in_proj_weight is not None:
            mechanism.qkv.weight.copy_(theirs.in_proj_weight)
            mechanism.qkv.bias.copy_(theirs.in_proj_bias)
        else:
            b = theirs.in_proj_bias.chunk(3)
            mechanism.q.weight.copy_(theirs.q_proj_weight)
            mechanism.q.bias.copy_(b[0])
            mechanism.kv.weight.copy_(torch.cat((theirs.k_proj_weight, theirs.v_proj_weight)))
            mechanism.kv.bias.copy_(torch.cat(b[1:]))
        ours.out.load_state_dict(theirs.out_proj.state_dict())


def copy_ffn(theirs: nn.Module, ours: FeedForward) -> None:
    ours.up.load_state_dict(theirs.linear1.state_dict())
    ours.down.load_state_dict(theirs.linear2.state_dict())


def copy_norm(theirs: nn.LayerNorm, ours: nn.Module) -> None:
    perturb(theirs)
    ours.norm.load_state_dict(theirs.state_dict())


@torch.no_grad()
def perturb(module: nn.Module) -> None:
    """Torch initializes biases with zero, which would hide an error."""
    for p in module.parameters():
        p.add_(0.1 * torch.randn_like(p))


def assert_same(theirs: Tensor, ours: Tensor, inputs: list[Tensor]) -> None:
    """Outputs and gradients of the inputs are equal."""
    assert torch.allclose(theirs, ours, atol=1e-12)
    weights = torch.randn_like(ours)
    expected, actual = (torch.autograd.grad((out * weights).sum(), inputs) for out in (theirs, ours))
    for a, b in zip(actual, expected, strict=True):
        assert torch.allclose(a, b, atol=1e-11)


def random_inputs(width: int = DIM) -> tuple[Tensor, Tensor]:
    """A sequence (B, N, DIM) and a context (B, M, width)."""
    g = torch.Generator().manual_seed(1)
    x = torch.randn(B, N, DIM, generator=g, dtype=torch.float64, requires_grad=True)
    return x, torch.randn(B, M, width, generator=g, dtype=torch.float64, requires_grad=True)
