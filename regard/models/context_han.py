"""Context-aware hierarchical attention network (Remy, Tixier & Vazirgiannis 2019, Bidirectional Context-Aware
Hierarchical Attention Network for Document Understanding; the gated, bidirectional version with mean contexts).

    words       h_it = [GRU→; GRU←](w_i1 .. w_iT)
    onward      c_i = mean of s→_1 .. s→_{i-1}, zero for the first sentence
                λ_it = σ(W_1 h_it + W_2 c_i + b_λ)
                α_it = softmax_t(uᵀ tanh(λ_it ∘ W_s h_it + (1 - λ_it) ∘ W_c c_i + b))      s→_i = Σ_t α_it h_it
    back        the same from the last sentence to the first, with weights of its own, giving s←_i
    sentences   s_i = [s→_i; s←_i], then GRUs and attention over the s_i as in the hierarchical attention network

What a sentence is read for depends on the sentences before it (and after it), where the plain network (han.py) reads
each alone. λ weighs the word against its context, unit by unit; in the authors' code (github.com/JbRemy/Cahan) it is
one number a word, which is the same with equal rows in W_1 and W_2. How we differ besides: words are encoded in groups
of like length, all sentences at once, so that only the reading goes sentence by sentence.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from regard.attention.masks import Mask
from regard.attention.scores import Attend, DenseScores
from regard.attention.token_positions import QueryKeyPositions
from regard.config.validation import check_positive
from regard.layers import AttentionPooling, BidirectionalRNN
from regard.layers.dropout import Dropout
from regard.models.classifier_output import ClassifierOutput
from regard.models.sentence_groups import Groups, sentence_groups


@dataclass(frozen=True)
class ContextHANConfig:
    embed: int = 100
    hidden: int = 50
    attention: int = 100
    dropout: float = 0.3
    spread: float = 0.1  # of the embeddings at the start

    def build(self, vocab: int, classes: int) -> ContextHAN:
        check_positive("context-han", embed=self.embed, hidden=self.hidden, attention=self.attention)
        return ContextHAN(vocab, classes, self)


class ContextHAN(nn.Module):
    config_class = ContextHANConfig

    def __init__(self, vocab: int, classes: int, config: ContextHANConfig):
        super().__init__()
        embed, hidden, attention, dropout = config.embed, config.hidden, config.attention, config.dropout
        self.embedding = nn.Embedding(vocab, embed, padding_idx=0)
        nn.init.normal_(self.embedding.weight, std=config.spread)
        self.read_words = BidirectionalRNN(embed, hidden)
        self.onward, self.back = ContextPool(2 * hidden, attention), ContextPool(2 * hidden, attention)
        self.read_sentences, self.sentences = BidirectionalRNN(4 * hidden, hidden), AttentionPooling(2 * hidden, attention)
        self.dropout = Dropout(dropout)
        self.head = nn.Linear(2 * hidden, classes)

    def forward(self, ids: Tensor, mask: Tensor, sentences: Tensor) -> ClassifierOutput:
        """ids, mask and the number of each token's sentence in its document, each (b, n)."""
        groups = sentence_groups(mask, sentences)
        words = [self.head.weight.new_zeros(0, self.head.in_features)]
        for group in groups:
            x = self.dropout(self.embedding(ids.flatten()[group.tokens]))  # (rows, words, embed)
            words.append(self.read_words(x, group.lengths)[group.mask])
        h, steps = torch.cat(words), in_order(groups)  # (tokens, 2 · hidden), sentence after sentence
        vectors = torch.cat((self.onward(h, steps), self.back(h, steps[::-1]).flip(1)), -1)
        h = self.read_sentences(self.dropout(vectors), groups.counts)
        real = torch.arange(groups.most, device=ids.device) < groups.counts[:, None]
        document, _ = self.sentences(h, real, QueryKeyPositions(range(1), range(groups.most), "document", "sentences"))
        return ClassifierOutput(self.head(self.dropout(document[:, 0])))


class ContextPool(nn.Module):
    """Reads sentence after sentence, each in the light of those already read: (tokens, dim) to (b, steps, dim)."""

    def __init__(self, dim: int, hidden: int):
        super().__init__()
        self.word, self.context = nn.Linear(dim, hidden, bias=False), nn.Linear(dim, hidden)  # W_s, W_c and b
        self.gate_word, self.gate_context = nn.Linear(dim, hidden), nn.Linear(dim, hidden, bias=False)  # W_1, b_λ, W_2
        self.score = nn.Linear(hidden, 1, bias=False)  # u
        self.attend = Attend()

    def forward(self, h: Tensor, steps: list[Step]) -> Tensor:
        parts = torch.cat((h, self.word(h), self.gate_word(h)), -1)
        # all steps are gathered at once: a gather in each would fill the gradient of all words each time
        tiles = parts[torch.cat([step.words.flatten() for step in steps])].split([step.words.numel() for step in steps])
        sizes = [h.shape[1], self.word.out_features, self.word.out_features]
        total, count = h.new_zeros(len(steps[0].words), h.shape[1]), h.new_zeros(len(steps[0].words), 1)
        read = []
        for step, tile in zip(steps, tiles, strict=True):
            value, word, gate = tile.view(*step.words.shape, sum(sizes)).split(sizes, -1)  # (b, w, ·)
            c = (total / count.clamp(min=1))[:, None]
            own = torch.sigmoid(gate + self.gate_context(c))  # λ, (b, w, hidden)
            mixed = own * word + (1 - own) * (c @ self.context.weight.T) + self.context.bias
            logits = self.score(torch.tanh(mixed)).transpose(1, 2)[:, None]  # (b, 1, 1, w)
            places = QueryKeyPositions(range(step.number, step.number + 1), step.at, "sentences", "tokens")
            read.append(self.attend(DenseScores(logits, places), value[:, None], Mask(key_mask=step.mask))[:, 0, 0])
            total, count = total + read[-1], count + step.mask.any(1, keepdim=True)
        return torch.stack(read, 1)


@dataclass(frozen=True)
class Step:
    """The sentence of one number in each document, (b, w): its words among all words, and their places; a document
    without such a sentence has nothing real here, and so reads zero."""

    number: int
    words: Tensor
    at: Tensor
    mask: Tensor


def in_order(groups: Groups) -> list[Step]:
    """Steps through the sentences of all documents at once, when the words of all groups stand one after another."""
    b, s = len(groups.counts), groups.most
    starts, lengths = groups.counts.new_zeros(2, b, s)
    at, first = [groups.counts.new_zeros(1)], 0
    for group in groups:
        starts[group.document, group.sentence] = first + group.lengths.cumsum(0) - group.lengths
        lengths[group.document, group.sentence] = group.lengths
        at.append(group.at[group.mask])
        first += len(at[-1])
    place, where = torch.arange(int(lengths.max()), device=starts.device), torch.cat(at[1:] or at)
    steps = []
    for number, width in enumerate(lengths.amax(0).tolist()):
        words = (starts[:, number, None] + place[:width]).clamp(max=len(where) - 1)
        steps.append(Step(number, words, where[words], place[:width] < lengths[:, number, None]))
    return steps
