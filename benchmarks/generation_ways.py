"""Ways of decoding that were tried, on the model of generation.py, in one run, in turns: why the decoder is as it is.

    python benchmarks/generation_ways.py             # about 3 minutes; writes benchmarks/results/generation_ways.json
    python benchmarks/generation_ways.py --compile   # also torch.compile, whose compiling takes a minute or more
    python benchmarks/generation_ways.py --quick     # to see that it runs; writes nothing

    modules           the model's own modules step by step, with `Memory` (any mechanism)
    float32           regard's decoder: prepared weights, turned round once
    float16           the same with weights of half the bytes (fbgemm)
    as stored         prepared, but F.linear on the weights as they are stored
    oneDNN packed     prepared, weights in oneDNN's own order (a private operator of torch)
    MKL packed        prepared, weights in MKL's own order (a private operator of torch)
    int8              weights in 8 bits, inputs in 7, one scale for all rows: a text then hangs on its batch
    int8 by rows      the same with a scale for each row, so that it does not
    compiled          the step of float32 through torch.compile

The step of each is timed after a prompt, from the first to the last of 128 tokens; `words` is the share of greedy words
that are those of float32.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import timing
import torch
import torch.nn.functional as F
from generation import BATCHES, hugging_face, prompts
from torch import Tensor

from regard.decoding import quantized_linear
from regard.decoding.causal_decoders import CausalDecoder, Prepared, Remembered, walker
from regard.decoding.quantized_linear import Linear
from regard.decoding.sampling import GREEDY
from regard.hub.hf_gpt2 import GPT2_FAMILY
from regard.models import gpt

RESULT = Path(__file__).parent / "results" / "generation_ways.json"


def as_stored(weight: Tensor, bias: Tensor | None) -> Linear:
    weight, bias = weight.detach(), None if bias is None else bias.detach()
    return lambda x: F.linear(x, weight, bias)


def onednn(weight: Tensor, bias: Tensor | None) -> Linear:
    packed, bias = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), 64), None if bias is None else bias.detach()
    return lambda x: torch.ops.mkldnn._linear_pointwise(x, packed, bias, "none", [], "")


def mkl(weight: Tensor, bias: Tensor | None) -> Linear:
    weight, bias = weight.detach().clone(), None if bias is None else bias.detach()
    packed = {rows: torch.ops.mkl._mkl_reorder_linear_weight(weight, rows) for rows in BATCHES}
    return lambda x: torch.ops.mkl._mkl_linear(x, packed[len(x)], weight, bias, len(x))


def _packed_int8(weight: Tensor, bias: Tensor | None):
    scale, zero = weight.detach().abs().amax(1).double() / 127, torch.zeros(len(weight), dtype=torch.long)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch says that its quantised tensors will go
        small = torch.quantize_per_channel(weight.detach(), scale, zero, 0, torch.qint8)
    return torch.ops.quantized.linear_prepack(small, None if bias is None else bias.detach())


def int8(weight: Tensor, bias: Tensor | None) -> Linear:
    packed = _packed_int8(weight, bias)
    return lambda x: torch.ops.quantized.linear_dynamic(x, packed, True)


def int8_by_rows(weight: Tensor, bias: Tensor | None) -> Linear:
    packed, product = _packed_int8(weight, None), torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32
    add = None if bias is None else bias.detach()

    def run(x: Tensor) -> Tensor:
        largest = torch.linalg.vector_norm(x, torch.inf, -1, keepdim=True)
        y = product(x / largest, 1 / 63, 64, packed).mul_(largest)
        return y if add is None else y.add_(add)

    return run


KINDS = {"as stored": as_stored, "oneDNN packed": onednn, "MKL packed": mkl, "int8": int8, "int8 by rows": int8_by_rows}


class Compiled:
    """A prepared walker whose blocks and head are one compiled function."""

    def __init__(self, way: Prepared):
        self.way = way
        self.read = way.read
        self.step = torch.compile(way.step, dynamic=True)


def ways(model: gpt.GPT, compiled: bool) -> dict[str, CausalDecoder]:
    quantized_linear.KINDS.update(KINDS)  # only in this process: ways to try, not to use
    found: dict[str, CausalDecoder] = {"modules": Remembered(model)}
    for name in ("float32", "float16", *KINDS):
        found[name] = walker(model, precision=name)
    if compiled:
        found["compiled"] = Compiled(walker(model))  # type: ignore[arg-type,assignment]
    return found


def write(way: CausalDecoder, batch: int, tokens: int) -> tuple[list[float], Tensor]:
    """Seconds of each step, and the words."""
    with torch.inference_mode():
        word = GREEDY.choose(way.read(prompts(batch), tokens), None)
        seconds, words = [], [word]
        for _ in range(tokens - 1):
            start = time.perf_counter()
            word = GREEDY.choose(way.step(word), None)
            seconds.append(time.perf_counter() - start)
            words.append(word)
    return seconds, torch.stack(words, 1)


def measure(rounds: int, tokens: int, compiled: bool) -> dict:
    theirs = hugging_face()
    model = GPT2_FAMILY.build_model(theirs.config.to_dict(), {}).eval()
    model.load_state_dict(GPT2_FAMILY.to_regard(theirs.state_dict(), model.config))
    result: dict = {}
    for batch in BATCHES:
        found = ways(model, compiled)
        once: dict[str, float] = {}
        same: dict[str, float] = {}
        wanted = write(found["float32"], batch, tokens)[1]
        for name, way in found.items():
            start = time.perf_counter()
            words = write(way, batch, tokens)[1]
            once[name] = round(time.perf_counter() - start, 2)
            same[name] = round((words == wanted).float().mean().item(), 4)
        steps: dict[str, list[float]] = {name: [] for name in found}

        def run(name: str) -> Callable[[], None]:
            return lambda: steps[name].extend(write(found[name], batch, tokens)[0])  # noqa: B023

        times = timing.in_turns({name: run(name) for name in found}, rounds, warm=0)
        result[str(batch)] = {
            name: {
                "milliseconds_a_step": round(1e3 * statistics.median(steps[name]), 3),
                "tenth": round(1e3 * sorted(steps[name])[len(steps[name]) // 10], 3),
                "float32_over_this": timing.ratio(times, "float32", name),
                "words": same[name],
                "first_text_seconds": once[name],
            }
            for name in found
        }
        for name, row in result[str(batch)].items():
            print(f"batch {batch}, {name}: {row}")
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description="Ways of decoding that were tried.")
    parser.add_argument("--quick", action="store_true", help="few rounds and tokens; writes nothing")
    parser.add_argument("--compile", action="store_true", help="also torch.compile")
    parser.add_argument("--rounds", type=int, default=10)
    args = parser.parse_args()
    rounds, tokens = (2, 8) if args.quick else (args.rounds, 128)
    result = {"machine": timing.machine(), "rounds": rounds, "batches": measure(rounds, tokens, args.compile)}
    if not args.quick:
        RESULT.write_text(json.dumps(result, indent=2) + "\n")
        print(f"written: {RESULT}")


if __name__ == "__main__":
    main()
