"""What attention costs, measured side by side in one run.

    python benchmarks/attention.py            writes benchmarks/results/attention.json (about ten minutes)
    python benchmarks/attention.py --quick    the same with few rounds and short inputs, and writes nothing

dot        the layer against bare scaled_dot_product_attention with projections written by hand
local      growth from n = 512 to 8192 at window 128, and against masked scaled_dot_product_attention at 4096
relative   Shaw's positions against dot, n = 512
recording  the layer after it has been recorded against one that never was
memory     the peak of a forward and a backward pass of every mechanism, traced

All times are of a forward and a backward pass.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

from timing import exponent, in_turns, machine, milliseconds, peak_memory, ratio  # noqa: E402

from regard.attention.mechanisms import COMMON, MECHANISMS  # noqa: E402
from regard.attention.token_positions import QueryKeyPositions  # noqa: E402
from regard.attention.window import WindowScores  # noqa: E402
from regard.config import specs  # noqa: E402
from regard.inspect import record  # noqa: E402
from regard.layers import MultiHeadAttention  # noqa: E402

WINDOW, HEADS, WIDTH = 128, 8, 64


class Bare(nn.Module):
    """Packed projections and the fused kernel, and nothing else."""

    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x: Tensor, causal: bool = False) -> Tensor:
        b, n, dim = x.shape
        q, k, v = (y.view(b, n, self.heads, -1).transpose(1, 2) for y in self.qkv(x).split(dim, -1))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        return self.out(y.transpose(1, 2).flatten(2))


def training(module: Callable[..., Tensor], x: Tensor, **more: Any) -> Callable[[], None]:
    """A forward and a backward pass."""
    x = x.clone().requires_grad_()
    grad = torch.randn_like(module(x, **more))
    parameters = list(module.parameters()) if isinstance(module, nn.Module) else []

    def run() -> None:
        torch.autograd.grad(module(x, **more), (x, *parameters), grad)

    return run


def dot(rounds: int, quick: bool) -> dict[str, Any]:
    shapes = [(32, 64, 128, 4), (8, 128, 256, 4), (4, 512, 512, 8), (1, 2048, 512, 8)]
    found: dict[str, Any] = {"target": "ratio at most 1.05", "shapes": []}
    for b, n, dim, heads in shapes[:2] if quick else shapes:
        for causal in (False, True):
            x = torch.randn(b, n, dim)
            work = {"regard": MultiHeadAttention(dim, heads), "bare": Bare(dim, heads)}
            # Short work is repeated within a round, so that a round is no shorter than the clock and the scheduler.
            times = in_turns(
                {name: repeated(training(m, x, causal=causal), 2**20 // (b * n * dim)) for name, m in work.items()},
                rounds,
            )
            shape = {"batch": b, "n": n, "dim": dim, "heads": heads, "causal": causal}
            found["shapes"].append({**shape, "ms": milliseconds(times), "ratio": ratio(times, "regard", "bare")})
    found["worst"] = max(s["ratio"]["value"] for s in found["shapes"])
    found["mean"] = round(
        math.exp(sum(math.log(s["ratio"]["value"]) for s in found["shapes"]) / len(found["shapes"])), 4
    )
    found["met"] = found["worst"] <= 1.05
    return found


def repeated(run: Callable[[], None], times: int) -> Callable[[], None]:
    def run_all() -> None:
        for _ in range(max(1, times)):
            run()

    return run_all


def local(rounds: int, quick: bool) -> dict[str, Any]:
    sizes = {str(n): n for n in ((512, 1024, 2048) if quick else (512, 1024, 2048, 4096, 8192))}
    found: dict[str, Any] = {"window": WINDOW, "heads": HEADS, "head width": WIDTH, "batch": 1}

    def banded(qkv: Tensor) -> Tensor:
        q, k, v = apart(qkv)
        n = q.shape[2]
        return WindowScores(q, k, QueryKeyPositions(range(n), range(n)), WIDTH**-0.5, WINDOW).attend(v)

    layer = MultiHeadAttention(HEADS * WIDTH, HEADS, f"local:window={WINDOW}")
    for name, module, width in (("growth", banded, 3 * HEADS * WIDTH), ("growth of the layer", layer, HEADS * WIDTH)):
        times = in_turns({size: training(module, torch.randn(1, n, width)) for size, n in sizes.items()}, rounds)
        grows = exponent(times, sizes)
        found[name] = {"ms": milliseconds(times), "exponent": grows, "target": "exponent at most 1.15"}
    n = 1024 if quick else 4096
    place = torch.arange(n)
    band = (place[:, None] - place).abs() <= WINDOW

    def masked(qkv: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(*apart(qkv), attn_mask=band)

    x = torch.randn(1, n, 3 * HEADS * WIDTH)
    assert (masked(x) - banded(x)).abs().max() < 1e-4
    times = in_turns({"masked": training(masked, x), "local": training(banded, x)}, max(3, rounds // 2), warm=1)
    found["against masked"] = {
        "n": n,
        "ms": milliseconds(times),
        "times faster": ratio(times, "masked", "local"),
        "target": "at least 5 at n = 4096",
    }
    found["met"] = (
        found["growth"]["exponent"]["value"] <= 1.15 and found["against masked"]["times faster"]["value"] >= 5
    )
    return found


def apart(qkv: Tensor) -> tuple[Tensor, ...]:
    """(b, n, 3·h·d) to three (b, h, n, d), the way a packed projection leaves them."""
    b, n, _ = qkv.shape
    return tuple(x.view(b, n, HEADS, WIDTH).transpose(1, 2) for x in qkv.split(HEADS * WIDTH, -1))


def relative(rounds: int, quick: bool) -> dict[str, Any]:
    b, n, dim = 4, 128 if quick else 512, HEADS * WIDTH
    layers = {name: MultiHeadAttention(dim, HEADS, name) for name in ("relative", "dot")}

    def alone(layer: MultiHeadAttention) -> Callable[[Tensor], Tensor]:
        """Scores, softmax and reading, without the projections."""
        return lambda qkv: _attend(layer, *apart(qkv))

    found: dict[str, Any] = {"batch": b, "n": n, "heads": HEADS, "head width": WIDTH, "clip": 16}
    x, qkv = torch.randn(b, n, dim), torch.randn(b, n, 3 * dim)
    whole = in_turns({name: training(layer, x) for name, layer in layers.items()}, rounds)
    inner = in_turns({name: training(alone(layer), qkv) for name, layer in layers.items()}, rounds)
    for name, times in (("layer", whole), ("without projections", inner)):
        found[name] = {"ms": milliseconds(times), "ratio": ratio(times, "relative", "dot")}
    found["target"] = "ratio at most 2.5"
    found["met"] = found["layer"]["ratio"]["value"] <= 2.5
    return found


def _attend(layer: MultiHeadAttention, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    n = q.shape[2]
    return layer.mechanism.score(q, k, QueryKeyPositions(range(n), range(n))).attend(v)


def recording(rounds: int, quick: bool) -> dict[str, Any]:
    b, n, dim, heads = (8, 64, 128, 4) if quick else (8, 256, 256, 4)
    fresh, recorded = MultiHeadAttention(dim, heads), MultiHeadAttention(dim, heads)
    x = torch.randn(b, n, dim)
    with record(recorded) as seen:
        recorded(x)
    assert len(seen) == 1
    work = {"never recorded": training(fresh, x), "recorded before": training(recorded, x)}
    times = in_turns({name: repeated(run, 4) for name, run in work.items()}, rounds)
    found: dict[str, Any] = {"batch": b, "n": n, "dim": dim, "heads": heads, "ms": milliseconds(times)}
    found["ratio"] = ratio(times, "recorded before", "never recorded")
    found["target"] = "no difference: the interval holds 1, or lies within 2 % of it"
    found["met"] = found["ratio"]["low"] <= 1.02 and found["ratio"]["high"] >= 0.98
    return found


def memory(rounds: int, quick: bool) -> dict[str, Any]:
    sizes = (128, 256) if quick else (512, 1024, 2048)
    dim, unit = HEADS * WIDTH, "MB held by tensors at the peak, gradients included, beyond parameters and input"
    found: dict[str, Any] = {"batch": 1, "dim": dim, "heads": HEADS, "unit": unit, "peak": {}}
    for name in ["bare SDPA", *MECHANISMS]:
        peaks = {}
        for n in sizes:
            run = training(_layer(name, dim, n), torch.randn(1, n, dim))
            run()
            peaks[n] = round(peak_memory(run) / 2**20, 2)
        grows = math.log(peaks[sizes[-1]] / peaks[sizes[0]]) / math.log(sizes[-1] / sizes[0])
        found["peak"][name] = {**peaks, "exponent": round(grows, 2)}
    return found


def _layer(name: str, dim: int, n: int) -> nn.Module:
    if name == "bare SDPA":
        return Bare(dim, HEADS)
    longest = {"length": n} if "length" in specs.option_parameters(MECHANISMS[name], COMMON) else {}
    return MultiHeadAttention(dim, HEADS, name, **longest)


PARTS = {"dot": dot, "local": local, "relative": relative, "recording": recording, "memory": memory}


def main() -> None:
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--quick", action="store_true", help="few rounds and short inputs; writes nothing")
    ask.add_argument("--only", choices=PARTS, action="append", help="measure this part only; writes nothing")
    ask.add_argument("--rounds", type=int, default=None, help="how often each is timed (31, or 5 with --quick)")
    given = ask.parse_args()
    torch.set_flush_denormal(True)
    torch.manual_seed(0)
    found: dict[str, Any] = {"machine": machine()}
    for name in given.only or PARTS:
        found[name] = PARTS[name](given.rounds or (5 if given.quick else 31), given.quick)
        print(name, json.dumps(found[name], indent=2), flush=True)
    if not given.quick and not given.only:
        path = ROOT / "benchmarks" / "results" / "attention.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(found, indent=2) + "\n")
        print(f"written to {path.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
