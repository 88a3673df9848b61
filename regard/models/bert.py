"""BERT (Devlin et al. 2019, Pre-training of Deep Bidirectional Transformers for Language Understanding).

    h_0 = norm(E[w] + P + S[segment])        h_l = block_l(h_{l-1}), bidirectional    (section 3, figure 2)
    masked token at t:  softmax(E norm(act(W h_L[t])) + b)                            (section 3.1, task 1)
    next sentence:      softmax(W' tanh(W_p h_L[0]))                                  (section 3.1, task 2)

    E: `embed`, tied with the masked-token head    P: `positions`    S: `segments`
    W: `mlm_dense`    b: `mlm_bias`    W_p: `pooler`    W': `next_sentence`

With `norm="post"` the blocks are those of Vaswani et al. 2017 and of BERT, with a norm after each sublayer. With
`norm="pre"` there is a norm before each sublayer and one at the end, none after the embeddings (Xiong et al. 2020, On
Layer Normalization in the Transformer Architecture, section 3.1): it trains without a long warmup, and the layers are
those of models/gpt.py.

Difference from BERT: no dropout on attention weights, which would rule out the fused kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.attention import positions
from regard.config import specs
from regard.layers import EncoderBlock, FeedForward, MultiHeadAttention
from regard.layers.activations import activation
from regard.layers.cost_formulas import PartCosts, encoder_block_costs, linear_cost, matmul_cost, params_cost
from regard.layers.dropout import Dropout
from regard.layers.norm_placement import EPS, FIRST_NORMS, LAST_NORMS, RESIDUALS
from regard.layers.typed_module_list import TypedModuleList
from regard.models.classifier_output import select_positions
from regard.models.configured_model import ConfiguredModel, ModelConfig


@dataclass(frozen=True)
class BERTConfig(ModelConfig):
    """Sizes that train on a CPU; `BASE` is the paper's base model.

    Attributes:
        hidden: Width of the feed-forward network.
        segments: Number of segment embeddings: 0 for the first sentence, 1 for the second.
        norm: "post" (after each sublayer, as in the paper) or "pre".
    """

    dim: int = 256
    hidden: int = 1024
    layers: int = 4
    heads: int = 4
    mechanism: str = "dot"
    positions: str = "learned:length=512"
    segments: int = 2
    activation: str = "gelu"
    norm: str = "post"
    dropout: float = 0.1


BASE = BERTConfig(dim=768, hidden=3072, layers=12, heads=12)
BASE_VOCAB_SIZE = 30_522


class BERT(ConfiguredModel[BERTConfig]):
    """Bidirectional Transformer encoder with heads for masked tokens and for the next sentence.

    Args:
        vocab_size: Size of the vocabulary.
        config: The options; or pass fields of `BERTConfig` as keywords.
    """

    config_class = BERTConfig

    def __init__(self, vocab_size: int, config: BERTConfig | None = None, **options: Any):
        super().__init__(config, options)
        c = self.config
        residual, norm = specs.find_choice("norm", c.norm, RESIDUALS), partial(nn.LayerNorm, eps=EPS[c.norm])
        self.embed = nn.Embedding(vocab_size, c.dim)
        if c.norm == "pre":  # the order decides the initial weights of a seed
            self.segments = nn.Embedding(c.segments, c.dim)
        self.positions = positions.build(c.positions, c.dim, c.heads)
        if c.norm == "post":
            self.segments = nn.Embedding(c.segments, c.dim)
        self.first_norm, self.dropout = FIRST_NORMS[c.norm](c.dim, EPS[c.norm]), Dropout(c.dropout)
        self.layers = TypedModuleList[EncoderBlock](
            EncoderBlock(
                MultiHeadAttention(c.dim, c.heads, c.mechanism, positions=self.positions.in_attention),
                FeedForward(c.dim, c.hidden, activation=activation(c.activation)),
                residual=residual,
                dropout=c.dropout,
                norm=norm,
            )
            for _ in range(c.layers)
        )
        self.norm = LAST_NORMS[c.norm](c.dim, EPS[c.norm])
        self.pooler = nn.Linear(c.dim, c.dim)
        self.mlm_dense, self.mlm_norm = nn.Linear(c.dim, c.dim), norm(c.dim)
        self.mlm_bias = nn.Parameter(torch.zeros(vocab_size))
        self.next_sentence = nn.Linear(c.dim, 2)
        self._init_weights()

    def forward(
        self,
        ids: Tensor,
        *,
        mask: Tensor | None = None,
        segments: Tensor | None = None,
        logits_at: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Logits of the token at each position, and of whether the second sentence follows the first.

        Args:
            ids: Token ids, (b, n).
            mask: True for real tokens, (b, n); None if there is no padding.
            segments: 0 for the first sentence, 1 for the second, (b, n); None for one sentence.
            logits_at: Flat indices (k,) of the positions whose token logits are wanted.

        Returns:
            Token logits (b, n, vocab), or (k, vocab) with `logits_at`, and next-sentence logits (b, 2).
        """
        states = self.hidden_states(ids, mask=mask, segments=segments)
        return self.token_logits(select_positions(states, logits_at)), self.next_sentence(self.pool(states))

    def hidden_states(self, ids: Tensor, *, mask: Tensor | None = None, segments: Tensor | None = None) -> Tensor:
        """The last layer's states (b, n, dim). Arguments as in `forward`."""
        segment = self.segments.weight[0] if segments is None else self.segments(segments)
        x = self.positions.embed(self.embed(ids) + segment, range(ids.shape[1]))
        x = self.dropout(self.first_norm(x))
        for layer in self.layers:
            x = layer(x, key_mask=mask)
        return self.norm(x)

    def pool(self, states: Tensor) -> Tensor:
        """The whole text as one vector, from its first token: (b, n, dim) to (b, dim)."""
        return torch.tanh(self.pooler(states[:, 0]))

    def token_logits(self, states: Tensor) -> Tensor:
        """Hidden states (..., dim) to logits of the token at these positions (..., vocab)."""
        x = self.mlm_norm(activation(self.config.activation)(self.mlm_dense(states)))
        return F.linear(x, self.embed.weight, self.mlm_bias)

    def _init_weights(self) -> None:
        """N(0, 0.02), as in the paper's code. A mechanism initializes its own projections."""
        for name, module in self.named_modules():
            if isinstance(module, (nn.Linear, nn.Embedding)) and ".mechanism." not in name:
                nn.init.normal_(module.weight, std=0.02)
                if isinstance(module, nn.Linear) and module.bias is not None:
                    nn.init.zeros_(module.bias)

    def cost_parts(self, n: int, m: int) -> PartCosts:
        vocab_size, dim = self.embed.weight.shape
        yield params_cost("embeddings (tied with the head)", self.embed)
        yield params_cost("positions", self.positions)
        yield params_cost("segments", self.segments)
        for i, block in enumerate(self.layers):
            yield from encoder_block_costs(f"layers.{i}", block, n)
        yield params_cost("norms", self.first_norm, self.norm, self.mlm_norm)
        yield linear_cost("masked-token transform", self.mlm_dense, n)
        yield matmul_cost("head", n, dim, vocab_size, self.mlm_bias.numel())
        yield linear_cost("pooler", self.pooler, 1)
        yield linear_cost("next sentence", self.next_sentence, 1)
