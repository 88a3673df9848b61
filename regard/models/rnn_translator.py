"""The recurrent encoder-decoder with attention (Bahdanau et al. 2015, Neural Machine Translation by Jointly Learning to
Align and Translate; scores and the plain decoder: Luong et al. 2015).

    s = [RNN→(e[x]); RNN←(e[x])]        h[0] = tanh(W mean(s))        o[t] from h, V and w: rnn_decoders.py
    P(w_{t+1}) = softmax over w of  e[w] · o[t] + b[w]

    e: `embed`, one table for both sides and the head    RNN→, RNN←: `encoder`    W: `first_state`    o: `decoder`
    b: `bias`

The query is the decoder's state; keys and values are projections of the encoder's states, computed once. Differences
from the paper: a tanh layer in place of maxout; any mechanism (additive is the paper's); with `input_feeding=False`
the decoder attends after the state update and not before it, from all steps at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention.kv_cache import KVCache
from regard.config.validation import check_positive
from regard.errors import UserError
from regard.layers import BidirectionalRNN, MultiHeadAttention
from regard.layers.cost_formulas import PartCosts, birnn_costs, linear_cost, matmul_cost, params_cost
from regard.layers.dropout import Dropout
from regard.models.classifier_output import select_positions
from regard.models.configured_model import ConfigT, ConfiguredModel, ModelConfig
from regard.models.rnn_decoders import InputFeedingDecoder, PlainDecoder, State


@dataclass(frozen=True)
class RNNTranslatorConfig(ModelConfig):
    """Options of the recurrent translator.

    Attributes:
        hidden: Width of the decoder's state, and of the encoder's state in each direction.
        cell: "gru" or "lstm".
        input_feeding: Whether the attended context enters the decoder's state.
    """

    dim: int = 256
    hidden: int = 256
    layers: int = 1
    heads: int = 1
    cell: str = "gru"
    mechanism: str = "additive"
    input_feeding: bool = False
    dropout: float = 0.3


class RecurrentDecoderModel(ConfiguredModel[ConfigT]):
    """What the recurrent translator and captioner share: token embeddings that are tied with the output head."""

    embed: nn.Embedding
    bias: nn.Parameter
    dropout: nn.Module
    first_state: nn.Linear
    decoder: PlainDecoder | InputFeedingDecoder

    def decode(self, ids: Tensor, source: KVCache, state: State, *, logits_at: Tensor | None = None) -> Tensor:
        """Logits of all target positions at once.

        Args:
            ids: Target tokens, (b, n).
            source: Keys and values of the source, from `project_source`.
            state: The initial state, from `project_source`.
            logits_at: Flat indices (k,) of the positions whose logits are wanted.

        Returns:
            Logits (b, n, vocab), or (k, vocab) with `logits_at`.
        """
        outputs, _ = self.decoder(self.dropout(self.embed(ids)), source, state)
        return self.head(select_positions(outputs, logits_at))

    def step(self, ids: Tensor, source: KVCache, state: State, position: int) -> tuple[Tensor, State]:
        """The next token of each target, (b,), at this position, to logits (b, vocab) and the next state."""
        output, state = self.decoder.step(self.embed(ids), source, state, position)
        return self.head(output), state

    def head(self, outputs: Tensor) -> Tensor:
        """Outputs of the decoder (..., dim) to logits (..., vocab)."""
        return F.linear(outputs, self.embed.weight, self.bias)

    def decoder_costs(self, n: int, m: int) -> PartCosts:
        vocab_size, dim = self.embed.weight.shape
        yield params_cost("embeddings (tied with the head)", self.embed)
        yield linear_cost("first state", self.first_state, 1)
        yield from self.decoder.cost_parts(n, m)
        yield matmul_cost("head", n, dim, vocab_size, self.bias.numel())


class RNNTranslator(RecurrentDecoderModel[RNNTranslatorConfig]):
    """Recurrent encoder-decoder with attention.

    Args:
        vocab_size: Size of the vocabulary that both sides share.
        config: The options; or pass fields of `RNNTranslatorConfig` as keywords.
    """

    config_class = RNNTranslatorConfig

    def __init__(self, vocab_size: int, config: RNNTranslatorConfig | None = None, **options: Any):
        super().__init__(config, options)
        c = self.config
        check_positive("rnn", dim=c.dim, hidden=c.hidden, layers=c.layers, heads=c.heads)
        self.embed = nn.Embedding(vocab_size, c.dim)
        self.bias = nn.Parameter(torch.zeros(vocab_size))
        self.dropout = Dropout(c.dropout)
        self.encoder = BidirectionalRNN(c.dim, c.hidden, c.cell, c.layers, c.dropout)
        attention = MultiHeadAttention(c.hidden, c.heads, c.mechanism, context_dim=2 * c.hidden, output_proj=False)
        if not attention.mechanism.supports_cross_attention:
            raise UserError(
                f"mechanism {c.mechanism!r} does not support cross-attention; use additive, bilinear or dot"
            )
        self.first_state = nn.Linear(2 * c.hidden, c.layers * c.hidden)
        decoder_class = InputFeedingDecoder if c.input_feeding else PlainDecoder
        self.decoder = decoder_class(c.dim, attention, c.cell, c.layers, c.dropout)
        nn.init.normal_(self.embed.weight, std=c.dim**-0.5)

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        *,
        source_mask: Tensor | None = None,
        target_mask: Tensor | None = None,
        logits_at: Tensor | None = None,
    ) -> Tensor:
        """Logits of the token after each target token.

        Args:
            source: Source tokens, (b, m).
            target: Target tokens, (b, n).
            source_mask: True for real source tokens, (b, m), padding at the end; None if there is no padding.
            target_mask: Not used: no position depends on later ones.
            logits_at: Flat indices (k,) of the target positions whose logits are wanted.

        Returns:
            Logits (b, n, vocab), or (k, vocab) with `logits_at`.
        """
        context, state = self.project_source(self.encode(source, mask=source_mask), mask=source_mask)
        return self.decode(target, context, state, logits_at=logits_at)

    def encode(self, ids: Tensor, *, mask: Tensor | None = None) -> Tensor:
        """Source tokens (b, m) to hidden states (b, m, 2 · hidden)."""
        lengths = ids.new_full(ids.shape[:1], ids.shape[1]) if mask is None else mask.sum(1)
        return self.dropout(self.encoder(self.dropout(self.embed(ids)), lengths))

    def project_source(self, states: Tensor, *, mask: Tensor | None = None) -> tuple[KVCache, State]:
        """Keys and values of the source, computed once for all steps, and the decoder's initial state."""
        is_real = torch.ones(states.shape[:2], dtype=torch.bool, device=states.device) if mask is None else mask
        mean = states.masked_fill(~is_real[..., None], 0.0).sum(1) / is_real.sum(1, keepdim=True).clamp(min=1)
        h = torch.tanh(self.first_state(mean)).unflatten(1, (self.config.layers, -1)).transpose(0, 1).contiguous()
        state = (h, torch.zeros_like(h)) if self.config.cell == "lstm" else (h,)
        return self.decoder.attention.project_kv(states, key_mask=mask), state

    def cost_parts(self, n: int, m: int) -> PartCosts:
        yield from birnn_costs("encoder", self.encoder, m)
        yield from self.decoder_costs(n, m)
