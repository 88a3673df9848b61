"""Sinusoidal positions equal the formula of the paper, and a shift by k is a rotation."""

import math

import pytest
import torch

from regard.attention.positions import build
from regard.attention.token_positions import Grid
from regard.errors import UserError

DIM = 14
NAMES = ["sinusoidal", "sinusoidal-halves"]


def pe(name, position_ids):
    """The encoding of these positions, in float64."""
    return build(name, DIM, 2).table(position_ids)


def test_the_papers_formula():
    """PE(pos, 2i) = sin(pos / 10000^(2i/d)), PE(pos, 2i+1) = cos of the same."""
    result = build("sinusoidal", DIM, 2).embed(torch.zeros(1, 300, DIM), range(300))[0]
    for pos in (0, 1, 17, 299):
        for i in range(DIM // 2):
            angle = pos / 10_000 ** (2 * i / DIM)
            assert float(result[pos, 2 * i]) == pytest.approx(math.sin(angle), abs=1e-6)
            assert float(result[pos, 2 * i + 1]) == pytest.approx(math.cos(angle), abs=1e-6)


def test_halves_are_the_same_numbers_with_sines_first():
    position_ids = torch.arange(29)
    pairs, halves = pe("sinusoidal", position_ids), pe("sinusoidal-halves", position_ids)
    assert torch.equal(halves, torch.cat((pairs[:, 0::2], pairs[:, 1::2]), -1))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("k", [1, 5, -3, 1000, 0.5])
def test_shift_moves_every_position_by_k(name, k):
    position_ids = torch.tensor([0.0, 1.0, 2.0, 13.0, 511.0, 4999.0])
    move = build(name, DIM, 2).shift_matrix(k)
    torch.testing.assert_close(pe(name, position_ids) @ move.t(), pe(name, position_ids + k), rtol=0, atol=1e-9)
    assert (
        pe(name, position_ids + k) - pe(name, position_ids)
    ).abs().max() > 0.1  # else there would be nothing to move


@pytest.mark.parametrize("name", NAMES)
def test_shift_is_a_rotation_and_shifts_add_up(name):
    encoding = build(name, DIM, 2)
    move, eye = encoding.shift_matrix(7), torch.eye(DIM, dtype=torch.float64)
    torch.testing.assert_close(move @ move.t(), eye)
    assert float(torch.linalg.det(move)) == pytest.approx(1)
    torch.testing.assert_close(move @ encoding.shift_matrix(-7), eye)
    torch.testing.assert_close(torch.linalg.matrix_power(encoding.shift_matrix(1), 7), move)
    torch.testing.assert_close(encoding.shift_matrix(3) @ encoding.shift_matrix(4), move)


def test_the_sign_of_the_sines():
    """[[cos kω, sin kω], [-sin kω, cos kω]] for the (sin, cos) order, block by block; the first ω is 1."""
    move = build("sinusoidal", DIM, 2).shift_matrix(2)
    block = [[math.cos(2), math.sin(2)], [-math.sin(2), math.cos(2)]]
    torch.testing.assert_close(move[:2, :2], torch.tensor(block, dtype=torch.float64))
    assert not move[:2, 2:].any()
    assert not move[2:, :2].any()


@pytest.mark.parametrize("name", NAMES)
def test_every_position_is_distinct(name):
    table = pe(name, torch.arange(3000))
    assert float((torch.cdist(table, table) + 9 * torch.eye(3000)).min()) > 0.01


@pytest.mark.parametrize("name", NAMES)
def test_all_types_of_position_ids_agree(name):
    encoding, x = build(name, DIM, 2), torch.randn(2, 6, DIM)
    for start in (0, 1000, -4):  # negative positions occur with left padding
        plain = encoding.embed(x, range(start, start + 6))
        position_ids = torch.arange(start, start + 6)
        assert plain.shape == x.shape
        torch.testing.assert_close(encoding.embed(x, position_ids), plain)
        torch.testing.assert_close(encoding.embed(x, position_ids.expand(2, -1)), plain)
    torch.testing.assert_close(encoding.embed(x, Grid(2, 3)), encoding.embed(x, range(6)))


@pytest.mark.parametrize("name", NAMES)
def test_odd_widths_are_an_error(name):
    with pytest.raises(UserError, match="need an even width; given dim=7"):
        build(name, 7, 1)


@pytest.mark.parametrize("name", [*NAMES, "axial", "rotary"])
def test_a_base_of_zero_is_an_error(name):
    encoding, x = build(f"{name}:base=0", 12, 1), torch.randn(1, 3, 12)
    with pytest.raises(UserError, match="base of positions must be greater than 0; given 0"):
        encoding.rotate(encoding.embed(x, range(3))[:, None], range(3))
