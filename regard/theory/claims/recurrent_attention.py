"""Claims about attention in recurrent decoders: roles of query, key and value, and which word a map explains."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.token_positions import QueryKeyPositions
from regard.inspect import record
from regard.layers.multi_head_attention import MultiHeadAttention
from regard.layers.spatial_attention import SpatialAttention
from regard.theory.claim import CheckResult, Claim
from regard.theory.claims.check_helpers import TOLERANCE, max_difference, perturb, randn, seeded, softmax_rows

TOPIC = "recurrent decoders"


class Decoder(nn.Module):
    """h[t] = GRU([e(w_{t-1}); c_t], h[t-1]), c_t = Σ_i α_ti m_i, α_t = softmax_i(h[t-1]ᵀ W m_i); P(w_t) from h[t]."""

    def __init__(self, vocab_size: int, dim: int, context_dim: int):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, dim)
        self.attention = MultiHeadAttention(dim, 1, "bilinear:values=false", context_dim=context_dim, output_proj=False)
        self.cell = nn.GRUCell(dim + context_dim, dim)
        self.head = nn.Linear(dim, vocab_size)

    def forward(self, target_ids: Tensor, encoder_states: Tensor) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """Decode with teacher forcing.

        Args:
            target_ids: (n,).
            encoder_states: (m, context_dim).

        Returns:
            For each target word t: weights α_t, the previous state h[t-1], and the logits of w_t.
        """
        mechanism, source_positions = self.attention.mechanism, range(len(encoder_states))
        state = encoder_states.new_zeros(1, self.head.in_features) + 0.1
        weights, states, logits = [], [], []
        previous_ids = torch.cat((target_ids.new_zeros(1), target_ids[:-1]))
        for t in range(len(target_ids)):
            keys, values = mechanism.project_kv(encoder_states[None], source_positions)
            query = mechanism.project_query(state[None], range(1))
            alpha = mechanism.score(query, keys, QueryKeyPositions(range(1), source_positions)).weights()
            states.append(state)
            weights.append(alpha)
            context = (alpha @ values)[0, 0]
            state = self.cell(torch.cat((self.embed(previous_ids[t : t + 1]), context), -1), state)
            logits.append(self.head(state))
        return weights, states, logits


def build_example(seed: int) -> tuple[Decoder, Tensor, Tensor]:
    """Return a decoder, target ids (4,) and the states of a GRU encoder (7, 10)."""
    with seeded(seed):
        decoder = perturb(Decoder(11, 6, 10).double())
        encoder = perturb(nn.GRU(5, 10).double())
        encoder_states, _ = encoder(randn(7, 5, seed=seed + 1))
        target_ids = torch.randint(0, 11, (4,))
    return decoder, target_ids, encoder_states.detach()


def check_roles(seed: int) -> CheckResult:
    decoder, target_ids, encoder_states = build_example(seed)
    weights, states, _ = decoder(target_ids, encoder_states)
    alpha = torch.cat([w[0, 0] for w in weights]).detach()
    mechanism: Any = decoder.attention.mechanism
    w = mechanism.q.weight  # W^T: (context_dim, dim)
    logits = torch.cat(states).detach() @ w.T @ encoder_states.T
    expected = softmax_rows(logits).detach()
    output = torch.cat([decoder.attention(state[None], encoder_states[None])[0] for state in states]).detach()
    swapped = softmax_rows(logits.T)  # roles reversed: queries from the source, keys from the target
    num_targets, num_sources = len(target_ids), len(encoder_states)
    figures = {
        "target words, source words": [num_targets, num_sources],
        "shape of the weights": list(alpha.shape),
        "weights, difference from softmax(h[t-1] W M)": max_difference(alpha, expected),
        "output, difference from Σ α m": max_difference(output, expected @ encoder_states),
        "row sums over the source, difference from one": max_difference(
            alpha.sum(1), torch.ones(num_targets, dtype=torch.float64)
        ),
    }
    return CheckResult(
        figures,
        {
            "the query is the decoder's state": figures["weights, difference from softmax(h[t-1] W M)"] < TOLERANCE,
            "keys and values are the encoder's states": figures["output, difference from Σ α m"] < TOLERANCE,
            "one row per target word, over the source": list(alpha.shape) == [num_targets, num_sources]
            and figures["row sums over the source, difference from one"] < TOLERANCE,
        },
        {
            "shape of the weights with reversed roles": list(swapped.shape),
            "contexts that the decoder needs": num_targets,
            "sums over the target, which are not one": alpha.sum(0),
        },
    )


def check_explained_word(seed: int) -> CheckResult:
    """Measure the gradient of each word's logits with respect to each α_t."""
    decoder, target_ids, encoder_states = build_example(seed)
    weights, _, logits = decoder(target_ids, encoder_states)
    n = len(target_ids)
    gradients = torch.zeros(n, n, dtype=torch.float64)
    for t in range(n):
        grads = torch.autograd.grad(logits[t].square().sum(), weights, retain_graph=True, allow_unused=True)
        for s, grad in enumerate(grads):
            gradients[t, s] = 0.0 if grad is None else float(grad.abs().max())
    with seeded(seed):
        spatial = perturb(SpatialAttention(6, 1, "bilinear:values=false", context_dim=8, output_proj=False).double())
    grid, states = randn(1, 3, 5, 8, seed=seed + 1), randn(1, 4, 6, seed=seed + 2)
    with torch.no_grad(), record(spatial) as recording:
        spatial(states, grid)
    maps = recording[next(iter(recording.layers))][0, 0].view(4, 3, 5)
    figures = {
        "gradient of word t from α_s (rows t, columns s)": gradients,
        "sums of α over the grid, difference from one": max_difference(
            maps.sum((1, 2)), torch.ones(4, dtype=torch.float64)
        ),
    }
    return CheckResult(
        figures,
        {
            "α_t affects the word predicted from h[t]": min(float(gradients[t, t]) for t in range(n)) > 1e-8,
            "α_t affects no earlier word": bool((gradients.triu(1) == 0).all()),
            "α over a grid sums to one over (x, y)": figures["sums of α over the grid, difference from one"] < TOLERANCE
            and max_difference(maps.sum(2), torch.ones(4, 3, dtype=torch.float64)) > 0.1,
        },
        {"gradient if α_t is shown one word early": float(gradients.diagonal(1).max())},
    )


CLAIMS = [
    Claim(
        "roles",
        TOPIC,
        "exact",
        "In a recurrent encoder-decoder the query is the decoder's state; keys and values are the encoder's states.",
        "α_t = softmax_i(h[t-1]ᵀ W m_i), c_t = Σ_i α_ti m_i",
        check_roles,
        "the query is the source, the key the target",
    ),
    Claim(
        "explained-word",
        TOPIC,
        "exact",
        "In captioning and translation α is computed from h[t-1] and enters h[t], so it explains the word predicted "
        "from h[t]. Over an image it sums to one over (x, y).",
        "α_t = f(h[t-1]);  h[t] = GRU([e(w_{t-1}); Σ α_t m], h[t-1]);  P(w_t) = g(h[t])",
        check_explained_word,
        "attention maps shown one word off",
    ),
]
