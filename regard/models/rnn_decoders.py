"""Two recurrent decoders with attention, each with the same words: all steps of a known target, or one step.

    Fed    V[t] = attend(h[t-1])      h[t] = CELL(h[t-1], V[t], e[w_t])      o[t] = tanh(W [h[t]; V[t]; e[w_t]])
    Plain  h[t] = CELL(h[t-1], e[w_t])      V[t] = attend(h[t])              o[t] = tanh(W [h[t]; V[t]; e[w_t]])

Fed (Bahdanau et al. 2015, section 3.1 and A.2) lets what was attended enter the state, so a target is read step by
step. Plain (Luong et al. 2015, section 3, without input feeding) reads all of it in one fused net and attends to all
steps at once. In both, the weights of step t explain the word that is said after it, w_{t+1}.

States are (layers, b, hidden), as torch's nets have them; an LSTM has a second one.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from regard.attention.kv_cache import KVCache
from regard.layers import MultiHeadAttention
from regard.layers.bidirectional_rnn import CELLS
from regard.layers.dropout import Dropout

State = tuple[Tensor, ...]
"""h, or h and c of an LSTM."""

ONE = {"gru": nn.GRUCell, "lstm": nn.LSTMCell}


class Plain(nn.Module):
    def __init__(self, dim: int, attention: MultiHeadAttention, cell: str, layers: int, dropout: float):
        super().__init__()
        hidden, width = attention.mechanism.dim, attention.mechanism.heads * attention.mechanism.value_width
        self.attention, self.dropout = attention, Dropout(dropout)
        self.cell = CELLS[cell](dim, hidden, layers, batch_first=True, dropout=dropout if layers > 1 else 0.0)
        self.join = nn.Linear(hidden + width + dim, dim)

    def forward(self, words: Tensor, source: KVCache, start: State) -> tuple[Tensor, State]:
        """Embedded words (b, n, dim) to what is to be said after each (b, n, dim), and the state to go on from."""
        given = start if isinstance(self.cell, nn.LSTM) else start[0]
        states, last = self.cell(words, given)
        context = self.attention(self.dropout(states), source, columns="source")
        return _said(self, states, context, words), last if isinstance(last, tuple) else (last,)

    def step(self, words: Tensor, source: KVCache, state: State, at: int) -> tuple[Tensor, State]:
        """One word of each target, (b, dim) to (b, dim)."""
        given = state if isinstance(self.cell, nn.LSTM) else state[0]
        h, last = self.cell(words[:, None], given)
        context = _attended(self.attention, h[:, 0], source, at)
        return _said(self, h[:, 0], context, words), last if isinstance(last, tuple) else (last,)


class Fed(nn.Module):
    def __init__(self, dim: int, attention: MultiHeadAttention, cell: str, layers: int, dropout: float):
        super().__init__()
        hidden, width = attention.mechanism.dim, attention.mechanism.heads * attention.mechanism.value_width
        self.attention, self.dropout = attention, Dropout(dropout)
        self.cells = nn.ModuleList(ONE[cell](dim + width if i == 0 else hidden, hidden) for i in range(layers))
        self.join = nn.Linear(hidden + width + dim, dim)

    def forward(self, words: Tensor, source: KVCache, start: State) -> tuple[Tensor, State]:
        state, states, contexts = start, [], []
        for at, word in enumerate(words.unbind(1)):
            context, state = self._next(word, source, state, at)
            states.append(state[0][-1])
            contexts.append(context)
        return _said(self, torch.stack(states, 1), torch.stack(contexts, 1), words), state

    def step(self, words: Tensor, source: KVCache, state: State, at: int) -> tuple[Tensor, State]:
        context, state = self._next(words, source, state, at)
        return _said(self, state[0][-1], context, words), state

    def _next(self, word: Tensor, source: KVCache, state: State, at: int) -> tuple[Tensor, State]:
        """What h[t-1] attends to, and the state that this and the word lead to."""
        context = _attended(self.attention, state[0][-1], source, at)
        x, found = torch.cat((word, context), -1), []
        for i, cell in enumerate(self.cells):
            before = [part[i] for part in state]
            after: Sequence[Tensor] | Tensor = cell(x, tuple(before) if len(before) > 1 else before[0])
            found.append((after,) if isinstance(after, Tensor) else after)
            x = self.dropout(found[-1][0])
        return context, tuple(torch.stack(parts) for parts in zip(*found, strict=True))


def _attended(attention: MultiHeadAttention, states: Tensor, source: KVCache, at: int) -> Tensor:
    """States (b · w, hidden) of w beams for each of b sources, which they regard together."""
    queries = states.view(len(source.keys), -1, states.shape[-1])
    return attention(queries, source, position_ids=range(at, at + 1), key_axis="source").flatten(0, 1)


def _said(decoder: Plain | Fed, states: Tensor, context: Tensor, words: Tensor) -> Tensor:
    return decoder.dropout(torch.tanh(decoder.join(torch.cat((decoder.dropout(states), context, words), -1))))


DECODERS: dict[bool, type[Plain] | type[Fed]] = {False: Plain, True: Fed}
"""By whether what was attended is fed back."""
