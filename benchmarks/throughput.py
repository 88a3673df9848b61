"""Training throughput: regard's GPT beside Hugging Face's GPT-2 and a nanoGPT, in one run, in turns.

    python benchmarks/throughput.py              # about 4 minutes on 2 cores; writes benchmarks/results/throughput.json
    python benchmarks/throughput.py --quick      # small sizes, to see that it runs; writes nothing

A step is forward, loss, backward, clip and AdamW on 4 layers, d = 256, block 128, batch 128, vocabulary 65, without
dropout, on the same data. `regard.training.environment.prepare_process` makes glibc keep freed memory. This helps
models with many temporaries, and it acts on a whole process. So there are two processes, a prepared one and a plain
one, each with its own contenders, and three honest ratios, which are not the same number:

    both prepared     the models alone, under the better conditions
    both plain        the models alone, as PyTorch comes
    as each comes     regard, which prepares its process, against Hugging Face's class in a plain one

In each round every contender makes one step while all others wait, the order turning from round to round, and a large
matrix product is timed, so that a busy machine slows all alike. Times are medians with a bootstrapped 95 % interval; a
ratio is the median of the rounds' ratios.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.hub.hf_gpt2 import GPT2_FAMILY
from regard.models import gpt
from regard.training import environment

RESULT = Path(__file__).parent / "results" / "throughput.json"


@dataclass(frozen=True)
class Sizes:
    layers: int = 4
    dim: int = 256
    heads: int = 4
    block: int = 128
    batch: int = 128
    vocab: int = 65

    def flops(self) -> int:
        """Of a step's matrix products: three times the forward pass, two for each multiply-add. A query counts the
        keys that it may see, (block + 1) / 2 on average; what a kernel computes again going back is not counted."""
        layer = 24 * self.dim**2 + 2 * (self.block + 1) * self.dim
        return 3 * self.batch * self.block * (self.layers * layer + 2 * self.dim * self.vocab)


class NanoBlock(nn.Module):
    """nanoGPT's block (Karpathy, model.py)."""

    def __init__(self, s: Sizes):
        super().__init__()
        self.heads = s.heads
        self.ln_1, self.ln_2 = nn.LayerNorm(s.dim), nn.LayerNorm(s.dim)
        self.c_attn, self.c_proj = nn.Linear(s.dim, 3 * s.dim), nn.Linear(s.dim, s.dim)
        self.c_fc, self.c_out = nn.Linear(s.dim, 4 * s.dim), nn.Linear(4 * s.dim, s.dim)

    def forward(self, x: Tensor) -> Tensor:
        b, n, d = x.shape
        q, k, v = (t.view(b, n, self.heads, d // self.heads).transpose(1, 2) for t in self._qkv(x))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.c_proj(y.transpose(1, 2).contiguous().view(b, n, d))
        return x + self.c_out(F.gelu(self.c_fc(self.ln_2(x))))

    def _qkv(self, x: Tensor) -> tuple[Tensor, ...]:
        return self.c_attn(self.ln_1(x)).split(x.shape[-1], 2)


class NanoGPT(nn.Module):
    def __init__(self, s: Sizes):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(s.vocab, s.dim), nn.Embedding(s.block, s.dim)
        self.h = nn.ModuleList(NanoBlock(s) for _ in range(s.layers))
        self.ln_f, self.lm_head = nn.LayerNorm(s.dim), nn.Linear(s.dim, s.vocab, bias=False)
        self.wte.weight = self.lm_head.weight
        nn.init.normal_(self.wte.weight, std=0.02)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.wte(ids) + self.wpe(torch.arange(ids.shape[1]))
        for block in self.h:
            x = block(x)
        return self.lm_head(self.ln_f(x))


def regard_gpt(s: Sizes, activation: str = "gelu") -> gpt.GPT:
    positions = f"learned:length={s.block}"
    return gpt.GPT(s.vocab, dim=s.dim, layers=s.layers, heads=s.heads, positions=positions, activation=activation)


def hugging_face(s: Sizes, activation: str = "gelu_new") -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=s.vocab,
        n_embd=s.dim,
        n_layer=s.layers,
        n_head=s.heads,
        n_positions=s.block,
        activation_function=activation,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=0,
        use_cache=False,
        attn_implementation="sdpa",  # pyright: ignore[reportCallIssue]
    )
    return GPT2LMHeadModel(config)


class Contender:
    """A model and its optimizer; `step` trains once and gives the loss."""

    def __init__(self, model: nn.Module, fused: bool):
        self.model = model.train()
        options = {"fused": True} if fused else {}
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, **options)

    def step(self, ids: Tensor, targets: Tensor) -> float:
        out = self.model(ids)
        logits = out if isinstance(out, Tensor) else out.logits
        loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.item()


MAKERS: dict[str, Callable[[Sizes], Contender]] = {
    "regard, fused AdamW": lambda s: Contender(regard_gpt(s), True),
    "Hugging Face GPT-2, fused AdamW": lambda s: Contender(hugging_face(s), True),
    "Hugging Face GPT-2, default AdamW": lambda s: Contender(hugging_face(s), False),
    "nanoGPT, fused AdamW": lambda s: Contender(NanoGPT(s), True),
}
OURS, NANO = "regard, fused AdamW", "nanoGPT, fused AdamW"
THEIRS, THEIRS_DEFAULT = "Hugging Face GPT-2, fused AdamW", "Hugging Face GPT-2, default AdamW"

Lane = tuple[str, str]
LANES: list[Lane] = [
    *[("prepared", name) for name in (OURS, THEIRS, NANO)],
    *[("plain", name) for name in (OURS, THEIRS, THEIRS_DEFAULT, NANO)],
]
RATIOS: dict[str, tuple[Lane, Lane]] = {
    "Hugging Face, both prepared": (("prepared", OURS), ("prepared", THEIRS)),
    "Hugging Face, both plain": (("plain", OURS), ("plain", THEIRS)),
    "Hugging Face, as each comes": (("prepared", OURS), ("plain", THEIRS)),
    "Hugging Face, as each comes, default AdamW there": (("prepared", OURS), ("plain", THEIRS_DEFAULT)),
    "nanoGPT, both prepared": (("prepared", OURS), ("prepared", NANO)),
    "nanoGPT, both plain": (("plain", OURS), ("plain", NANO)),
    "nanoGPT, as each comes": (("prepared", OURS), ("plain", NANO)),
}


def assert_same_function(s: Sizes, ids: Tensor, targets: Tensor) -> None:
    """The same weights give the same loss here and there, and all have as many: they do the same work."""
    theirs, ours = hugging_face(s).eval(), regard_gpt(s, "gelu-tanh").eval()
    state = GPT2_FAMILY.to_regard(theirs.state_dict(), ours.config)
    ours.load_state_dict(state)
    with torch.no_grad():
        a = F.cross_entropy(ours(ids[:2]).flatten(0, 1), targets[:2].flatten())
        b = F.cross_entropy(theirs(ids[:2]).logits.flatten(0, 1), targets[:2].flatten())
    torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)
    counts = {sum(p.numel() for p in model.parameters()) for model in (theirs, ours, NanoGPT(s))}
    assert len(counts) == 1, f"the models have different numbers of parameters: {counts}"


def product_gflops(n: int) -> float:
    """A large float32 matrix product, the most that this machine gives to one."""
    a, b = torch.randn(n, n), torch.randn(n, n)
    start = time.perf_counter()
    torch.mm(a, b)
    return 2 * n**3 / (time.perf_counter() - start) / 1e9


def work(pipe: Connection, process: str, sizes: Sizes, threads: int, product: int) -> None:
    """A process with its contenders: makes the step that it is asked for, and tells how long it took."""
    if process == "prepared":
        environment.prepare_process(threads)
    else:
        torch.set_num_threads(threads)
    data = torch.randint(sizes.vocab, (sizes.batch, sizes.block + 1), generator=torch.Generator().manual_seed(0))
    ids, targets = data[:, :-1].contiguous(), data[:, 1:].contiguous()
    assert_same_function(sizes, ids, targets)
    torch.manual_seed(0)
    contenders = {name: MAKERS[name](sizes) for lane, name in LANES if lane == process}
    pipe.send("ready")
    while (name := pipe.recv()) is not None:
        if name == "product":
            pipe.send((product_gflops(product), 0.0))
            continue
        start = time.perf_counter()
        loss = contenders[name].step(ids, targets)
        pipe.send((time.perf_counter() - start, loss))


def interval(values: list[float], seed: int = 0) -> dict[str, float]:
    """The median and its bootstrapped 95 % interval."""
    draws = np.random.default_rng(seed).choice(values, (2000, len(values)))
    low, high = np.percentile(np.median(draws, axis=1), [2.5, 97.5])
    return {"median": round(statistics.median(values), 4), "low": round(low, 4), "high": round(high, 4)}


def measure(sizes: Sizes, rounds: int, warmup: int, product: int, threads: int) -> dict:
    context = multiprocessing.get_context("spawn")
    pipes: dict[str, Connection] = {}
    workers = []
    for process in ("prepared", "plain"):
        pipes[process], other = context.Pipe()
        workers.append(context.Process(target=work, args=(other, process, sizes, threads, product), daemon=True))
        workers[-1].start()
        other.close()
        assert pipes[process].recv() == "ready"

    def ask(process: str, what: str) -> tuple[float, float]:
        pipes[process].send(what)
        return pipes[process].recv()

    first = {lane: ask(*lane)[1] for lane in LANES}
    for _ in range(warmup - 1):
        for lane in LANES:
            ask(*lane)
        ask("prepared", "product")
    seconds: dict[Lane, list[float]] = {lane: [] for lane in LANES}
    products: list[float] = []
    last: dict[Lane, float] = {}
    for i in range(rounds):
        turn = i % len(LANES)
        for lane in LANES[turn:] + LANES[:turn]:
            time.sleep(0.02)  # until the threads of the one before have stopped spinning
            took, last[lane] = ask(*lane)
            seconds[lane].append(took)
        products.append(ask("prepared", "product")[0])
    for process, worker in zip(pipes, workers, strict=True):
        pipes[process].send(None)
        worker.join()
    for lane in LANES:
        assert last[lane] < first[lane], f"{lane} did not learn: {first[lane]:.3f} -> {last[lane]:.3f}"
    return summary(sizes, seconds, products, product)


def summary(sizes: Sizes, seconds: dict[Lane, list[float]], products: list[float], product: int) -> dict:
    tokens, peak = sizes.batch * sizes.block, statistics.median(products)
    steps = {
        process: {
            name: {**interval(times), "tokens_per_second": round(tokens / statistics.median(times))}
            for (where, name), times in seconds.items()
            if where == process
        }
        for process in ("prepared", "plain")
    }
    return {
        "rounds": len(products),
        "seconds_per_step": steps,
        "regard_is_times_as_fast_as": {
            name: interval([theirs / own for own, theirs in zip(seconds[ours], seconds[other], strict=True)])
            for name, (ours, other) in RATIOS.items()
        },
        "product_gflops": {**interval(products), "best": round(max(products), 1), "n": product},
        "step_gflop": round(sizes.flops() / 1e9, 2),
        "share_of_the_product": round(sizes.flops() / statistics.median(seconds["prepared", OURS]) / 1e9 / peak, 4),
    }


def show(result: dict) -> None:
    for process, steps in result["seconds_per_step"].items():
        print(f"{process} process")
        for name, t in steps.items():
            print(f"    {name:48s} {1000 * t['median']:8.1f} ms ({1000 * t['low']:.0f}-{1000 * t['high']:.0f})")
    print("regard is so many times as fast as")
    for name, ratio in result["regard_is_times_as_fast_as"].items():
        print(f"    {name:48s} {ratio['median']:8.2f}    ({ratio['low']:.2f}-{ratio['high']:.2f})")
    product, share = result["product_gflops"], 100 * result["share_of_the_product"]
    print(f"matrix product of n = {product['n']}: {product['median']:.0f} GFLOPS")
    print(f"regard's step of {result['step_gflop']:.1f} GFLOP reaches {share:.0f} % of it")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="small sizes, to see that it runs")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=None, help="as many as there are cores where not given")
    parser.add_argument("--out", type=Path, default=None, help=f"where to write; {RESULT} unless --quick")
    given = parser.parse_args()
    threads = given.threads or environment.count_cores()
    torch.set_num_threads(threads)
    load = os.getloadavg()[0]
    sizes = Sizes(layers=2, dim=64, block=32, batch=8) if given.quick else Sizes()
    result = measure(sizes, *((5, 2, 256) if given.quick else (given.rounds, 2, 2048)), threads)
    show(result)
    import transformers

    about = {
        "machine": environment.describe_machine(),
        "transformers": transformers.__version__,
        "load_before": round(load, 2),
    }
    out = given.out or (None if given.quick else RESULT)
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        whole = {**about, "quick": given.quick, "sizes": asdict(sizes), **result}
        out.write_text(json.dumps(whole, indent=2) + "\n", encoding="utf-8")
        print(f"-> {out}")


if __name__ == "__main__":
    main()
