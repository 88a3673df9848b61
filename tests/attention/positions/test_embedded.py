"""Positions that are added to the embeddings: learned and axial."""

import pytest
import torch

from regard.attention.positions import build
from regard.attention.positions.sinusoidal import sinusoidal_table
from regard.attention.token_positions import Grid
from regard.errors import UserError

DIM = 20


def test_learned_is_a_row_for_each_position():
    learned = build("learned:length=13", DIM, 2)
    x = torch.randn(2, 5, DIM)
    torch.testing.assert_close(learned.embed(x, range(8, 13)), x + learned.table[8:13])
    position_ids = torch.tensor([[0, 3, 3, 12, 1], [5, 4, 3, 2, 1]])
    torch.testing.assert_close(learned.embed(x, position_ids), x + learned.table[position_ids])
    torch.testing.assert_close(learned.embed(x, position_ids[0]), x + learned.table[position_ids[0]])


def test_gradients_of_a_repeated_position_add_up():
    learned = build("learned:length=7", 4, 2)
    position_ids = torch.tensor([[0, 3, 3], [3, 6, 0]])
    learned.embed(torch.zeros(2, 3, 4), position_ids).sum().backward()
    assert learned.table.grad is not None
    assert learned.table.grad[:, 0].tolist() == [2, 0, 0, 3, 0, 0, 1]


@pytest.mark.parametrize("position_ids", [range(14), range(13, 14), torch.tensor([[0, 13]]), Grid(2, 7)])
def test_past_the_length_is_an_error(position_ids):
    with pytest.raises(UserError, match=r"learned positions: position 13 is out of range 0 to 12"):
        build("learned:length=13", DIM, 2).embed(torch.randn(1, 1, DIM), position_ids)


def test_a_negative_position_is_an_error():
    with pytest.raises(UserError, match=r"position -1 is out of range.*count from 0"):
        build("learned:length=13", DIM, 2).embed(torch.randn(1, 2, DIM), torch.tensor([-1, 0]))
    with pytest.raises(UserError, match="length must be at least 1"):
        build("learned:length=0", DIM, 2)


@pytest.mark.parametrize("learned", [False, True])
def test_axial_encodes_row_and_column(learned):
    axial = build(f"axial:learned={learned}", DIM, 2)
    x = torch.randn(2, 15, DIM).double()
    result = axial.embed(x, Grid(3, 5)) - x
    line = [t.double() for t in axial.tables] if learned else [sinusoidal_table(torch.arange(9), DIM // 2)] * 2
    for y in range(3):
        for column in range(5):
            expected = torch.cat((line[0][y], line[1][column]))
            torch.testing.assert_close(result[1, y * 5 + column], expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("learned", [False, True])
def test_a_sequence_is_an_image_of_height_one(learned):
    axial = build(f"axial:learned={learned}", DIM, 2)
    x = torch.randn(2, 7, DIM)
    plain = axial.embed(x, Grid(1, 7))
    torch.testing.assert_close(axial.embed(x, range(7)), plain)
    torch.testing.assert_close(axial.embed(x, torch.arange(7)), plain)
    torch.testing.assert_close(axial.embed(x, torch.arange(7).expand(2, -1)), plain)
    torch.testing.assert_close(axial.embed(x[:, 4:], range(4, 7)), plain[:, 4:])


def test_every_position_of_an_image_is_distinct():
    qk_positions = build("axial", DIM, 2).embed(torch.zeros(1, 13 * 11, DIM), Grid(13, 11))[0]
    apart = torch.cdist(qk_positions, qk_positions) + torch.eye(13 * 11) * 9
    assert float(apart.min()) > 0.05


def test_axial_bad_sizes():
    with pytest.raises(UserError, match="divisible by 4; given dim=6"):
        build("axial", 6, 2)
    with pytest.raises(UserError, match="axial positions along columns: position 6 is out of range 0 to 4"):
        build("axial:learned=true,length=5", DIM, 2).embed(torch.zeros(1, 7, DIM), Grid(1, 7))
