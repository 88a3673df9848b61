"""Attention in recurrent decoders: who asks whom, when, and which word a map explains."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.token_positions import Places
from regard.layers.multi_head_attention import MultiHead
from regard.layers.spatial_attention import Spatial
from regard.theory.claim import Claim, Found
from regard.theory.claims.check_helpers import gap, noise, seeded, shaken, weigh

TOPIC = "recurrent decoders"
TIGHT = 1e-10


class Decoder(nn.Module):
    """h[t] = GRU([e(w_{t-1}); c_t], h[t-1]), c_t = Σ_i α_ti m_i, α_t = softmax_i(h[t-1]ᵀ W m_i); P(w_t) from h[t]."""

    def __init__(self, vocab: int, dim: int, memory_dim: int):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.attention = MultiHead(dim, 1, "bilinear:values=false", memory_dim=memory_dim, output=False)
        self.cell = nn.GRUCell(dim + memory_dim, dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, words: Tensor, memory: Tensor) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """Target words (n,), the encoder's states (m, memory_dim): weights α_t, states h[t-1] and logits of w_t."""
        m = self.attention.mechanism
        state = memory.new_zeros(1, self.head.in_features) + 0.1
        weights, states, logits = [], [], []
        before = torch.cat((words.new_zeros(1), words[:-1]))
        for t in range(len(words)):
            keys, values = m.remember(memory[None], range(len(memory)))
            scores = m.score(m.query(state[None], range(1)), keys, Places(range(1), range(len(memory))))
            alpha = scores.weights()
            states.append(state)
            weights.append(alpha)
            context = (alpha @ values)[0, 0]
            state = self.cell(torch.cat((self.embed(before[t : t + 1]), context), -1), state)
            logits.append(self.head(state))
        return weights, states, logits


def _made(seed: int) -> tuple[Decoder, Tensor, Tensor]:
    with seeded(seed):
        decoder = shaken(Decoder(11, 6, 10).double())
        encoder = shaken(nn.GRU(5, 10).double())
        memory, _ = encoder(noise(7, 5, seed=seed + 1))
        words = torch.randint(0, 11, (4,))
    return decoder, words, memory.detach()  # type: ignore[return-value]


def roles(seed: int) -> Found:
    decoder, words, memory = _made(seed)
    weights, states, _ = decoder(words, memory)
    alpha = torch.cat([w[0, 0] for w in weights]).detach()
    mechanism: Any = decoder.attention.mechanism
    w = mechanism.q.weight  # W^T: (memory_dim, dim)
    by_hand = weigh(torch.cat(states).detach() @ w.T @ memory.T)
    layer = torch.cat([decoder.attention(s[None], memory[None])[0] for s in states]).detach()
    # Roles turned round: source states ask, target states answer.
    swapped = weigh((torch.cat(states).detach() @ w.T @ memory.T).T)
    sums = alpha.sum(0)
    figures = {
        "targets, sources": [len(words), len(memory)],
        "weights": list(alpha.shape),
        "softmax(h[t-1] W M) against the layer's weights": gap(alpha, by_hand.detach()),
        "Σ α m against the layer's output": gap(layer, (by_hand @ memory).detach()),
        "rows (over sources) sum to one within": gap(alpha.sum(1), torch.ones(len(words), dtype=torch.float64)),
    }
    return Found(
        figures,
        {
            "the query is the decoder's state": figures["softmax(h[t-1] W M) against the layer's weights"] < TIGHT,
            "keys and values are the encoder's": figures["Σ α m against the layer's output"] < TIGHT,
            "one row a target word, over the source": list(alpha.shape) == [len(words), len(memory)]
            and figures["rows (over sources) sum to one within"] < TIGHT,
        },
        {
            "turned round, rows of weights": list(swapped.shape),
            "contexts that the decoder needs": len(words),
            "sums over targets, which are not one": sums,
        },
    )


def explained(seed: int) -> Found:
    """Which word does α_t move? Gradients of each word's logits with respect to each α."""
    decoder, words, memory = _made(seed)
    weights, _, logits = decoder(words, memory)
    n = len(words)
    moved = torch.zeros(n, n, dtype=torch.float64)
    for t in range(n):
        grads = torch.autograd.grad(logits[t].square().sum(), weights, retain_graph=True, allow_unused=True)
        for s, grad in enumerate(grads):
            moved[t, s] = 0.0 if grad is None else float(grad.abs().max())
    with seeded(seed):
        spatial = shaken(Spatial(6, 1, "bilinear:values=false", memory_dim=8, output=False).double())
    grid, states = noise(1, 3, 5, 8, seed=seed + 1), noise(1, 4, 6, seed=seed + 2)
    from regard.inspect import record

    with torch.no_grad(), record(spatial) as seen:
        spatial(states, grid)
    over = seen[next(iter(seen.sites))][0, 0].view(4, 3, 5)
    figures = {
        "gradient of word t from α_s (rows t, columns s)": moved,
        "α over the grid sums to one within": gap(over.sum((1, 2)), torch.ones(4, dtype=torch.float64)),
    }
    off = min(float(moved[t, t]) for t in range(n))
    return Found(
        figures,
        {
            "α_t moves the word predicted from h[t]": off > 1e-8,
            "and no word before it": bool((moved.triu(1) == 0).all()),
            "α over a grid sums to one over (x, y)": figures["α over the grid sums to one within"] < TIGHT
            and gap(over.sum(2), torch.ones(4, 3, dtype=torch.float64)) > 0.1,
        },
        {"shown one word early, α_t would explain a word that it moves by": float(moved.diagonal(1).max())},
    )


CLAIMS = [
    Claim(
        "roles",
        TOPIC,
        "exact",
        "In a recurrent encoder-decoder the query is the decoder's state; keys and values are the encoder's states.",
        "α_t = softmax_i(h[t-1]ᵀ W m_i), c_t = Σ_i α_ti m_i",
        roles,
        "the query is the source, the key the target",
    ),
    Claim(
        "explained-word",
        TOPIC,
        "exact",
        "In captioning and translation α comes from h[t-1] and enters h[t], so it explains the word predicted from "
        "h[t]. Over a picture it sums to one over (x, y).",
        "α_t = f(h[t-1]);  h[t] = GRU([e(w_{t-1}); Σ α_t m], h[t-1]);  P(w_t) = g(h[t])",
        explained,
        "maps shown one word off",
    ),
]
