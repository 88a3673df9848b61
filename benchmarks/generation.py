"""Generation: 128 tokens from a GPT of 4 layers, d = 256, vocabulary 8,000, beside Hugging Face's `generate` and
CTranslate2, on the same weights, in one run, in turns.

    python benchmarks/generation.py              # about 5 minutes on 2 cores; writes benchmarks/results/generation.json
    python benchmarks/generation.py --quick      # few rounds and tokens, to see that it runs; writes nothing

Hugging Face has its cache, `sdpa` attention and no stop word; so has regard. The activation is the exact GELU, which is
the quick one for both (GPT-2's tanh takes Hugging Face eight operations). Each contender has a process of its own,
which waits while another one works; the order of a round is drawn anew. Before the clock runs, all must write the same
words (greedy, float32). CTranslate2 is no dependency of regard: it is compared where it can be imported, which
--path FOLDER helps with (pip install --target FOLDER --no-deps ctranslate2), and the result says so where it was not.
It wants one thread for each text and several texts at once (intra_threads=1), as measured.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import tempfile
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")

import timing
import torch

from regard.decoding import GREEDY, Sampling, TextGenerator
from regard.hub.hf_gpt2 import GPT2_FAMILY

RESULT = Path(__file__).parent / "results" / "generation.json"

VOCAB, DIM, LAYERS, HEADS, PLACES, PROMPT = 8000, 256, 4, 4, 256, 8
TOP_K, TEMPERATURE = 50, 0.8
BATCHES = (1, 64)
TARGETS = {1: 3.0, 64: 1.7}

Job = tuple[str, str, int, int]
"""Contender, "greedy" or "drawn", batch, tokens."""


def hugging_face():
    """The weights that all have: random ones, larger than at the start, so that greedy choices are not near ties."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=VOCAB,
        n_embd=DIM,
        n_layer=LAYERS,
        n_head=HEADS,
        n_positions=PLACES,
        activation_function="gelu",
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
        attn_implementation="sdpa",  # pyright: ignore[reportCallIssue]
    )
    model = GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.05 * torch.randn_like(p))
    return model


def prompts(batch: int) -> list[list[int]]:
    return torch.randint(6, VOCAB, (batch, PROMPT), generator=torch.Generator().manual_seed(1)).tolist()


def regard_contender(precision: str) -> Callable[[Job], list[list[int]]]:
    theirs = hugging_face()
    ours = GPT2_FAMILY.build_model(theirs.config.to_dict(), {})
    ours.load_state_dict(GPT2_FAMILY.to_regard(theirs.state_dict(), ours.config))
    writer = TextGenerator(ours, precision=precision)
    how = {"greedy": GREEDY, "drawn": Sampling(TEMPERATURE, TOP_K, seed=1)}

    def run(job: Job) -> list[list[int]]:
        _, kind, batch, tokens = job
        written = writer.generate(prompts(batch), max_new_tokens=tokens, sampling=how[kind], stop_ids=())
        return [samples[0].ids for samples in written]

    return run


def hugging_face_contender() -> Callable[[Job], list[list[int]]]:
    model = hugging_face()
    drawn = {"do_sample": True, "temperature": TEMPERATURE, "top_k": TOP_K}
    how = {"greedy": {"do_sample": False}, "drawn": drawn}

    def run(job: Job) -> list[list[int]]:
        _, kind, batch, tokens = job
        given = torch.tensor(prompts(batch))
        with torch.inference_mode():
            out = model.generate(
                given,
                attention_mask=torch.ones_like(given),
                max_new_tokens=tokens,
                min_new_tokens=tokens,
                use_cache=True,
                **how[kind],  # type: ignore[arg-type]
            )
        return out[:, PROMPT:].tolist()

    return run


def ctranslate2_contender(compute: str, threads: int) -> Callable[[Job], list[list[int]]]:
    import ctranslate2
    from ctranslate2.converters.transformers import GPT2Loader

    spec = GPT2Loader().get_model_spec(hugging_face())
    spec.register_vocabulary([str(i) for i in range(VOCAB)])
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = "0", "0", "1"
    with tempfile.TemporaryDirectory() as folder:
        spec.validate()
        spec.optimize(quantization=compute)
        spec.save(folder)
        model = ctranslate2.Generator(folder, compute_type=compute, intra_threads=1, inter_threads=threads)
    how = {"greedy": {"sampling_topk": 1}, "drawn": {"sampling_topk": TOP_K, "sampling_temperature": TEMPERATURE}}

    def run(job: Job) -> list[list[int]]:
        _, kind, batch, tokens = job
        out = model.generate_batch(
            [[str(i) for i in prompt] for prompt in prompts(batch)],
            max_length=tokens,
            min_length=tokens,
            end_token="0",
            include_prompt_in_result=False,
            max_batch_size=-(-batch // threads),
            **how[kind],
        )
        return [result.sequences_ids[0] for result in out]

    return run


CONTENDERS: dict[str, Callable[[int], Callable[[Job], list[list[int]]]]] = {
    "regard float32": lambda threads: regard_contender("float32"),
    "regard float16": lambda threads: regard_contender("float16"),
    "regard int8": lambda threads: regard_contender("int8"),
    "Hugging Face": lambda threads: hugging_face_contender(),
    "CTranslate2 float32": lambda threads: ctranslate2_contender("float32", threads),
    "CTranslate2 int8": lambda threads: ctranslate2_contender("int8", threads),
}


def work(pipe: Connection, name: str, threads: int, path: str | None) -> None:
    """A process with one contender, which writes what it is asked for."""
    if path:
        sys.path.insert(0, path)
    torch.set_num_threads(threads)
    try:
        run = CONTENDERS[name](threads)
    except ImportError as problem:
        pipe.send(f"not measured: {problem}")
        return
    pipe.send("ready")
    while (job := pipe.recv()) is not None:
        pipe.send(run(job))


def measure(rounds: int, tokens: int, threads: int, path: str | None) -> dict:
    context = multiprocessing.get_context("spawn")
    pipes: dict[str, Connection] = {}
    missing: dict[str, str] = {}
    for name in CONTENDERS:
        pipe, other = context.Pipe()
        context.Process(target=work, args=(other, name, threads, path), daemon=True).start()
        said = pipe.recv()
        if said == "ready":
            pipes[name] = pipe
        else:
            missing[name] = said
            print(f"{name}: {said}")

    def ask(job: Job) -> list[list[int]]:
        pipes[job[0]].send(job)
        return pipes[job[0]].recv()

    result: dict = {"not_measured": missing, "batches": {}}
    for batch in BATCHES:
        same = agreement(ask, list(pipes), batch, tokens)
        result["batches"][str(batch)] = {"same_words_as_hugging_face": same}
        for kind in ("greedy", "drawn"):
            jobs = {name: (name, kind, batch, tokens) for name in pipes}
            times = timing.in_turns({name: lambda job=job: ask(job) for name, job in jobs.items()}, rounds)
            result["batches"][str(batch)][kind] = report(times, batch, tokens, kind)
    for pipe in pipes.values():
        pipe.send(None)
    return result


def agreement(ask: Callable[[Job], list[list[int]]], names: list[str], batch: int, tokens: int) -> dict[str, float]:
    """The share of greedy words that are those of Hugging Face; in float32 all must be."""
    wanted = ask(("Hugging Face", "greedy", batch, tokens))
    shares = {}
    for name in names:
        found = ask((name, "greedy", batch, tokens))
        assert [len(text) for text in found] == [tokens] * batch, f"{name} did not write {tokens} tokens"
        pairs = [a == b for x, y in zip(found, wanted, strict=True) for a, b in zip(x, y, strict=True)]
        shares[name] = round(sum(pairs) / len(pairs), 4)
    assert shares["regard float32"] > 0.99, f"not the same model: {shares}"
    return shares


def report(times: timing.Times, batch: int, tokens: int, kind: str) -> dict:
    speeds = {name: round(1e3 * batch * tokens / ms) for name, ms in timing.milliseconds(times).items()}
    against = [name for name in times if not name.startswith("regard")]
    ours = [name for name in times if name.startswith("regard")]
    ratios = {name: {other: timing.ratio(times, other, name) for other in against} for name in ours}
    print(f"batch {batch}, {kind}: tokens a second {speeds}")
    for name, row in ratios.items():
        said = ", ".join(f"{other} {r['value']:.2f} ({r['low']:.2f} to {r['high']:.2f})" for other, r in row.items())
        print(f"  {name} is times as fast as: {said}")
    return {"tokens_per_second": speeds, "regard_is_times_as_fast_as": ratios}


def main() -> None:
    parser = argparse.ArgumentParser(description="Generation beside Hugging Face and CTranslate2.")
    parser.add_argument("--quick", action="store_true", help="few rounds and tokens; writes nothing")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--path", help="a folder in which ctranslate2 is installed")
    args = parser.parse_args()
    rounds, tokens = (3, 16) if args.quick else (args.rounds, 128)
    found = measure(rounds, tokens, args.threads, args.path)
    sizes = {"vocab": VOCAB, "dim": DIM, "layers": LAYERS, "heads": HEADS, "prompt": PROMPT, "tokens": tokens}
    how = {"temperature": TEMPERATURE, "top_k": TOP_K}
    result = {"machine": timing.machine(), "rounds": rounds, "sizes": sizes, "drawn": how, "targets": TARGETS, **found}
    if not args.quick:
        RESULT.write_text(json.dumps(result, indent=2) + "\n")
        print(f"written: {RESULT}")


if __name__ == "__main__":
    main()
