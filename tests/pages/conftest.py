"""A synthetic look at a review, one with hostile strings, a report, and a browser that opens the pages."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from regard.pages import quantize

SENTENCES = [
    "We came on a rainy Tuesday with friends from work.",
    "My brother said the soup was wonderful, but he says that of every soup.",
    "For me the dinner was not at all disappointing.",
    "The bill came to 48 euros & the tram home was late.",
]
HOSTILE = '</script><script>window.hacked=1</script><img src=x onerror="window.hacked=1">'


def softmax(logits):
    shifted = np.exp(logits - logits.max(-1, keepdims=True))
    return shifted / shifted.sum(-1, keepdims=True)


def split_tokens(text: str, offset: int, word: int):
    """Tokens of a text: long words are split in two, and the first token includes the space, as in byte-level BPE."""
    tokens, at = [], 0
    for part in text.split(" "):
        cuts = [part[:5], part[5:]] if len(part) > 7 else [part]
        for number, cut in enumerate(cuts):
            space = 1 if number == 0 and at else 0
            start = offset + at - space
            tokens.append(
                {
                    "text": " " * space + cut,
                    "start": start,
                    "end": offset + at + len(cut),
                    "word": word,
                    "special": False,
                }
            )
            at += len(cut)
        word, at = word + 1, at + 1
    return tokens, word


def make_look(sentences=SENTENCES, *, title="A look at a review", layers=3, heads=4, seed=0, maps=True):
    """A look, and the exact weights of its maps by layer."""
    rng = np.random.default_rng(seed)
    text = " ".join(sentences)
    tokens = [{"text": "[BOS]", "start": 0, "end": 0, "word": None, "special": True}]
    spans, at, word = [], 0, 0
    for sentence in sentences:
        sentence_tokens, word = split_tokens(sentence, at, word)
        spans.append([len(tokens), len(tokens) + len(sentence_tokens)])
        tokens += sentence_tokens
        at += len(sentence) + 1
    n, s = len(tokens), len(spans)
    evidence = [list(match.span()) for match in re.finditer(r"not at all \w+", text)]
    logits = rng.normal(size=n)
    for i, token in enumerate(tokens):
        if any(token["start"] < end and start < token["end"] for start, end in evidence):
            logits[i] += 3
    weights = softmax(logits)
    hits = [any(t["start"] < b and a < t["end"] for a, b in evidence) for t in tokens]
    exact = {f"encoder.{i}.attend": softmax(1.5 * rng.normal(size=(heads, n, n))) for i in range(layers)}
    exact["words.pool"] = softmax(2 * rng.normal(size=(1, s, n)))
    exact["sentences.pool"] = softmax(rng.normal(size=(2, 1, s)))
    axes = {"words.pool": ("sentences", "tokens"), "sentences.pool": ("document", "sentences")}
    look = {
        "title": title,
        "model": "han",
        "run": "runs/made-up",
        "text": text,
        "tokens": tokens,
        "sentences": spans,
        "prediction": {"label": "positive", "probabilities": {"positive": 0.9312, "negative": 0.0688}},
        "weights": weights.tolist(),
        "weights_description": "weight of the sentence times weight of the word in it",
        "sentence_weights": [float(weights[a:b].sum() / weights[1:].sum()) for a, b in spans],
        "evidence": evidence,
        "evidence_fraction": float(weights[hits].sum()),
        "maps": [
            {
                "layer": layer,
                "heads": w.shape[0],
                "rows": axes.get(layer, ("tokens",))[0],
                "columns": axes.get(layer, ("", "tokens"))[1],
                **quantize(w),
            }
            for layer, w in exact.items()
        ]
        if maps
        else [],
        "faithfulness": {
            "verdict": "On this text, erasing what was attended to changes the prediction more than chance would.",
            "metrics": [
                {
                    "name": "comprehensiveness",
                    "attention": 0.612,
                    "random": 0.084,
                    "uniform": 0.079,
                    "description": "drop of the prediction without the most attended words (higher is better)",
                },
                {
                    "name": "sufficiency",
                    "attention": 0.031,
                    "random": 0.402,
                    "uniform": 0.398,
                    "description": "drop of the prediction with only these words (lower is better)",
                },
            ],
        },
        "notes": ["The weights are those of a made-up model."],
    }
    return look, exact


@pytest.fixture
def look():
    return make_look()[0]


@pytest.fixture
def look_and_weights():
    return make_look()


@pytest.fixture
def hostile():
    """A look in which every string from a user is an attack."""
    look, _ = make_look([HOSTILE + " is not at all disappointing.", "And <!-- so <b>on."], title=HOSTILE)
    for key in ("model", "run", "weights_description"):
        look[key] = HOSTILE
    look["prediction"] = {"label": HOSTILE, "probabilities": {HOSTILE: 0.75, "'\"&": 0.25}}
    look["faithfulness"] = {
        "verdict": HOSTILE,
        "metrics": [{"name": HOSTILE, "attention": 0.1, "random": 0.2, "uniform": None, "description": HOSTILE}],
    }
    look["notes"] = [HOSTILE]
    for stored in look["maps"]:
        stored["layer"] = HOSTILE + stored["layer"]
    return look


@pytest.fixture
def report():
    """A report of two models and a baseline on two documents."""
    rng = np.random.default_rng(3)
    other = ["The lobby smelled of lemons.", "I would say the room was not at all good.", "Others raved about it."]
    examples = []
    for number, sentences in enumerate([SENTENCES, other]):
        for model in ("han", "transformer"):
            look, _ = make_look(sentences, title=f"Review {number + 1}", seed=rng.integers(100), maps=False)
            look["model"] = model
            if model == "transformer":
                look["sentence_weights"] = None
            examples.append(look)
    x = list(range(0, 400, 20))
    return {
        "title": "Three models on generated reviews",
        "lead": "A hierarchical attention network and a Transformer encoder, compared with a bag of words, on 2,000 "
        "reviews in which one sentence decides the label.",
        "table": {
            "columns": [
                {"key": "model", "title": "model", "format": "text", "best": None, "explain": ""},
                {"key": "acc", "title": "accuracy", "format": "percent", "best": "max", "explain": "right on held-out"},
                {
                    "key": "share",
                    "title": "attention on the evidence",
                    "format": "percent",
                    "best": "max",
                    "explain": "fraction of the attention on the words that decide the label",
                },
                {"key": "params", "title": "parameters", "format": "int", "best": None, "explain": "trained numbers"},
                {"key": "time", "title": "time", "format": "seconds", "best": "min", "explain": "training time"},
            ],
            "rows": [
                {"model": "TF-IDF + logistic regression", "acc": 0.714, "share": None, "params": 3210, "time": 0.41},
                {"model": "HAN", "acc": 0.981, "share": 0.873, "params": 412345, "time": 41.7},
                {"model": "Transformer encoder", "acc": 0.969, "share": 0.341, "params": 1204511, "time": 73.2},
            ],
        },
        "curves": [
            {"name": "HAN", "x": x, "y": [0.98 - 0.48 * np.exp(-i / 60) for i in x]},
            {"name": "Transformer encoder", "x": x, "y": [0.97 - 0.47 * np.exp(-i / 110) for i in x]},
            {"name": "TF-IDF + logistic regression", "x": [0, 380], "y": [0.714, 0.714]},
        ],
        "curve_title": "Accuracy on validation data",
        "examples": examples,
        "settings": {"seed": 1, "train": {"lr": 0.001, "epochs": 3, "optimizer": "adamw"}, "files": []},
        "machine": {"processor": "2 cores", "torch": "2.13"},
        "notes": ["Times are of one run."],
    }


class Opened:
    """A page in the browser, with its errors and requests."""

    def __init__(self, context, path: Path, fragment: str = ""):
        self.context, self.page = context, context.new_page()
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page.on("console", lambda m: self.errors.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda r: self.requests.append(r.url))
        self.url = path.as_uri()
        self.page.goto(self.url + fragment)

    def wait_for_map(self, layer: int, mode: str, head: int, zoom: int = 1):
        self.page.locator("#frame").scroll_into_view_if_needed()
        self.page.wait_for_selector(f'#heatmap[data-shown="{layer}/{mode}/{head}/{zoom}"]', timeout=10000)

    def external_requests(self) -> list[str]:
        """Requests other than the file itself and blobs."""
        return [url for url in self.requests if not url.startswith((self.url, "blob:", "data:", "about:"))]


@pytest.fixture
def open_page(chromium, tmp_path):
    contexts = []

    def opener(html: str, fragment: str = "", width: int = 1200, **options) -> Opened:
        path = tmp_path / "page.html"
        path.write_text(html, encoding="utf-8")
        context = chromium.new_context(viewport={"width": width, "height": 900}, accept_downloads=True, **options)
        contexts.append(context)
        return Opened(context, path, fragment)

    yield opener
    for context in contexts:
        context.close()
