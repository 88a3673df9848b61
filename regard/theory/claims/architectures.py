"""Whole models: what the base Transformer weighs, what BERT reads and hides, the blank language model, the CNN."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.data.tokenizer import MASK, SPECIAL_TOKENS
from regard.layers.transformer_blocks import EncoderBlock, FeedForward, PostNorm
from regard.models import bert, birnn, strided_cnn, transformer
from regard.tasks.language.objectives import masked
from regard.theory.claim import Claim, CheckResult
from regard.theory.claims.check_helpers import gap, layer, noise, seeded, shaken
from regard.theory.cost import Trace

TOPIC = "models"

HOURS = 3600.0


def base_size(seed: int) -> CheckResult:
    with torch.device("meta"):
        model = transformer.Transformer(transformer.BASE)
    parts = {"embeddings": 0, "encoder": 0, "decoder": 0, "bias of the head, which the paper has not": 0}
    for name, p in model.named_parameters():
        key = name.split(".")[0]
        parts[{"embed": "embeddings", "bias": "bias of the head, which the paper has not"}.get(key, key)] += p.numel()
    d, f, v, n = 512, 2048, 37_000, 6
    attention, feed, norm = 4 * (d * d + d), 2 * d * f + f + d, 2 * d
    formula = {
        "embeddings": v * d,
        "encoder": n * (attention + feed + 2 * norm),
        "decoder": n * (2 * attention + feed + 3 * norm),
    }
    total = sum(formula.values())
    needed = (65e6 - formula["encoder"] - formula["decoder"]) / d
    base, big = 100_000 * 0.4 / HOURS, 300_000 * 1.0 / HOURS
    counted = {key: parts[key] for key in formula}
    return CheckResult(
        {
            "by formula": formula,
            "counted": counted,
            "total, millions": total / 1e6,
            "vocabulary that 65 million needs": needed,
            "base model, hours on 8 GPUs: 100,000 steps of 0.4 s": base,
            "head's bias here": parts["bias of the head, which the paper has not"],
        },
        {
            "formula equals what is counted": counted == formula,
            "63.1 million": round(total / 1e6, 1) == 63.1,
            "65 million needs about 40.7 thousand words": round(needed / 1e3, 1) == 40.7,
            "half a day, not several": 11 < base < 12.5,
        },
        {"days for the big model, 300,000 steps of 1.0 s": big / 24, "days for the base model": base / 24},
    )


def bert_reads(seed: int) -> CheckResult:
    """Gradients from every place to every other; and what the masked-word objective does to 40,000 words."""
    n = 9
    with seeded(seed):
        model = shaken(bert.BERT(bert.BERTConfig(vocab=40, dim=16, hidden=24, layers=1, heads=2)).double()).eval()
        block = EncoderBlock(layer(16, 2, seed=seed), FeedForward(16, 24, activation=F.relu), residual=PostNorm)
        original = shaken(block.double()).eval()
    ids = torch.randint(7, 40, (1, n), generator=torch.Generator().manual_seed(seed))
    x = model.embed(ids).detach().requires_grad_()

    def reach(states: Tensor, wrt: Tensor) -> Tensor:
        rows = []
        for i in range(n):
            (grad,) = torch.autograd.grad(states[0, i].square().sum(), wrt, retain_graph=True)
            rows.append(grad[0].abs().amax(-1))
        return torch.stack(rows)

    kind = model.segments.weight[0]
    states = model.norm(model.positions.embed(x + kind, range(n)))
    for one in model.layers:
        states = one(states)
    both = reach(states, x)
    y = noise(1, n, 16, seed=seed).requires_grad_()
    encoder = reach(original(y), y)
    causal = reach(original(y, causal=True), y)
    words, follows = model(ids)

    rows, width, vocab = 400, 700, 1000
    given = np.random.default_rng(seed).integers(len(SPECIAL_TOKENS), vocab, (rows, width))
    table: Any = SimpleNamespace(word=np.arange(vocab) >= len(SPECIAL_TOKENS), size=vocab)
    items = np.arange(rows)
    chosen = masked.choose(given, table, masked.Config(), seed, 0, items)
    changed = masked.change(given, chosen, vocab, seed, 0, items)
    count = int(chosen.sum())
    hidden = float((changed[chosen] == MASK).mean())
    kept = float((changed[chosen] == given[chosen]).mean())
    swapped = 1 - hidden - kept
    error = 3 * math.sqrt(0.8 * 0.2 / count)
    share = count / given.size
    return CheckResult(
        {
            "least gradient from any place to any other: BERT": float(both.min()),
            "the original encoder": float(encoder.min()),
            "logits of words, of the next sentence": [list(words.shape), list(follows.shape)],
            "chosen": share,
            "of these [MASK], another word, as it was": [hidden, swapped, kept],
            "words looked at": given.size,
        },
        {
            "BERT reads both ways": float(both.min()) > 0,
            "so does the original encoder": float(encoder.min()) > 0,
            "15 % chosen": abs(share - 0.15) < 0.001,
            "80/10/10": abs(hidden - 0.8) < error and abs(kept - 0.1) < error and abs(swapped - 0.1) < error,
            "the rest stays": bool((changed[~chosen] == given[~chosen]).all()),
            "both objectives have a head": list(words.shape) == [1, n, 40] and list(follows.shape) == [1, 2],
        },
        {
            "places that the first word of the original encoder reads": int((encoder[0] > 0).sum()),
            "if it read in sequence": int((causal[0] > 0).sum()),
        },
    )


def blank(seed: int) -> CheckResult:
    """Change w_t and see whether what is said of w_t changes; in two separate stacks, and in stacked two-way layers."""
    vocab, n, t = 30, 9, 4
    with seeded(seed):
        model = shaken(birnn.BiRNNConfig(dim=12, hidden=10, layers=2).build(vocab).double()).eval()
        stacked = nn.LSTM(12, 10, 2, bidirectional=True, batch_first=True).double()
        flat = nn.LSTM(12, 10, 1, bidirectional=True, batch_first=True).double()
    ids = torch.randint(0, vocab, (1, n), generator=torch.Generator().manual_seed(seed))
    other = ids.clone()
    other[0, t] = (other[0, t] + 1) % vocab
    with torch.no_grad():
        here, there = model(ids), model(other)
        same = gap(here[:, t], there[:, t])
        moved = min(gap(here[:, i], there[:, i]) for i in range(n) if i != t)
        # P(w_t) from the nets' states on either side, by hand.
        e = model.embed(ids)
        onward, back = model.read.onward(e)[0], model.read.back(e.flip(1))[0].flip(1)
        states = model.before(onward[:, t - 1]) + model.after(back[:, t + 1])
        wanted = states @ model.embed.weight.T + model.bias
        formula = gap(here[:, t], wanted)

        def neighbours(net: nn.LSTM, words: Tensor) -> Tensor:
            forward, backward = net(model.embed(words))[0].chunk(2, -1)
            return torch.cat((forward[:, t - 1], backward[:, t + 1]), -1)

        leak = gap(neighbours(stacked, ids), neighbours(stacked, other))
        none = gap(neighbours(flat, ids), neighbours(flat, other))
    return CheckResult(
        {
            "what is said of w_t when w_t changes, difference": same,
            "least difference at other places": moved,
            "formula against the model": formula,
            "two-way layer, one only, difference": none,
        },
        {
            "the prediction does not depend on w_t": same == 0.0,
            "the others do": moved > 1e-9,
            "softmax over w of e[w]·(W→ h→[t-1] + W← h←[t+1])": formula < 1e-9,
            "stacked two-way layers leak w_t": leak > 1e-6 and none == 0.0,
        },
        {"stacked two-way layers: what is read beside w_t changes with w_t by": leak},
    )


def halving(seed: int) -> CheckResult:
    """Lengths after each layer, and the span as layers are added."""
    n, dim = 64, 16
    with seeded(seed):
        model = strided_cnn.StridedCNNConfig(dim=dim, layers=6).build(50, 3).eval()
    ids = torch.randint(1, 50, (1, n), generator=torch.Generator().manual_seed(seed))
    lengths, spans, x = [n], [], model.embedding(ids)
    with torch.no_grad():
        first = gap(x, model.embedding.weight[ids])
        for one in model.layers:
            x = one(x)
            lengths.append(x.shape[1])
    for levels in (1, 2, 3, 4, 5, 6):
        y = model.embedding(ids).detach()
        with torch.no_grad(), Trace() as trace:
            for one in list(model.layers)[:levels]:
                y = one(y)
        spans.append(trace.span)
    gains = {b - a for a, b in itertools.pairwise(spans)}
    return CheckResult(
        {"L_0 against e[w]": first, "lengths": lengths, "steps of 1 to 6 layers": spans},
        {
            "L_0 = e[w]": first == 0.0,
            "stride 2 halves the length": lengths == [n >> i for i in range(7)],
            "O(L) parallel time": len(gains) == 1,
        },
    )


CLAIMS = [
    Claim(
        "base-transformer",
        TOPIC,
        "exact",
        "The ingredients of the base Transformer, with its 37 thousand shared words, come to 63.1 million parameters; "
        "the 65 million of its table need about 40.7 thousand words. It trained for 12 hours on 8 GPUs.",
        "V d + 6(4(d²+d) + ffn + 4d) + 6(8(d²+d) + ffn + 6d), ffn = 2df + f + d",
        base_size,
        "the base model trained for several days",
    ),
    Claim(
        "bert",
        TOPIC,
        "exact",
        "BERT is an encoder that reads both ways, taught masked words (15 % chosen; of these 80 % [MASK], 10 % another "
        "word, 10 % kept) and whether a sentence follows. The original Transformer's encoder reads all positions at "
        "once, too.",
        "h_i depends on x_j for all i, j",
        bert_reads,
        "the original reads in sequence",
    ),
    Claim(
        "blank-language-model",
        TOPIC,
        "exact",
        "The blank language model's prediction does not depend on w_t. It needs two separate stacks: in stacked "
        "two-way layers the states beside w_t have read it.",
        "P(w_t) = softmax over w of e[w]·(W→ h→[t-1] + W← h←[t+1])",
        blank,
    ),
    Claim(
        "language-cnn",
        TOPIC,
        "exact",
        "The language CNN starts at L_0 = e[w]; each layer of stride 2 halves the length; L layers take O(L) parallel "
        "time.",
        "L_{l+1}[t] = σ(Σ_Δ W_l[Δ] L_l[2t + Δ] - B_l)",
        halving,
    ),
]
