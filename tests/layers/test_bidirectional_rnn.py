"""The bidirectional RNN reads each row within its length."""

from __future__ import annotations

import pytest
import torch

from regard.errors import UserError
from regard.layers import BidirectionalRNN, reverse_padded


@pytest.mark.parametrize("cell", ["gru", "lstm"])
def test_padding_has_no_influence(cell: str):
    torch.manual_seed(0)
    rnn, x = BidirectionalRNN(3, 5, cell), torch.randn(2, 6, 3)
    lengths = torch.tensor([6, 4])
    out = rnn(x, lengths)
    x[1, 4:] = 1e9
    assert torch.equal(rnn(x, lengths)[1, :4], out[1, :4])
    assert torch.allclose(rnn(x[1:, :4], lengths[1:])[0], out[1, :4], atol=1e-6)


def test_rows_are_reversed_within_their_length():
    x = torch.arange(6.0).view(1, 6, 1)
    assert reverse_padded(x, torch.tensor([4])).flatten().tolist() == [3, 2, 1, 0, 4, 5]


def test_an_unknown_cell_is_an_error():
    with pytest.raises(UserError, match="unknown cell 'rnn'; known: gru, lstm"):
        BidirectionalRNN(3, 5, "rnn")
