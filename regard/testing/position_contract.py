"""The contract of position encodings: one of embed, rotate and bias has an effect, which depends on positions only."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from regard.attention.positions import COMMON, POSITIONS
from regard.attention.positions.position_encoding import PositionEncoding
from regard.attention.token_positions import Grid, PositionIds
from regard.config import specs
from regard.errors import UserError
from regard.testing.mechanism_case import (
    BATCH,
    HEADS,
    QUERIES,
    assert_close,
    assert_identical,
    assert_useful_gradient,
    noise,
    perturb,
    smallest_width,
)
from regard.testing.save_load import copy_through_file

KINDS = ("none", "embed", "rotate", "bias")
START = 5

Build = Callable[[], PositionEncoding]


def encode(
    encoding: PositionEncoding, q_pos: PositionIds, k_pos: PositionIds | None = None, dtype: torch.dtype = torch.float64
) -> Tensor:
    """The result of embed, rotate or bias, whichever the encoding implements. Dimension -2 is the position."""
    n = q_pos.shape[-1] if isinstance(q_pos, Tensor) else len(q_pos)
    # The input is the same at every position, so that parts of a longer sequence can be compared.
    if encoding.kind == "embed":
        return encoding.embed(noise(BATCH, 1, encoding.dim, seed=1).expand(-1, n, -1).to(dtype), q_pos)
    if encoding.kind == "rotate":
        x = noise(BATCH, HEADS, 1, encoding.dim // HEADS, seed=1).expand(-1, -1, n, -1)
        return encoding.rotate(x.to(dtype), q_pos)
    if encoding.kind == "bias":
        bias = encoding.bias(q_pos, q_pos if k_pos is None else k_pos)
        assert bias is not None, "the kind is 'bias', but bias() returns None"
        return bias
    return torch.zeros(n, 1, dtype=dtype)


def assert_complete(build: Build) -> None:
    """The class has all attributes, and only the method of its kind has an effect."""
    encoding = build()
    cls, x = type(encoding), noise(BATCH, QUERIES, encoding.dim, seed=1)
    assert isinstance(encoding, PositionEncoding), f"{cls.__name__} is not a subclass of regard's PositionEncoding"
    for attribute in ("name", "title"):
        assert getattr(cls, attribute, None), (
            f"{cls.__name__} has no {attribute}: give it a class attribute `{attribute} = ...`"
        )
    kind = getattr(cls, "kind", None)
    assert kind in KINDS, f"{cls.__name__}.kind is {kind!r}; expected one of {', '.join(KINDS)}"
    heads, ids = x.view(BATCH, QUERIES, HEADS, -1).transpose(1, 2), range(QUERIES)
    assert kind == "embed" or torch.equal(encoding.embed(x, ids), x), f"the kind is {kind!r}, but embed() changes x"
    rotated = encoding.rotate(heads, ids)
    assert kind == "rotate" or torch.equal(rotated, heads), f"the kind is {kind!r}, but rotate() changes x"
    assert kind == "bias" or encoding.bias(ids, ids) is None, f"the kind is {kind!r}, but bias() is not None"


def assert_shapes(build: Build) -> None:
    """Shape and dtype are those of the input; a bias broadcasts to (b, h, q, k)."""
    encoding, keys = build(), range(13)
    if encoding.kind == "bias":
        shape, full = tuple(encode(encoding, range(QUERIES), keys).shape), (BATCH, HEADS, QUERIES, len(keys))
        fits = len(shape) == 4 and shape[2:] == full[2:] and shape[0] in (1, BATCH) and shape[1] in (1, HEADS)
        assert fits, f"a bias of shape {shape} does not broadcast to (b, h, q, k) = {full}"
    elif encoding.kind != "none":
        embedded, rotated = (BATCH, QUERIES, encoding.dim), (BATCH, HEADS, QUERIES, encoding.dim // HEADS)
        expected = embedded if encoding.kind == "embed" else rotated
        for dtype, module in ((torch.float64, encoding), (torch.float32, build().float())):
            out = encode(module, range(QUERIES), dtype=dtype)
            assert out.dtype == dtype, f"{dtype} input gives {out.dtype} output"
            assert out.shape == expected, f"shape {tuple(out.shape)}, expected {expected}"


def assert_position_ids(build: Build) -> None:
    """A range, a tensor (n,) and a tensor (b, n) of the same positions agree, and so does a part of a longer range."""
    encoding = build()
    if encoding.kind == "none":
        return
    ids = torch.arange(START, START + QUERIES)
    out = encode(encoding, range(START, START + QUERIES))
    assert_close(encode(encoding, ids), out, "positions as a tensor (n,) differ from the same range", atol=1e-6)
    batch = encode(encoding, ids.expand(BATCH, -1))
    message = "positions as a tensor (b, n) differ from the same range"
    assert_close(batch, out.expand_as(batch), message, atol=1e-6)
    longer = encode(encoding, range(START + QUERIES + 3))
    part = longer[..., START : START + QUERIES, :]
    part = part[..., START : START + QUERIES] if encoding.kind == "bias" else part
    assert_close(out, part, "a range with a later start differs from a part of a longer range: is the start ignored?")


def assert_positions_matter(build: Build) -> None:
    """Other positions give another result, and a rotation keeps the norm."""
    encoding = build()
    if encoding.kind == "none":
        return
    first, second = (
        encode(encoding, range(9, 10), torch.tensor([i]))
        if encoding.kind == "bias"
        else encode(encoding, range(i, i + 1))
        for i in (1, 8)
    )
    assert not torch.allclose(first, second), "positions 1 and 8 give the same result"
    if encoding.kind == "rotate":
        norms = encode(encoding, range(QUERIES)).norm(dim=-1)
        assert_close(norms, norms[..., :1].expand_as(norms), "rotation changes the norm of queries and keys")


def assert_large_positions(build: Build) -> None:
    """Large positions and grids are supported, or raise UserError; never IndexError or NaN."""
    encoding = build()
    if encoding.kind == "none":
        return
    for position_ids in (torch.tensor([3, 10**6]), Grid(3, 5)):
        try:
            out = encode(encoding, position_ids)
        except UserError:
            continue
        assert bool(out.isfinite().all()), f"the result for positions {position_ids} is not finite"


def assert_gradients(build: Build) -> None:
    """Parameters get a gradient, and can be saved and loaded."""
    encoding, other = build(), build()
    if list(encoding.parameters()):
        encode(encoding, range(QUERIES)).square().sum().backward()
        for name, parameter in encoding.named_parameters():
            assert_useful_gradient(name, parameter.grad)
        with torch.no_grad():
            for parameter in other.parameters():
                parameter.zero_()
    copy_through_file(encoding, other)
    if encoding.kind != "none":
        loaded = encode(other, range(QUERIES))
        assert_identical(loaded, encode(encoding, range(QUERIES)), "saved and loaded positions differ")


POSITION_CHECKS: dict[str, Callable[[Build], None]] = {
    "complete": assert_complete,
    "shapes": assert_shapes,
    "position ids": assert_position_ids,
    "positions matter": assert_positions_matter,
    "large positions": assert_large_positions,
    "gradients": assert_gradients,
}


def builder(name_or_class: str | type[PositionEncoding], **options: Any) -> Build:
    """A function that builds the positions with the smallest width that they support, in float64."""
    if isinstance(name_or_class, str):
        name, spec_options = specs.parse_spec(name_or_class)
        cls = POSITIONS.find(name)
        options = specs.convert_options("positions", name, cls, {**spec_options, **options}, COMMON)
    else:
        cls = name_or_class
    dim = smallest_width(cls, **options)

    def build() -> PositionEncoding:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            encoding = cls(dim, HEADS, **options).double()
            perturb(encoding)
        return encoding

    return build


def check_positions(name_or_class: str | type[PositionEncoding], **options: Any) -> None:
    """Check that a position encoding fulfills the contract. AssertionError says what failed.

    Args:
        name_or_class: A registered name with options, such as "learned:length=64", or a class.
        **options: Options of the encoding.
    """
    build = builder(name_or_class, **options)
    for name, check in POSITION_CHECKS.items():
        try:
            check(build)
        except AssertionError as error:
            positions = name_or_class if isinstance(name_or_class, str) else name_or_class.__name__
            raise AssertionError(f"{positions} positions break the contract ({name}): {error}") from None
