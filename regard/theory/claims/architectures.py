"""Claims about architectures: the base Transformer's size, BERT, the blank language model and the strided CNN."""

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
from regard.theory.claim import CheckResult, Claim
from regard.theory.claims.check_helpers import build_layer, max_difference, perturb, randn, random_ids, seeded
from regard.theory.cost import Trace

TOPIC = "models"
SECONDS_PER_HOUR = 3600.0
HEAD_BIAS = "bias of the output layer (not in the paper)"


def check_base_size(seed: int) -> CheckResult:
    with torch.device("meta"):
        model = transformer.Transformer(transformer.BASE_VOCAB_SIZE, transformer.BASE)
    parts = {"embeddings": 0, "encoder": 0, "decoder": 0, HEAD_BIAS: 0}
    for name, p in model.named_parameters():
        key = name.split(".")[0]
        parts[{"embed": "embeddings", "bias": HEAD_BIAS}.get(key, key)] += p.numel()
    d, f, v, n = 512, 2048, 37_000, 6
    attention, ffn, norm = 4 * (d * d + d), 2 * d * f + f + d, 2 * d
    formula = {
        "embeddings": v * d,
        "encoder": n * (attention + ffn + 2 * norm),
        "decoder": n * (2 * attention + ffn + 3 * norm),
    }
    total = sum(formula.values())
    needed_vocab = (65e6 - formula["encoder"] - formula["decoder"]) / d
    base_hours, big_hours = 100_000 * 0.4 / SECONDS_PER_HOUR, 300_000 * 1.0 / SECONDS_PER_HOUR
    counts = {key: parts[key] for key in formula}
    return CheckResult(
        {
            "by formula": formula,
            "counted": counts,
            "total, millions": total / 1e6,
            "vocabulary size for 65 million": needed_vocab,
            "base model, hours on 8 GPUs: 100,000 steps of 0.4 s": base_hours,
            HEAD_BIAS: parts[HEAD_BIAS],
        },
        {
            "the formula equals the count": counts == formula,
            "63.1 million": round(total / 1e6, 1) == 63.1,
            "65 million needs a vocabulary of about 40.7 thousand": round(needed_vocab / 1e3, 1) == 40.7,
            "half a day, not several days": 11 < base_hours < 12.5,
        },
        {"days for the big model, 300,000 steps of 1.0 s": big_hours / 24, "days for the base model": base_hours / 24},
    )


def check_bert(seed: int) -> CheckResult:
    """Measure gradients between all positions, and what the masked-word objective does to 280,000 tokens."""
    n = 9
    with seeded(seed):
        model = perturb(bert.BERT(40, dim=16, hidden=24, layers=1, heads=2).double()).eval()
        block = EncoderBlock(build_layer(16, 2, seed=seed), FeedForward(16, 24, activation=F.relu), residual=PostNorm)
        original = perturb(block.double()).eval()
    ids = random_ids(7, 40, (1, n), seed)
    x = model.embed(ids).detach().requires_grad_()

    def gradient_matrix(states: Tensor, inputs: Tensor) -> Tensor:
        """Return the largest gradient of each output position (rows) from each input position (columns)."""
        rows = []
        for i in range(n):
            (grad,) = torch.autograd.grad(states[0, i].square().sum(), inputs, retain_graph=True)
            rows.append(grad[0].abs().amax(-1))
        return torch.stack(rows)

    states = model.first_norm(model.positions.embed(x + model.segments.weight[0], range(n)))
    for block in model.layers:
        states = block(states)
    bert_gradients = gradient_matrix(states, x)
    y = randn(1, n, 16, seed=seed).requires_grad_()
    encoder_gradients = gradient_matrix(original(y), y)
    causal_gradients = gradient_matrix(original(y, causal=True), y)
    word_logits, next_sentence_logits = model(ids)

    rows, width, vocab_size = 400, 700, 1000
    tokens = np.random.default_rng(seed).integers(len(SPECIAL_TOKENS), vocab_size, (rows, width))
    table: Any = SimpleNamespace(is_word=np.arange(vocab_size) >= len(SPECIAL_TOKENS), size=vocab_size)
    items = np.arange(rows)
    selected = masked.choose_tokens(tokens, table, masked.MaskedConfig(), seed, 0, items)
    changed = masked.corrupt_tokens(tokens, selected, vocab_size, seed, 0, items)
    count = int(selected.sum())
    masked_fraction = float((changed[selected] == MASK).mean())
    unchanged_fraction = float((changed[selected] == tokens[selected]).mean())
    random_fraction = 1 - masked_fraction - unchanged_fraction
    error = 3 * math.sqrt(0.8 * 0.2 / count)
    selected_fraction = count / tokens.size
    return CheckResult(
        {
            "smallest gradient between two positions, BERT": float(bert_gradients.min()),
            "smallest gradient between two positions, original encoder": float(encoder_gradients.min()),
            "logits of words, of the next sentence": [list(word_logits.shape), list(next_sentence_logits.shape)],
            "selected": selected_fraction,
            "of these [MASK], random, unchanged": [masked_fraction, random_fraction, unchanged_fraction],
            "tokens": tokens.size,
        },
        {
            "BERT is bidirectional": float(bert_gradients.min()) > 0,
            "the original encoder is bidirectional": float(encoder_gradients.min()) > 0,
            "15 % selected": abs(selected_fraction - 0.15) < 0.001,
            "80/10/10": abs(masked_fraction - 0.8) < error
            and abs(unchanged_fraction - 0.1) < error
            and abs(random_fraction - 0.1) < error,
            "other tokens stay unchanged": bool((changed[~selected] == tokens[~selected]).all()),
            "both objectives have a head": list(word_logits.shape) == [1, n, 40]
            and list(next_sentence_logits.shape) == [1, 2],
        },
        {
            "positions visible to the first word of the original encoder": int((encoder_gradients[0] > 0).sum()),
            "with a causal mask": int((causal_gradients[0] > 0).sum()),
        },
    )


def check_blank_language_model(seed: int) -> CheckResult:
    """Change w_t and measure its prediction, with two separate stacks and with stacked bidirectional layers."""
    vocab_size, n, t = 30, 9, 4
    with seeded(seed):
        model = perturb(birnn.BiRNN(vocab_size, dim=12, hidden=10, layers=2).double()).eval()
        stacked = nn.LSTM(12, 10, 2, bidirectional=True, batch_first=True).double()
        single = nn.LSTM(12, 10, 1, bidirectional=True, batch_first=True).double()
    ids = random_ids(0, vocab_size, (1, n), seed)
    changed = ids.clone()
    changed[0, t] = (changed[0, t] + 1) % vocab_size
    with torch.no_grad():
        logits, changed_logits = model(ids), model(changed)
        own_change = max_difference(logits[:, t], changed_logits[:, t])
        other_change = min(max_difference(logits[:, i], changed_logits[:, i]) for i in range(n) if i != t)
        # P(w_t) from the states on either side of w_t
        e = model.embed(ids)
        forward, backward = model.rnn.forward_rnn(e)[0], model.rnn.backward_rnn(e.flip(1))[0].flip(1)
        states = model.before(forward[:, t - 1]) + model.after(backward[:, t + 1])
        expected = states @ model.embed.weight.T + model.bias
        formula_error = max_difference(logits[:, t], expected)

        def neighbor_states(lstm: nn.LSTM, ids: Tensor) -> Tensor:
            """Return the forward state before w_t and the backward state after it."""
            forward, backward = lstm(model.embed(ids))[0].chunk(2, -1)
            return torch.cat((forward[:, t - 1], backward[:, t + 1]), -1)

        stacked_leak, single_leak = (
            max_difference(neighbor_states(lstm, ids), neighbor_states(lstm, changed)) for lstm in (stacked, single)
        )
    return CheckResult(
        {
            "change of the prediction of w_t when w_t changes": own_change,
            "smallest change at other positions": other_change,
            "formula against the model": formula_error,
            "change of the neighboring states, one bidirectional layer": single_leak,
        },
        {
            "the prediction does not depend on w_t": own_change == 0.0,
            "the other predictions do": other_change > 1e-9,
            "softmax over w of e[w]·(W→ h→[t-1] + W← h←[t+1])": formula_error < 1e-9,
            "stacked bidirectional layers leak w_t": stacked_leak > 1e-6 and single_leak == 0.0,
        },
        {"change of the neighboring states, stacked bidirectional layers": stacked_leak},
    )


def check_strided_cnn(seed: int) -> CheckResult:
    """Measure the length after each layer, and the span as layers are added."""
    n, dim = 64, 16
    with seeded(seed):
        model = strided_cnn.StridedCNN(50, 3, dim=dim, layers=6).eval()
    ids = random_ids(1, 50, (1, n), seed)
    lengths, spans, x = [n], [], model.embedding(ids)
    with torch.no_grad():
        embedding_error = max_difference(x, model.embedding.weight[ids])
        for layer in model.layers:
            x = layer(x)
            lengths.append(x.shape[1])
    for depth in range(1, 7):
        x = model.embedding(ids).detach()
        with torch.no_grad(), Trace() as trace:
            for layer in list(model.layers)[:depth]:
                x = layer(x)
        spans.append(trace.span)
    return CheckResult(
        {"L_0 against e[w]": embedding_error, "lengths": lengths, "steps of 1 to 6 layers": spans},
        {
            "L_0 = e[w]": embedding_error == 0.0,
            "stride 2 halves the length": lengths == [n >> i for i in range(7)],
            "O(L) parallel time": len({b - a for a, b in itertools.pairwise(spans)}) == 1,
        },
    )


CLAIMS = [
    Claim(
        "base-transformer",
        TOPIC,
        "exact",
        "The base Transformer with the paper's shared vocabulary of 37 thousand has 63.1 million parameters; the 65 "
        "million of its table need a vocabulary of about 40.7 thousand. It trained for 12 hours on 8 GPUs.",
        "V d + 6(4(d²+d) + ffn + 4d) + 6(8(d²+d) + ffn + 6d), ffn = 2df + f + d",
        check_base_size,
        "the base model trained for several days",
    ),
    Claim(
        "bert",
        TOPIC,
        "exact",
        "BERT is a bidirectional encoder, trained on masked words (15 % selected; of these 80 % [MASK], 10 % a random "
        "word, 10 % unchanged) and on next-sentence prediction. The original Transformer's encoder also reads all "
        "positions in parallel.",
        "h_i depends on x_j for all i, j",
        check_bert,
        "the original Transformer reads in sequence",
    ),
    Claim(
        "blank-language-model",
        TOPIC,
        "exact",
        "The blank language model's prediction of w_t does not depend on w_t. It needs two separate stacks: in stacked "
        "bidirectional layers the states next to w_t depend on it.",
        "P(w_t) = softmax over w of e[w]·(W→ h→[t-1] + W← h←[t+1])",
        check_blank_language_model,
    ),
    Claim(
        "language-cnn",
        TOPIC,
        "exact",
        "The strided CNN starts at L_0 = e[w]; each layer of stride 2 halves the length; L layers take O(L) parallel "
        "time.",
        "L_{l+1}[t] = σ(Σ_Δ W_l[Δ] L_l[2t + Δ] - B_l)",
        check_strided_cnn,
    ),
]
