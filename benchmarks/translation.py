"""Translation: beam 5, 25 words in, 30 out, by a Marian of 3 layers, d = 256, vocabulary 8,000, beside Hugging Face's
`generate` and CTranslate2, on the same weights, in one run, in turns.

    python benchmarks/translation.py            # about 5 minutes on 2 cores; writes benchmarks/results/translation.json
    python benchmarks/translation.py --quick    # few rounds, to see that it runs; writes nothing

Hugging Face has its cache and `sdpa` attention. The weights are random and the end is never likely, so that all say 30
words. Each contender has a process of its own, which waits while another one works; the order of a round is drawn anew,
and each translates once before it is timed. Before the clock runs, regard in float32 must say the same words as Hugging
Face. CTranslate2 is no dependency of regard: it is compared where it can be imported, which --path FOLDER helps with
(pip install --target FOLDER --no-deps ctranslate2), and the result says so where it was not. It has one thread for each
batch and several batches at once, which is its fastest way here: two threads for one sentence took it twice the time.

float16 and int8 are weights that are rounded: float16's products are float32, int8's inputs are rounded too.

`products` are the matrix products of such a translation alone, by the same kernels, with no attention, search or norm:
a decoder that calls these kernels is no faster, and their ratio to Hugging Face bounds what can be reached here.
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

from regard.decoding import BatchTranslator, BeamSearch
from regard.decoding.quantized_linear import Linear, linear
from regard.hub.hf_marian import MARIAN_FAMILY

RESULT = Path(__file__).parent / "results" / "translation.json"

VOCAB, DIM, HIDDEN, LAYERS, HEADS, SOURCE, TARGET = 8000, 256, 1024, 3, 4, 25, 30
PAD, BOS, EOS = 0, 2, 3
BATCHES = (1, 16)
TARGETS = {1: 2.0, 16: 2.5}

Job = tuple[str, int, int]
"""Contender, batch, beams."""
Run = Callable[[Job], list[list[int]]]


def hugging_face():
    """The weights that all have: random ones, larger than at the start, so that choices are not near ties."""
    from transformers import MarianConfig, MarianMTModel

    torch.manual_seed(0)
    config = MarianConfig(
        vocab_size=VOCAB,
        decoder_vocab_size=VOCAB,
        d_model=DIM,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=HIDDEN,
        decoder_ffn_dim=HIDDEN,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=256,
        pad_token_id=PAD,
        bos_token_id=BOS,
        eos_token_id=EOS,
        forced_eos_token_id=None,
        decoder_start_token_id=BOS,
        attn_implementation="sdpa",  # pyright: ignore[reportCallIssue]
    )
    model = MarianMTModel(config).eval()
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "embed_positions" not in name:
                p.add_(0.03 * torch.randn_like(p))
        bias = model.final_logits_bias
        bias[0, EOS] = bias[0, PAD] = -1e4
    return model


def sources(batch: int) -> list[list[int]]:
    drawn = torch.randint(6, VOCAB, (batch, SOURCE), generator=torch.Generator().manual_seed(1))
    return [[*row, EOS] for row in drawn.tolist()]


def regard_contender(precision: str) -> Run:
    theirs = hugging_face()
    ours = MARIAN_FAMILY.build_model(theirs.config.to_dict(), {}).eval()
    ours.load_state_dict(MARIAN_FAMILY.to_regard(theirs.state_dict(), ours.config))
    writer = BatchTranslator(ours, bos_id=BOS, eos_id=EOS, precision=precision)

    def run(job: Job) -> list[list[int]]:
        _, batch, beams = job
        return [said[0].ids for said in writer.translate(sources(batch), strategy=BeamSearch(beams), max_length=TARGET)]

    return run


def hugging_face_contender() -> Run:
    model = hugging_face()

    def run(job: Job) -> list[list[int]]:
        _, batch, beams = job
        given = torch.tensor(sources(batch))
        with torch.inference_mode():
            out = model.generate(
                given,
                attention_mask=torch.ones_like(given),
                max_new_tokens=TARGET,
                num_beams=beams,
                do_sample=False,
                length_penalty=1.0,
                use_cache=True,
            )
        return out[:, 1 : TARGET + 1].tolist()  # type: ignore[index]

    return run


def ctranslate2_contender(compute: str, threads: int) -> Run:
    import ctranslate2
    from ctranslate2.converters.transformers import BartLoader

    theirs = hugging_face()
    theirs.config.normalize_before = theirs.config.normalize_embedding = False
    loader = BartLoader()
    spec = loader.get_model_spec(theirs)
    loader.set_vocabulary(spec, [str(i) for i in range(VOCAB)])
    spec.config.bos_token, spec.config.eos_token, spec.config.unk_token = str(BOS), str(EOS), "1"
    spec.config.decoder_start_token = str(BOS)
    with tempfile.TemporaryDirectory() as folder:
        spec.validate()
        spec.optimize(quantization=compute)
        spec.save(folder)
        many = ctranslate2.Translator(folder, compute_type=compute, intra_threads=1, inter_threads=threads)

    def run(job: Job) -> list[list[int]]:
        _, batch, beams = job
        out = many.translate_batch(
            [[str(i) for i in source] for source in sources(batch)],
            beam_size=beams,
            max_decoding_length=TARGET,
            min_decoding_length=TARGET,
            length_penalty=1.0,
            max_batch_size=-(-batch // threads),
        )
        return [[int(word) for word in result.hypotheses[0]] for result in out]

    return run


def products_contender(precision: str) -> Run:
    """The matrix products of such a translation and nothing else: no attention, no search, no norm."""
    make = linear(precision)

    def maps(*sizes: tuple[int, int]) -> list[tuple[Linear, int]]:
        return [(make(0.05 * torch.randn(out, inside), torch.zeros(out)), inside) for out, inside in sizes]

    own, feed = [(3 * DIM, DIM), (DIM, DIM)], [(HIDDEN, DIM), (DIM, HIDDEN)]
    encoder = maps(*(own + feed) * LAYERS, *[(2 * DIM, DIM)] * LAYERS)  # with the decoder's keys and values of it
    decoder = maps(*(own + [(DIM, DIM)] * 2 + feed) * LAYERS, (VOCAB, DIM))

    def run(job: Job) -> list[list[int]]:
        _, batch, beams = job
        with torch.inference_mode():
            for rows, part in [(batch * (SOURCE + 1), encoder), (batch, decoder), *[(batch * beams, decoder)] * TARGET]:
                given = {inside: torch.ones(rows, inside) for inside in (DIM, HIDDEN)}
                for product, inside in part:
                    product(given[inside])
        return []

    return run


CONTENDERS: dict[str, Callable[[int], Run]] = {
    "regard float32": lambda threads: regard_contender("float32"),
    "regard float16": lambda threads: regard_contender("float16"),
    "regard int8": lambda threads: regard_contender("int8"),
    "Hugging Face": lambda threads: hugging_face_contender(),
    "CTranslate2 float32": lambda threads: ctranslate2_contender("float32", threads),
    "CTranslate2 int8": lambda threads: ctranslate2_contender("int8", threads),
    "products float32": lambda threads: products_contender("float32"),
    "products int8": lambda threads: products_contender("int8"),
}


def work(pipe: Connection, name: str, threads: int, path: str | None) -> None:
    """A process with one contender, which says what it is asked for."""
    if path:
        sys.path.insert(0, path)
    torch.set_num_threads(threads)
    if name.startswith(("regard", "products")):
        from regard.training.environment import prepare_process

        prepare_process()  # as `regard translate` does
    try:
        run = CONTENDERS[name](threads)
    except ImportError as problem:
        pipe.send(f"not measured: {problem}")
        return
    pipe.send("ready")
    while (job := pipe.recv()) is not None:
        pipe.send(run(job))


def measure(rounds: int, threads: int, path: str | None, beams: int) -> dict:
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
        same = agreement(ask, list(pipes), batch, beams)
        jobs = {name: (name, batch, beams) for name in pipes}
        times = timing.in_turns({name: lambda job=job: ask(job) for name, job in jobs.items()}, rounds, settle=1)
        result["batches"][str(batch)] = {"same_words_as_hugging_face": same, **report(times, batch)}
    for pipe in pipes.values():
        pipe.send(None)
    return result


def agreement(ask: Run, names: list[str], batch: int, beams: int) -> dict[str, float]:
    """The share of words that are those of Hugging Face; in float32 nearly all must be."""
    wanted = ask(("Hugging Face", batch, beams))
    shares = {}
    for name in names:
        if name.startswith("products"):
            continue
        found = ask((name, batch, beams))
        assert [len(text) for text in found] == [TARGET] * batch, f"{name} did not say {TARGET} words"
        pairs = [a == b for x, y in zip(found, wanted, strict=True) for a, b in zip(x, y, strict=True)]
        shares[name] = round(sum(pairs) / len(pairs), 4)
    assert shares["regard float32"] > 0.99, f"not the same model or search: {shares}"
    return shares


def report(times: timing.Times, batch: int) -> dict:
    speeds = {name: round(1e3 * batch * TARGET / ms) for name, ms in timing.milliseconds(times).items()}
    against = [name for name in times if not name.startswith(("regard", "products"))]
    ours = [name for name in times if name.startswith("regard")]
    ratios = {name: {other: timing.ratio(times, other, name) for other in against} for name in ours}
    print(f"batch {batch}: words a second {speeds}")
    for name, row in ratios.items():
        said = ", ".join(f"{other} {r['value']:.2f} ({r['low']:.2f} to {r['high']:.2f})" for other, r in row.items())
        print(f"  {name} is times as fast as: {said}")
    bound = {name: timing.ratio(times, "Hugging Face", name) for name in times if name.startswith("products")}
    said = ", ".join(f"{name} {r['value']:.2f} ({r['low']:.2f} to {r['high']:.2f})" for name, r in bound.items())
    print(f"  times Hugging Face, at most: {said}")
    return {"words_per_second": speeds, "regard_is_times_as_fast_as": ratios, "products_are_times_as_fast": bound}


def main() -> None:
    parser = argparse.ArgumentParser(description="Translation beside Hugging Face and CTranslate2.")
    parser.add_argument("--quick", action="store_true", help="few rounds; writes nothing")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--beams", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--path", help="a folder in which ctranslate2 is installed")
    args = parser.parse_args()
    rounds = 3 if args.quick else args.rounds
    found = measure(rounds, args.threads, args.path, args.beams)
    sizes = {"vocab": VOCAB, "dim": DIM, "hidden": HIDDEN, "layers": LAYERS, "heads": HEADS}
    sizes |= {"source": SOURCE, "target": TARGET, "beams": args.beams}
    result = {"machine": timing.machine(), "rounds": rounds, "sizes": sizes, "targets": TARGETS, **found}
    if not args.quick:
        RESULT.write_text(json.dumps(result, indent=2) + "\n")
        print(f"written: {RESULT}")


if __name__ == "__main__":
    main()
