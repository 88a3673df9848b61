"""A minute of 64 clients against `regard serve`: is anything lost or mixed up, also when a model's process is killed?

    python benchmarks/serve.py                 # writes benchmarks/results/serve.json

A small Transformer classifier is trained and served. Each client sends texts of its own, one after the other, and every
tenth time asks for a page; each answer is compared with what the run itself says of that text. A full queue answers
"busy" and is asked again. In the second half the model's process is killed every ten seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
from timing import machine

import regard
from regard.data.synthetic.reviews import generate_reviews

CLIENTS = 64


def trained(folder: Path) -> Path:
    """A run of a few steps: what it says does not matter, that it is the same does."""
    rows = [json.dumps({"text": r.text, "label": r.label}) for r in generate_reviews(400, 0)]
    (folder / "reviews.jsonl").write_text("\n".join(rows) + "\n")
    small = {"model": {"dim": 64, "layers": 2, "heads": 4}}
    quiet = {"progress": False}
    regard.train(
        "classify", folder / "reviews.jsonl", model="transformer", steps=20, settings=small, out=folder / "run", **quiet
    )
    return folder / "run"


async def client(
    number: int, http: httpx.AsyncClient, texts: list[str], wanted: dict[str, float], stop: float, seen: dict[str, Any]
) -> None:
    turn = 0
    while time.monotonic() < stop:
        text = texts[(number * 31 + turn) % len(texts)]
        page = turn % 10 == 9
        start = time.perf_counter()
        ask = {"text": text, "faithful": False} if page else {"text": text}
        answer = await http.post("/look" if page else "/predict", json=ask, timeout=120)
        if answer.status_code == 503:
            seen["busy"] += 1
            await asyncio.sleep(0.05)
            continue
        seen["times"].append(time.perf_counter() - start)
        turn += 1
        if answer.status_code != 200:
            seen["lost"].append([answer.status_code, answer.text[:200]])
        elif page:
            seen["pages"] += 1
            seen["mixed"] += text[:40].replace("&", "&amp;").replace("'", "&#39;") not in answer.text
        else:
            seen["answers"] += 1
            said = answer.json()
            p = said["answer"]["probabilities"]["positive"]
            seen["mixed"] += said["text"] != text or abs(p - wanted[text]) > 1e-4


async def killer(server: int, stop: float, seconds: float, seen: dict[str, Any]) -> None:
    await asyncio.sleep(seconds / 2)
    while time.monotonic() < stop - seconds / 10:
        for child in Path(f"/proc/{server}/task/{server}/children").read_text().split():
            os.kill(int(child), signal.SIGKILL)
            seen["kills"] += 1
        await asyncio.sleep(seconds / 6)


async def load(address: str, server: int, run: Path, seconds: float) -> dict[str, Any]:
    texts = [r.text for r in generate_reviews(200, 7)]
    wanted = {t: s.probabilities["positive"] for t, s in zip(texts, regard.load(str(run)).predict(texts), strict=True)}
    seen: dict[str, Any] = {"answers": 0, "pages": 0, "busy": 0, "lost": [], "mixed": 0, "kills": 0, "times": []}
    stop = time.monotonic() + seconds
    limits = httpx.Limits(max_connections=CLIENTS)
    async with httpx.AsyncClient(base_url=address, limits=limits) as http:
        clients = [client(i, http, texts, wanted, stop, seen) for i in range(CLIENTS)]
        await asyncio.gather(*clients, killer(server, stop, seconds, seen))
        seen["restarts"] = next(iter((await http.get("/health")).json()["models"].values()))["restarts"]
    times = sorted(seen.pop("times"))
    seen["median_seconds"], seen["p99_seconds"] = statistics.median(times), times[int(0.99 * len(times))]
    return seen


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--quick", action="store_true", help="six seconds, nothing written")
    given = parser.parse_args()
    seconds = 6.0 if given.quick else given.seconds
    with tempfile.TemporaryDirectory() as folder:
        run = trained(Path(folder))
        command = [sys.executable, "-m", "regard.cli", "serve", str(run), "--port", "0", "--queue", "48"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        address = next(found[0] for line in server.stdout if (found := re.match(r"http://\S+/", line)))
        try:
            seen = asyncio.run(load(address, server.pid, run, seconds))
        finally:
            server.send_signal(signal.SIGINT)
            server.wait()
    total = seen["answers"] + seen["pages"]
    print(
        f"{CLIENTS} clients, {seconds:g} s: {seen['answers']:,} predictions and {seen['pages']:,} pages "
        f"({total / seconds:.0f} a second), {seen['busy']:,} busy, {seen['kills']} kills, restarts {seen['restarts']}; "
        f"lost {len(seen['lost'])}, mixed up {seen['mixed']}; median {seen['median_seconds']:.2f} s, 99 % within "
        f"{seen['p99_seconds']:.2f} s"
    )
    for row in seen["lost"][:5]:
        print("lost:", row)
    if not given.quick:
        result = {"machine": machine(), "clients": CLIENTS, "seconds": seconds, **seen}
        Path("benchmarks/results/serve.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
