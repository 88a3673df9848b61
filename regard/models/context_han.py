"""Context-aware hierarchical attention network (Remy, Tixier & Vazirgiannis 2019, Bidirectional Context-Aware
Hierarchical Attention Network for Document Understanding; the gated, bidirectional version with mean contexts).

    words       h_it = [GRU→; GRU←](w_i1 .. w_iT)
    forward     c_i = mean of s→_1 .. s→_{i-1}, zero for the first sentence
                λ_it = σ(W_1 h_it + W_2 c_i + b_λ)
                α_it = softmax_t(uᵀ tanh(λ_it ∘ W_s h_it + (1 - λ_it) ∘ W_c c_i + b))      s→_i = Σ_t α_it h_it
    backward    the same from the last sentence to the first, with separate weights, giving s←_i
    sentences   s_i = [s→_i; s←_i], then GRUs and attention over the s_i as in the hierarchical attention network

The attention in a sentence depends on the sentences before it (and after it); in models/han.py each sentence is pooled
alone. λ weighs the word against its context for each unit; in the authors' code (github.com/JbRemy/Cahan) it is one
number per word, which is the same with equal rows in W_1 and W_2. Another difference: words are encoded in groups of
similar length, all sentences at once, and only the pooling runs sentence by sentence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.masks import Mask
from regard.attention.scores import Attend, DenseScores
from regard.attention.token_positions import QueryKeyPositions
from regard.config.validation import check_positive
from regard.layers import AttentionPooling, BidirectionalRNN
from regard.layers.cost_formulas import PartCosts, birnn_costs, linear_cost, matmul_cost, params_cost, pooling_cost
from regard.layers.dropout import Dropout
from regard.models.classifier_output import ClassifierOutput
from regard.models.configured_model import ConfiguredModel, ModelConfig
from regard.models.sentence_groups import SentenceGroups, group_sentences, sentence_counts


@dataclass(frozen=True)
class ContextHANConfig(ModelConfig):
    """Options of the context-aware network.

    Attributes:
        attention: Hidden width of all attention poolings.
        init_std: Standard deviation of the embeddings at the start.
    """

    embed: int = 100
    hidden: int = 50
    attention: int = 100
    dropout: float = 0.3
    init_std: float = 0.1


class ContextHAN(ConfiguredModel[ContextHANConfig]):
    """Hierarchical attention whose word attention depends on the neighbouring sentences.

    Args:
        vocab_size: Size of the vocabulary.
        num_classes: Number of classes.
        config: The options; or pass fields of `ContextHANConfig` as keywords.
    """

    config_class = ContextHANConfig

    def __init__(self, vocab_size: int, num_classes: int, config: ContextHANConfig | None = None, **options: Any):
        super().__init__(config, options)
        c = self.config
        check_positive("context-han", embed=c.embed, hidden=c.hidden, attention=c.attention)
        self.embedding = nn.Embedding(vocab_size, c.embed, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=c.init_std)
        self.word_rnn = BidirectionalRNN(c.embed, c.hidden)
        self.forward_pool = ContextPooling(2 * c.hidden, c.attention)
        self.backward_pool = ContextPooling(2 * c.hidden, c.attention)
        self.sentence_rnn = BidirectionalRNN(4 * c.hidden, c.hidden)
        self.sentence_pool = AttentionPooling(2 * c.hidden, c.attention)
        self.dropout = Dropout(c.dropout)
        self.head = nn.Linear(2 * c.hidden, num_classes)

    def forward(self, ids: Tensor, mask: Tensor | None = None, sentences: Tensor | None = None) -> ClassifierOutput:
        """Classify documents.

        Args:
            ids: Token ids, (b, n).
            mask: True for real tokens, (b, n); None if there is no padding.
            sentences: Number of each token's sentence in its document, (b, n); None for one sentence.

        Returns:
            Logits (b, classes).
        """
        groups, _ = group_sentences(ids, mask, sentences)
        word_states = [self.head.weight.new_zeros(0, self.head.in_features)]
        for group in groups:
            x = self.dropout(self.embedding(ids.flatten()[group.tokens]))  # (rows, words, embed)
            word_states.append(self.word_rnn(x, group.lengths)[group.mask])
        h, steps = torch.cat(word_states), sentence_steps(groups)  # (tokens, 2 · hidden), sentence after sentence
        vectors = torch.cat((self.forward_pool(h, steps), self.backward_pool(h, steps[::-1]).flip(1)), -1)
        h = self.sentence_rnn(self.dropout(vectors), groups.counts)
        document, _ = self.sentence_pool(h, groups.sentence_mask, groups.sentence_positions)
        return ClassifierOutput(self.head(self.dropout(document[:, 0])))

    def cost_parts(self, n: int, m: int) -> PartCosts:
        sentences, words = sentence_counts(n)
        yield params_cost("embeddings", self.embedding)
        yield from birnn_costs("words", self.word_rnn, words, sentences)
        yield from self.forward_pool.cost_parts("forward_pool", n, sentences)
        yield from self.backward_pool.cost_parts("backward_pool", n, sentences)
        yield from birnn_costs("sentences", self.sentence_rnn, sentences)
        yield pooling_cost("sentence attention", self.sentence_pool, sentences)
        yield linear_cost("head", self.head, 1)


class ContextPooling(nn.Module):
    """Attention pooling of sentence after sentence, each with the mean of the previous results as context."""

    def __init__(self, dim: int, hidden: int):
        super().__init__()
        self.word, self.context = nn.Linear(dim, hidden, bias=False), nn.Linear(dim, hidden)  # W_s, W_c and b
        self.gate_word, self.gate_context = nn.Linear(dim, hidden), nn.Linear(dim, hidden, bias=False)  # W_1, b_λ, W_2
        self.score = nn.Linear(hidden, 1, bias=False)  # u
        self.attend = Attend()

    def forward(self, h: Tensor, steps: list[SentenceStep]) -> Tensor:
        """Word states (tokens, dim) to sentence vectors (b, steps, dim)."""
        projected = torch.cat((h, self.word(h), self.gate_word(h)), -1)
        # all steps are gathered at once: a gather in each step would fill the gradient of all words each time
        index = torch.cat([step.words.flatten() for step in steps])
        step_inputs = projected[index].split([step.words.numel() for step in steps])
        sizes = [h.shape[1], self.word.out_features, self.word.out_features]
        total, count = h.new_zeros(len(steps[0].words), h.shape[1]), h.new_zeros(len(steps[0].words), 1)
        vectors = []
        for step, inputs in zip(steps, step_inputs, strict=True):
            value, word, gate = inputs.view(*step.words.shape, sum(sizes)).split(sizes, -1)  # (b, w, ·)
            c = (total / count.clamp(min=1))[:, None]
            word_share = torch.sigmoid(gate + self.gate_context(c))  # λ, (b, w, hidden)
            mixed = word_share * word + (1 - word_share) * (c @ self.context.weight.T) + self.context.bias
            logits = self.score(torch.tanh(mixed)).transpose(1, 2)[:, None]  # (b, 1, 1, w)
            qk_positions = QueryKeyPositions(range(step.number, step.number + 1), step.positions, "sentences", "tokens")
            scores = DenseScores(logits, qk_positions)
            vectors.append(self.attend(scores, value[:, None], Mask(key_mask=step.mask))[:, 0, 0])
            total, count = total + vectors[-1], count + step.mask.any(1, keepdim=True)
        return torch.stack(vectors, 1)

    def cost_parts(self, name: str, n: int, sentences: int) -> PartCosts:
        """The cost by formula.

        All words are projected at once, contexts sentence after sentence. The first context is zero and has no
        gradient.
        """
        yield linear_cost(f"{name}.word", self.word, n)
        yield linear_cost(f"{name}.gate_word", self.gate_word, n)
        for part, module in (("context", self.context), ("gate_context", self.gate_context)):
            cost = linear_cost(f"{name}.{part}", module, sentences)
            backward = cost.backward - cost.flops // sentences
            yield replace(cost, backward=backward, steps=sentences, path=sentences)
        yield linear_cost(f"{name}.score", self.score, n)
        yield matmul_cost(f"{name}.weighted sum", n, self.word.in_features, 1, 0)


@dataclass(frozen=True)
class SentenceStep:
    """The sentence with one number in each document. A document without such a sentence has no real word here, so that
    its vector is zero.

    Attributes:
        number: Number of the sentence.
        words: Indices into all words of the batch, (b, w).
        positions: Positions of the words in their document, (b, w).
        mask: True for real words, (b, w).
    """

    number: int
    words: Tensor
    positions: Tensor
    mask: Tensor


def sentence_steps(groups: SentenceGroups) -> list[SentenceStep]:
    """Steps through the sentences of all documents at once; words are indexed in the order of the groups."""
    b, s = len(groups.counts), groups.max_sentences
    starts, lengths = groups.counts.new_zeros(2, b, s)
    group_positions, first = [groups.counts.new_zeros(1)], 0
    for group in groups:
        starts[group.document, group.sentence] = first + group.lengths.cumsum(0) - group.lengths
        lengths[group.document, group.sentence] = group.lengths
        group_positions.append(group.positions[group.mask])
        first += len(group_positions[-1])
    columns = torch.arange(int(lengths.max()), device=starts.device)
    positions = torch.cat(group_positions[1:] or group_positions)
    steps = []
    for number, width in enumerate(lengths.amax(0).tolist()):
        words = (starts[:, number, None] + columns[:width]).clamp(max=len(positions) - 1)
        steps.append(SentenceStep(number, words, positions[words], columns[:width] < lengths[:, number, None]))
    return steps
