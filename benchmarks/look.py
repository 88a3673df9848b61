"""What looking costs: the size of pages, how soon they open, and the memory of recording.

    python benchmarks/look.py                  # writes benchmarks/results/look.json

A BERT of 12 layers with 12 heads (d = 768) with random weights, scaled so that its attention is peaked as in trained
models, reads 128 and 512 tokens; the page with all maps is written and opened in Chromium, where there is one: time
until it can be used (domInteractive) and until the first large map is drawn. Recording is traced allocation by
allocation: the most bytes held at one moment by the forward pass alone, with recording, and the bytes of the maps kept.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from timing import machine, peak_memory

from regard.explain.build import build_look
from regard.explain.token_explainers import EmbeddingExplainer, PromptText
from regard.inspect import record
from regard.models.bert import BASE, BERT

SPREAD = 3.0  # queries and keys are larger by it than fresh ones: scores then spread by about 3, as in trained models


def subject(tokens: int, spread: float) -> EmbeddingExplainer:
    """The model with so many tokens before it."""
    torch.manual_seed(0)
    net = BERT(BASE).eval()
    with torch.no_grad():  # fresh weights attend evenly; trained ones do not
        for layer in net.layers:
            layer.attention.mechanism.qkv.weight[: 2 * BASE.dim].mul_(spread)
    words = [f"word{i % 97}" for i in range(tokens)]
    places, at = [], 0
    for number, word in enumerate(words):
        places.append({"text": word, "start": at, "end": at + len(word), "word": number, "special": False})
        at += len(word) + 1
    ids = torch.randint(1000, BASE.vocab, (tokens,)).tolist()
    return EmbeddingExplainer(net, PromptText(" ".join(words), ids, places, str, lambda w: None), name="bert")


def memory(asked: EmbeddingExplainer) -> dict[str, Any]:
    """Bytes held at most by a forward pass, and by one that is recorded."""
    ids, mask = asked.ids[None], torch.ones(1, len(asked.tokens), dtype=torch.bool)
    kept: list[Any] = []

    @torch.no_grad()
    def plain() -> None:
        asked.model.hidden_states(ids, mask=mask)  # type: ignore[operator]

    @torch.no_grad()
    def recorded() -> None:
        with record(asked.model) as seen:
            asked.model.hidden_states(ids, mask=mask)  # type: ignore[operator]
        kept.append(seen)

    plain()
    forward, whole = peak_memory(plain), peak_memory(recorded)
    maps = sum(call.weights.numel() * call.weights.element_size() for call in kept[0].calls)
    return {"forward": forward, "recorded": whole, "maps": maps, "over": round((whole - maps) / forward, 3)}


def opened(page: Path, rounds: int) -> dict[str, float] | None:
    """Seconds until the page can be used, and until its first large map is drawn, in the median."""
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        return None
    from playwright.sync_api import sync_playwright

    ready, drawn = [], []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        for _ in range(rounds):
            tab = browser.new_page()
            start = time.perf_counter()
            tab.goto(page.as_uri(), wait_until="domcontentloaded")
            ready.append(time.perf_counter() - start)
            tab.locator("#large").scroll_into_view_if_needed()
            tab.wait_for_selector("#large[data-shown]")
            drawn.append(time.perf_counter() - start)
            tab.close()
        browser.close()
    return {"usable": round(statistics.median(ready), 3), "drawn": round(statistics.median(drawn), 3)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="128 tokens only, nothing written")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    result: dict[str, Any] = {"machine": machine(), "layers": 12, "heads": 12, "spread": SPREAD, "tokens": {}}
    for tokens in (128,) if given.quick else (128, 512):
        asked = subject(tokens, SPREAD)
        row: dict[str, Any] = {"memory": memory(asked)}
        start = time.perf_counter()
        look = build_look(asked, faithful=False)
        with tempfile.TemporaryDirectory() as folder:
            page = look.save(Path(folder) / "look.html")
            row["write_seconds"] = round(time.perf_counter() - start, 2)
            row["page_bytes"] = page.stat().st_size
            row["opened"] = opened(page, 1 if given.quick else given.rounds)
        result["tokens"][str(tokens)] = row
        m, o = row["memory"], row["opened"] or {}
        print(
            f"{tokens} tokens: page {row['page_bytes'] / 1e6:.1f} MB, usable after {o.get('usable')} s, a map "
            f"after {o.get('drawn')} s; forward {m['forward'] / 1e6:.0f} MB, recorded {m['recorded'] / 1e6:.0f}, maps "
            f"{m['maps'] / 1e6:.0f} MB",
            flush=True,
        )
    if not given.quick:
        Path("benchmarks/results/look.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
