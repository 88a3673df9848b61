"""The contract of a kind of position: it does one of three things, and only where things stand decides what."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention.positions import COMMON, POSITIONS
from regard.attention.positions.position_encoding import PositionEncoding
from regard.attention.token_positions import Grid, PositionIds
from regard.config import specs
from regard.errors import UserError
from regard.testing.mechanism_case import BATCH, HEADS, QUERIES, identical, noise, same, shake, width
from regard.testing.save_load import through_a_file

KINDS = ("none", "embed", "rotate", "bias")
START = 5

Build = Callable[[], PositionEncoding]


def use(
    place: PositionEncoding,
    position_ids: PositionIds,
    k_pos: PositionIds | None = None,
    dtype: torch.dtype = torch.float64,
) -> Tensor:
    """What these positions do, whatever that is: places are along dimension -2."""
    n = position_ids.shape[-1] if isinstance(position_ids, Tensor) else len(position_ids)
    # The same numbers stand at every place, so that a part of a longer stretch can be compared.
    if place.kind == "embed":
        return place.embed(noise(BATCH, 1, place.dim, seed=1).expand(-1, n, -1).to(dtype), position_ids)
    if place.kind == "rotate":
        return place.rotate(
            noise(BATCH, HEADS, 1, place.dim // HEADS, seed=1).expand(-1, -1, n, -1).to(dtype), position_ids
        )
    if place.kind == "bias":
        bias = place.bias(position_ids, position_ids if k_pos is None else k_pos)
        assert bias is not None, "positions of the kind 'bias' give no bias"
        return bias
    return torch.zeros(n, 1, dtype=dtype)


def assert_complete(build: Build) -> None:
    """The class says what it is, and does one of the three things and leaves the other two alone."""
    place = build()
    cls, x = type(place), noise(BATCH, QUERIES, place.dim, seed=1)
    assert isinstance(place, PositionEncoding), f"{cls.__name__} is no subclass of regard's PositionEncoding"
    for word in ("name", "title"):
        assert getattr(cls, word, None), f"{cls.__name__} has no {word}: give it a class attribute `{word} = ...`"
    kind = getattr(cls, "kind", None)
    assert kind in KINDS, f"{cls.__name__}.kind is {kind!r}; wanted one of {', '.join(KINDS)}"
    heads, position_ids = x.view(BATCH, QUERIES, HEADS, -1).transpose(1, 2), range(QUERIES)
    assert kind == "embed" or torch.equal(place.embed(x, position_ids), x), (
        f"kind is {kind!r}, yet embed() does something"
    )
    assert kind == "rotate" or torch.equal(place.rotate(heads, position_ids), heads), (
        f"kind is {kind!r}, yet rotate() acts"
    )
    assert kind == "bias" or place.bias(position_ids, position_ids) is None, f"kind is {kind!r}, yet there is a bias"


def assert_shapes(build: Build) -> None:
    """Shapes and precision stay as they are; a bias broadcasts to (b, h, q, k)."""
    place, other = build(), range(13)
    if place.kind == "bias":
        shape, whole = tuple(use(place, range(QUERIES), other).shape), (BATCH, HEADS, QUERIES, len(other))
        fits = len(shape) == 4 and shape[2:] == whole[2:] and shape[0] in (1, BATCH) and shape[1] in (1, HEADS)
        assert fits, f"a bias of shape {shape} does not broadcast to (b, h, q, k) = {whole}"
    elif place.kind != "none":
        single = build().float()
        for dtype, one in ((torch.float64, place), (torch.float32, single)):
            out = use(one, range(QUERIES), dtype=dtype)
            assert out.dtype == dtype, f"{dtype} in, {out.dtype} out"
            wanted = (
                (BATCH, QUERIES, place.dim) if place.kind == "embed" else (BATCH, HEADS, QUERIES, place.dim // HEADS)
            )
            assert out.shape == wanted, f"shape {tuple(out.shape)}, wanted {wanted}"


def assert_places(build: Build) -> None:
    """A range, a tensor (n,) and a tensor (b, n) of the same places are the same; so is a part of a longer stretch."""
    place = build()
    if place.kind == "none":
        return
    stretch = range(START, START + QUERIES)
    position_ids = torch.arange(START, START + QUERIES)
    out = use(place, stretch)
    same(use(place, position_ids), out, "places in a tensor (n,) differ from the same range", atol=1e-6)
    each = use(place, position_ids.expand(BATCH, -1))
    same(each, out.expand_as(each), "places in a tensor (b, n) differ from the same range", atol=1e-6)
    longer = use(place, range(START + QUERIES + 3))
    part = longer[..., START : START + QUERIES, :]
    part = part[..., START : START + QUERIES] if place.kind == "bias" else part
    same(out, part, "a stretch that starts later differs from the same places of a longer one: is the offset ignored?")


def assert_places_matter(build: Build) -> None:
    """Other places give something else, and a rotation keeps lengths."""
    place = build()
    if place.kind == "none":
        return
    far, near = (
        use(place, range(9, 10), torch.tensor([position_ids]))
        if place.kind == "bias"
        else use(place, range(position_ids, position_ids + 1))
        for position_ids in (1, 8)
    )
    assert not torch.allclose(near, far), "places near and far are treated alike"
    if place.kind == "rotate":
        lengths = use(place, range(QUERIES)).norm(dim=-1)
        same(lengths, lengths[..., :1].expand_as(lengths), "turning changes the length of queries and keys")


def assert_everywhere(build: Build) -> None:
    """Far places and grids are either defined or an error in words, never an IndexError or NaN."""
    place = build()
    if place.kind == "none":
        return
    for position_ids in (torch.tensor([3, 10**6]), Grid(3, 5)):
        try:
            out = use(place, position_ids)
        except UserError:
            continue
        assert bool(out.isfinite().all()), f"places {position_ids} give numbers that are not finite"


def assert_gradients(build: Build) -> None:
    """What is trained gets a gradient, and is saved and loaded."""
    place, other = build(), build()
    if list(place.parameters()):
        use(place, range(QUERIES)).square().sum().backward()
        for name, parameter in place.named_parameters():
            fine = parameter.grad is not None and bool(parameter.grad.isfinite().all() & (parameter.grad != 0).any())
            assert fine, f"{name} gets no gradient"
        with torch.no_grad():
            for parameter in other.parameters():
                parameter.zero_()
    through_a_file(place, other)
    if place.kind != "none":
        identical(use(other, range(QUERIES)), use(place, range(QUERIES)), "saved and loaded positions differ")


POSITION_CHECKS: dict[str, Callable[[Build], None]] = {
    "complete": assert_complete,
    "shapes": assert_shapes,
    "places": assert_places,
    "places matter": assert_places_matter,
    "everywhere": assert_everywhere,
    "gradients": assert_gradients,
}


def builder(name_or_class: str | type[PositionEncoding], **options: Any) -> Build:
    """Makes the positions anew, at the first width that they take, in float64."""
    if isinstance(name_or_class, str):
        name, given = specs.parse(name_or_class)
        cls = specs.find("positions", name, POSITIONS)
        options = specs.typed("positions", name, cls, {**given, **options}, COMMON)
    else:
        cls = name_or_class
    dim = width(cls, **options)

    def build() -> PositionEncoding:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            place: nn.Module = cls(dim, HEADS, **options).double()
            shake(place)
        return place

    return build


def check_positions(name_or_class: str | type[PositionEncoding], **options: Any) -> None:
    """Hold a kind of position to the contract; AssertionError says what broke."""
    build = builder(name_or_class, **options)
    for name, check in POSITION_CHECKS.items():
        try:
            check(build)
        except AssertionError as problem:
            who = name_or_class if isinstance(name_or_class, str) else name_or_class.__name__
            raise AssertionError(f"{who} positions break the contract ({name}): {problem}") from None
