"""Tokenising a large text: regard.data.corpus from disk to disk beside the `tokenizers` library alone, in one run, in
turns; and the memory that reading the result takes.

    python benchmarks/tokenise.py                # 1 GB; writes benchmarks/results/tokenise.json
    python benchmarks/tokenise.py --size 50      # megabytes; says what it saw, and writes with --out only

The text is WikiText-2 where ../shared/data has it, made-up words elsewhere, over and over until the size is reached,
and lies in as many files as there are rounds. In each round every contender tokenises the round's file, in an order
drawn anew:

    regard               reads the file, fingerprints it, cuts it, tokenises, writes shards, forces them to disk
    library, 1 MB        encode_batch_fast on the same pieces, a block of 1 MB at a time, already cut and in memory;
                         ids are never asked for, results are thrown away
    library, 8 MB        the same, eight blocks at a time, so that its threads wait less for each other
    library, processes   the same in one process a core instead of in the library's own threads

The ratio is the library's median time over regard's: 0.9 and more is what we ask for, at 1.0 nothing is lost. `cpu` is
the same with the processor time of all threads, which a busy machine disturbs less.

Reading: a corpus of 1 GB of tokens in a process of its own that may have 256 MB of data (RLIMIT_DATA), windows of 257
tokens at random, 64 a batch. What the system keeps in its page cache is not counted against a process unless it is
mapped there; both are stated, `anonymous` (the process's own) and `mapped` (pages of the files), from
/proc/self/status, and the most that the two ever were together (VmHWM). The cache is emptied of the files before
(posix_fadvise). `never let go` shows what a map alone does.
"""

from __future__ import annotations

import argparse
import gzip
import json
import multiprocessing
import random
import re
import resource
import shutil
import statistics
import string
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from regard.data import chunks, corpus, encode_ids, fingerprint, token_shards, tokenize_corpus, tokenizer

RESULT = Path(__file__).parent / "results" / "tokenise.json"
WIKITEXT = Path(__file__).parents[1] / "../shared/data/wikitext2/train.txt.gz"
BATCH, WINDOW = 64, 257


def source() -> tuple[str, bytes]:
    """Some megabytes of text, and where they come from."""
    if WIKITEXT.exists():
        return "WikiText-2", gzip.decompress(WIKITEXT.read_bytes())
    draw = random.Random(0)
    words = ["".join(draw.choices(string.ascii_lowercase, k=draw.randint(1, 10))) for _ in range(30_000)]
    weights = [1 / (i + 1) for i in range(len(words))]
    lines = (" ".join(draw.choices(words, weights, k=draw.randint(1, 200))) + "\n" for _ in range(20_000))
    return "made-up words", "".join(lines).encode()


def write_text(folder: Path, text: bytes, size: int, files: int) -> list[Path]:
    """So many bytes in files of like size; each begins elsewhere in the text."""
    made = []
    for i in range(files):
        made.append(folder / f"{i:03d}.txt")
        begin = text.find(b"\n", i * len(text) // files) + 1
        turned, left = text[begin:] + text[:begin], size // files
        with open(made[-1], "wb") as out:
            while left > 0:
                left -= out.write(turned[: text.find(b" ", left) if left < len(text) else None])
    return made


# Contenders


def strings(file: Path) -> list[list[str]]:
    """The pieces that regard gives to the library, block by block."""
    blocks = chunks.read_blocks(file)
    return [[p.decode() for p in chunks.split_text(block.data, encode_ids.PIECE_BYTES)] for block in blocks]


def library(core: tokenizer.tk.Tokenizer, batches: Iterable[list[str]]) -> None:
    for batch in batches:
        core.encode_batch_fast(batch, add_special_tokens=False)


def together(blocks: list[list[str]], count: int) -> Iterator[list[str]]:
    for i in range(0, len(blocks), count):
        yield [piece for block in blocks[i : i + count] for piece in block]


def prepare_worker(path: str) -> None:
    import os

    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    global CORE
    CORE = tokenizer.Tokenizer.load(path).core


def work(batch: list[str]) -> None:
    CORE.encode_batch_fast(batch, add_special_tokens=False)


def processor_time() -> float:
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def compare(kind: str, text: bytes, files: list[Path], folder: Path, processes: bool) -> dict:
    tok = tokenizer.train_tokenizer([text[:5_000_000].decode(errors="ignore")], kind, 16_000)
    tok.save(folder / f"{kind}.json")
    walls: dict[str, list[float]] = {}
    cpus: dict[str, list[float]] = {}
    draw, tokens, size = random.Random(0), 0, 0
    context = multiprocessing.get_context("spawn")
    pool = (
        context.Pool(tokenize_corpus.count_cores(), prepare_worker, (str(folder / f"{kind}.json"),))
        if processes
        else None
    )
    library(tok.core, strings(files[0])[:2])  # warms the library's threads and its cache of words
    for file in files:
        blocks, out = strings(file), folder / "out"
        ways: dict[str, Callable[[], object]] = {
            "regard": lambda file=file, out=out: corpus.build_corpus(file, tok, out, progress=False),
            "library, 1 MB": lambda blocks=blocks: library(tok.core, blocks),
            "library, 8 MB": lambda blocks=blocks: library(tok.core, together(blocks, 8)),
        }
        if pool is not None:
            ways["library, processes"] = lambda blocks=blocks, pool=pool: list(pool.imap_unordered(work, blocks))
        for name in draw.sample(list(ways), len(ways)):
            wall, cpu = time.perf_counter(), processor_time()
            ways[name]()
            walls.setdefault(name, []).append(time.perf_counter() - wall)
            cpus.setdefault(name, []).append(processor_time() - cpu)
        made = corpus.Corpus.open(out)
        tokens, size = tokens + made.num_tokens, size + made.num_bytes
        assert made.num_bytes == file.stat().st_size
        shutil.rmtree(out)
    if pool is not None:
        pool.terminate()
        cpus.pop("library, processes")  # counted only when they end
    from timing import ratio

    return {
        "megabytes": round(size / 1e6, 1),
        "tokens": tokens,
        "megabytes_per_second": {
            name: round(size / 1e6 / len(files) / statistics.median(t), 2) for name, t in walls.items()
        },
        "ratio": {name: ratio(walls, name, "regard") for name in walls if name != "regard"},
        "ratio_cpu": {name: ratio(cpus, name, "regard") for name in cpus if name != "regard"},
        "seconds": {name: [round(t, 2) for t in times] for name, times in walls.items()},
    }


# Memory


def status() -> dict[str, float]:
    """Megabytes of this process: its own, and pages of files that it maps."""
    lines = Path("/proc/self/status").read_text()
    names = {"anonymous": "RssAnon", "mapped": "RssFile", "most": "VmHWM"}
    return {name: round(int(re.search(rf"{key}:\s+(\d+)", lines)[1]) / 1e3, 1) for name, key in names.items()}  # type: ignore[index]


def write_tokens(folder: Path, size: int) -> None:
    """A corpus of so many bytes of tokens, without text behind it."""
    draw, names, count = np.random.default_rng(0), [], min(tokenize_corpus.SHARD_TOKENS, size // 2)
    for i in range(max(1, size // 2 // count)):
        names.append(f"shard-{i:05d}.safetensors")
        ids = draw.integers(0, 1 << 16, count, np.uint16)
        about = {"fingerprint": "random", "next": None}
        arrays = {"tokens": ids, "documents": np.zeros(1, np.int64), "sizes": np.array([[count, 1, 1]])}
        token_shards.write_shard(folder / names[-1], arrays, about)
    about = {"format": fingerprint.FORMAT, "fingerprint": "random", "shards": names}
    (folder / corpus.INDEX_NAME).write_text(json.dumps(about))


def read_child(folder: str, held: int, limit: int, batches: int) -> None:
    """Runs in a process of its own, without torch."""
    import os

    for shard in Path(folder).glob("shard-*"):
        with open(shard, "rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    corpus.MAX_MAPPED_BYTES = held
    made, draw, seen = corpus.Corpus.open(folder), np.random.default_rng(0), []
    before = status()
    begun, cpu = time.perf_counter(), time.process_time()
    for i in range(batches):
        made.read(draw.integers(0, made.num_tokens - WINDOW, BATCH), WINDOW)
        if i % 17 == 0:  # in no step with letting go
            seen.append(status())
    seconds, cpu = time.perf_counter() - begun, time.process_time() - cpu
    found: dict[str, object] = {"before": before, "milliseconds_per_batch": round(1e3 * seconds / batches, 3)}
    found["cpu_milliseconds_per_batch"] = round(1e3 * cpu / batches, 3)
    for kind in ("anonymous", "mapped"):
        values = [s[kind] for s in seen]
        found[kind] = {"first": values[0], "least": min(values), "most": max(values), "last": values[-1]}
    print(json.dumps(found | {"most_of_all": status()["most"]}))


def reading(folder: Path, size: int, batches: int) -> dict:
    write_tokens(folder, size)
    limit, found = 256 << 20, {}
    for name, held in (("regard", min(corpus.MAX_MAPPED_BYTES, size // 4)), ("never let go", 1 << 60)):
        child = [sys.executable, __file__, "--child", *map(str, (folder, held, limit, batches))]
        found[name] = json.loads(subprocess.run(child, check=True, capture_output=True, text=True).stdout)
    return {"tokens_megabytes": round(size / 1e6), "limit_megabytes": round(limit / 1e6), "batches": batches, **found}


def building(folder: Path, files: list[Path]) -> dict:
    """The most memory that a build takes, in a process of its own."""
    code = (
        "import sys; from regard.data import corpus, tokenizer\n"
        "corpus.build_corpus(sys.argv[3:], tokenizer.Tokenizer.load(sys.argv[1]), sys.argv[2], progress=False)\n"
        "print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))\n"
    )
    command = [sys.executable, "-c", code, str(folder / "bpe.json"), str(folder / "out"), *map(str, files)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    shutil.rmtree(folder / "out")
    text = sum(file.stat().st_size for file in files)
    return {"text_megabytes": round(text / 1e6), "most_megabytes": round(int(said) / 1e3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=1000, help="megabytes of text")
    parser.add_argument("--tokens", type=int, default=1000, help="megabytes of tokens to read windows from")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument(
        "--kinds", nargs="*", default=["bpe", "words", "spaces", "chars"], help="the first at full size"
    )
    parser.add_argument("--no-processes", action="store_true", help="leave the library in processes out")
    parser.add_argument("--out", type=Path, help="where to write; only a run of full size writes by itself")
    chosen = parser.parse_args()
    import timing

    size = chosen.size * 1_000_000
    name, text = source()
    result: dict = {"machine": timing.machine() | {"usable_cores": tokenize_corpus.count_cores()}, "text": name}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for i, kind in enumerate(chosen.kinds):
            for old in folder.glob("*.txt"):
                old.unlink()
            part = size if i == 0 else min(size, max(size // 10, 20_000_000))
            files = write_text(folder, text, part, chosen.rounds)
            result[kind] = compare(kind, text, files, folder, not chosen.no_processes)
            print(kind, json.dumps({k: v for k, v in result[kind].items() if k != "seconds"}, indent=1), flush=True)
            if kind == "bpe":
                result["building"] = building(folder, files)
                print("building", json.dumps(result["building"]), flush=True)
        (folder / "tokens").mkdir()
        result["reading"] = reading(folder / "tokens", chosen.tokens * 1_000_000, 2000)
        print("reading", json.dumps(result["reading"], indent=1))
    out = chosen.out or (RESULT if chosen.size >= 1000 else None)
    if out:
        out.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        read_child(sys.argv[2], *map(int, sys.argv[3:]))
    else:
        main()
