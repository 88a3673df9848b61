"""Two recurrent decoders with attention and one interface: all steps of a known target at once, or one step.

    InputFeedingDecoder  V[t] = attend(h[t-1])      h[t] = CELL(h[t-1], V[t], e[w_t])
    PlainDecoder         h[t] = CELL(h[t-1], e[w_t])      V[t] = attend(h[t])
    both                 o[t] = tanh(W [h[t]; V[t]; e[w_t]])

With input feeding (Bahdanau et al. 2015, section 3.1 and A.2) the attended context enters the state, so a target is
processed step by step. The plain decoder (Luong et al. 2015, section 3, without input feeding) runs one fused recurrent
network over the whole target and attends from all steps at once. In both, the weights of step t explain the token that
is predicted from it, w_{t+1}.

States are (layers, b, hidden), as in torch's recurrent networks; an LSTM has a second one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from regard.attention.kv_cache import KVCache
from regard.layers import MultiHeadAttention
from regard.layers.bidirectional_rnn import CELLS
from regard.layers.cost_formulas import PartCosts, attention_cost, linear_cost, matmul_cost, num_params, rnn_costs
from regard.layers.dropout import Dropout
from regard.layers.typed_module_list import TypedModuleList

State = tuple[Tensor, ...]
"""h, or h and c of an LSTM."""

STEP_CELLS = {"gru": nn.GRUCell, "lstm": nn.LSTMCell}


class RNNDecoder(nn.Module):
    """What both decoders share.

    Args:
        attention: Attention from the decoder's state to the source.
        dropout: Dropout on states and output.
    """

    out: nn.Linear

    def __init__(self, attention: MultiHeadAttention, dropout: float):
        super().__init__()
        self.attention, self.dropout = attention, Dropout(dropout)
        self.hidden = attention.mechanism.dim
        self.context_width = attention.mechanism.heads * attention.mechanism.value_width

    def attend(self, states: Tensor, source: KVCache, position: int) -> Tensor:
        """Context of one step.

        Args:
            states: (b · beams, hidden). The beams of a source are queries of one row.
            source: Keys and values of b sources.
            position: The number of the step.
        """
        queries = states.view(len(source.keys), -1, states.shape[-1])
        position_ids = range(position, position + 1)
        return self.attention(queries, source, position_ids=position_ids, key_axis="source").flatten(0, 1)

    def output(self, states: Tensor, context: Tensor, words: Tensor) -> Tensor:
        """o[t] (..., dim) from state, context and embedded token."""
        return self.dropout(torch.tanh(self.out(torch.cat((self.dropout(states), context, words), -1))))


class PlainDecoder(RNNDecoder):
    """The attended context does not enter the state."""

    def __init__(self, dim: int, attention: MultiHeadAttention, cell: str, layers: int, dropout: float):
        super().__init__(attention, dropout)
        dropout = dropout if layers > 1 else 0.0  # torch applies it between layers only
        self.rnn = CELLS[cell](dim, self.hidden, layers, batch_first=True, dropout=dropout)
        self.out = nn.Linear(self.hidden + self.context_width + dim, dim)

    def forward(self, words: Tensor, source: KVCache, state: State) -> tuple[Tensor, State]:
        """Embedded tokens (b, n, dim) to outputs (b, n, dim) and the last state."""
        states, state = self._run_rnn(words, state)
        context = self.attention(self.dropout(states), source, key_axis="source")
        return self.output(states, context, words), state

    def step(self, words: Tensor, source: KVCache, state: State, position: int) -> tuple[Tensor, State]:
        """One embedded token of each target, (b, dim), to its output (b, dim) and the next state."""
        states, state = self._run_rnn(words[:, None], state)
        return self.output(states[:, 0], self.attend(states[:, 0], source, position), words), state

    def _run_rnn(self, words: Tensor, state: State) -> tuple[Tensor, State]:
        states, last = self.rnn(words, state if isinstance(self.rnn, nn.LSTM) else state[0])
        return states, last if isinstance(last, tuple) else (last,)

    def cost_parts(self, n: int, m: int) -> PartCosts:
        """The cost by formula of n steps with a source of m positions."""
        yield from rnn_costs("decoder", self.rnn, n, has_initial_state=True)
        yield attention_cost("attention", self.attention, n, m)
        yield linear_cost("decoder.out", self.out, n)


class InputFeedingDecoder(RNNDecoder):
    """The attended context enters the state."""

    def __init__(self, dim: int, attention: MultiHeadAttention, cell: str, layers: int, dropout: float):
        super().__init__(attention, dropout)
        first_width = dim + self.context_width
        self.cells = TypedModuleList[nn.RNNCellBase](
            STEP_CELLS[cell](first_width if i == 0 else self.hidden, self.hidden) for i in range(layers)
        )
        self.out = nn.Linear(self.hidden + self.context_width + dim, dim)

    def forward(self, words: Tensor, source: KVCache, state: State) -> tuple[Tensor, State]:
        """Embedded tokens (b, n, dim) to outputs (b, n, dim) and the last state."""
        states, contexts = [], []
        for position, word in enumerate(words.unbind(1)):
            context, state = self._next_state(word, source, state, position)
            states.append(state[0][-1])
            contexts.append(context)
        return self.output(torch.stack(states, 1), torch.stack(contexts, 1), words), state

    def step(self, words: Tensor, source: KVCache, state: State, position: int) -> tuple[Tensor, State]:
        """One embedded token of each target, (b, dim), to its output (b, dim) and the next state."""
        context, state = self._next_state(words, source, state, position)
        return self.output(state[0][-1], context, words), state

    def _next_state(self, word: Tensor, source: KVCache, state: State, position: int) -> tuple[Tensor, State]:
        """The context that h[t-1] attends to, and the state after it and the token."""
        context = self.attend(state[0][-1], source, position)
        x, layer_states = torch.cat((word, context), -1), []
        for i, cell in enumerate(self.cells):
            previous = [part[i] for part in state]
            new: Sequence[Tensor] | Tensor = cell(x, tuple(previous) if len(previous) > 1 else previous[0])
            layer_states.append((new,) if isinstance(new, Tensor) else new)
            x = self.dropout(layer_states[-1][0])
        return context, tuple(torch.stack(parts) for parts in zip(*layer_states, strict=True))

    def cost_parts(self, n: int, m: int) -> PartCosts:
        """The cost by formula: the source is projected once and attended to n times by one query."""
        for i, cell in enumerate(self.cells):
            rows, width = cell.weight_ih.shape
            cost = matmul_cost(f"decoder.{i}", n, width + cell.hidden_size, rows, num_params(cell))
            yield replace(cost, steps=n, path=n)
        projection, one = (attention_cost("attention", self.attention, queries, m) for queries in (0, 1))
        flops = projection.flops + n * (one.flops - projection.flops)
        backward = projection.backward + n * (one.backward - projection.backward)
        yield replace(one, flops=flops, backward=backward, memory=n * one.memory, steps=n)
        yield linear_cost("decoder.out", self.out, n)
