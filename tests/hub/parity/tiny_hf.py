"""Tiny random Hugging Face models, and what every parity test asks of them.

Fresh ones start at N(0, 0.02): attention is then nearly uniform and most mistakes stay below any tolerance. So all
weights, biases and norms are shaken until each of them matters, and `assert_every_parameter_matters` sees that it does.
"""

from __future__ import annotations

import os
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")

import pytest
import torch
from torch import Tensor, nn

transformers = pytest.importorskip("transformers")
transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

CLOSE = {"atol": 1e-5, "rtol": 1e-5}


def shaken(model: nn.Module, seed: int = 0, by: float = 0.25) -> nn.Module:
    """Every weight far from where it starts, in evaluation mode."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if "embed_positions" not in name and tensor.is_floating_point():  # Marian's table is fixed
                tensor.add_(by * torch.randn(tensor.shape, generator=generator))
    return model.eval()


def saved(model: nn.Module, folder: Path) -> Path:
    model.save_pretrained(folder)  # type: ignore[operator]
    return folder


def words(seed: int, b: int, n: int, vocab: int) -> Tensor:
    return torch.randint(1, vocab, (b, n), generator=torch.Generator().manual_seed(seed))


def real(lengths: list[int], n: int) -> Tensor:
    """(b, n), True for what is real, padding on the right."""
    return torch.arange(n)[None] < torch.tensor(lengths)[:, None]


def outputs_of(modules: nn.ModuleList, run) -> list[Tensor]:
    """What each of these modules gives while `run()` runs."""
    seen: list[Tensor] = []
    handles = [m.register_forward_hook(lambda _, __, out: seen.append(out)) for m in modules]
    try:
        run()
    finally:
        for handle in handles:
            handle.remove()
    return seen


def rows(weights: Tensor, mask: Tensor) -> Tensor:
    """Attention (b, h, q, k) of the real queries alone, (real, h, k). What padding itself regards is nobody's business:
    regard empties it before it is read, Hugging Face does not."""
    return weights.transpose(1, 2)[mask]


def assert_all_close(ours, theirs) -> None:
    assert len(ours) == len(theirs) > 0
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, **CLOSE)


def assert_every_parameter_matters(model: nn.Module, run) -> None:
    """A parity test has power only where a changed parameter changes the outputs: by far more than its tolerance."""
    before = run()
    for name, parameter in model.named_parameters():
        kept = parameter.detach().clone()
        with torch.no_grad():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1)))
            moved = max(float((a - b).abs().max()) for a, b in zip(run(), before, strict=True))
            parameter.copy_(kept)
        assert moved > 1e-3, f"changing {name} moved the outputs by {moved:.1e} only"
