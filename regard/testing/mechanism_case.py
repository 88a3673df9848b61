"""One mechanism with one kind of positions, at sizes that are prime wherever they can be, so that a silent transpose
fails. Everything is drawn from a fixed seed and in float64, so a check that fails fails again.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn

from regard.attention import mechanisms
from regard.attention import positions as kinds
from regard.attention.masks import Mask
from regard.attention.mechanisms.mechanism import Mechanism
from regard.attention.positions.position_encoding import PositionEncoding
from regard.attention.scores import Attend, Scores
from regard.attention.token_positions import PositionIds
from regard.config import specs
from regard.errors import UserError
from regard.layers.multi_head_attention import MultiHeadAttention

HEADS, BATCH, QUERIES, KEYS, OTHER = 3, 2, 11, 13, 17
WIDTHS = (21, 42, 84)
"""Head widths 7, 14 and 28: the first that the positions accept (rotary pairs numbers, axial pairs pairs)."""

Formula = Callable[[Mechanism, Tensor, Tensor, Any], Tensor]


@dataclass(frozen=True)
class Case:
    """What a check is given. `formula` gives the logits of a mechanism in plain words, where there is one."""

    cls: type[Mechanism]
    positions: str = "none"
    options: dict[str, Any] = field(default_factory=dict)
    formula: Formula | None = None
    n: int = QUERIES
    m: int = KEYS

    def __str__(self) -> str:
        options = ",".join(f"{key}={value}" for key, value in self.options.items())
        return f"{getattr(self.cls, 'name', self.cls.__name__)}{':' + options if options else ''}-{self.positions}"

    @property
    def kind(self) -> str:
        return kinds.POSITIONS[self.positions].kind

    @property
    def dim(self) -> int:
        return width(kinds.POSITIONS[self.positions])

    def layer(
        self, *, dtype: torch.dtype = torch.float64, seed: int = 0, context_dim: int | None = None, dropout: float = 0.0
    ) -> MultiHeadAttention:
        """A layer whose every parameter has left its starting value, so that a bias of zero hides nothing."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            place = kinds.build(self.positions, self.dim, HEADS)
            try:
                mechanism = self.cls(self.dim, HEADS, context_dim=context_dim, positions=place, **self.options)
            except TypeError as problem:
                raise AssertionError(
                    f"{self.cls.__name__} cannot be built: {problem}. A mechanism takes (dim, heads, *, context_dim, "
                    "value_width, positions, bias), further keywords with defaults, and defines query, remember, score "
                    "and cost"
                ) from None
            layer = MultiHeadAttention(self.dim, HEADS, mechanism, dropout=dropout).to(dtype)
            shake(layer)
        return layer.eval()

    def x(self, n: int | None = None, *, b: int = BATCH, seed: int = 1, dtype: torch.dtype = torch.float64) -> Tensor:
        """A sequence (b, n, dim) that knows where it stands, where that is told at the input."""
        n = self.n if n is None else n
        return self.placed(noise(b, n, self.dim, seed=seed).to(dtype), range(n))

    def placed(self, x: Tensor, position_ids: PositionIds) -> Tensor:
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(0)
            return kinds.build(self.positions, self.dim, HEADS).to(x.dtype).embed(x, position_ids)

    def memory(self, m: int | None = None, *, width: int | None = None, seed: int = 2) -> Tensor:
        return noise(BATCH, self.m if m is None else m, width or self.dim, seed=seed)


def cases(
    name_or_class: str | type[Mechanism],
    *,
    positions: str | None = None,
    formula: Formula | None = None,
    lengths: tuple[int, int] = (QUERIES, KEYS),
    **options: Any,
) -> list[Case]:
    """A case for each kind of positions that the mechanism accepts (or for the one named); `none` comes first."""
    from regard.testing.reference_formulas import FORMULAS

    if isinstance(name_or_class, str):
        name, given = specs.parse(name_or_class)
        cls = specs.find("mechanism", name, mechanisms.MECHANISMS)
        options = specs.typed("mechanism", name, cls, {**given, **options}, mechanisms.COMMON)
        formula = formula or FORMULAS.get(name)
    else:
        cls = name_or_class
    accepted = getattr(cls, "accepts", frozenset({"none"}))
    if positions is not None:
        return [Case(cls, positions, options, formula, *lengths)]
    names = [name for name, kind in kinds.POSITIONS.items() if kind.kind in accepted - {"embed"}]
    names.sort(key=lambda name: name != "none")
    # Positions that are added at the model's input never reach the mechanism: one kind stands for all.
    embedded = ["sinusoidal"] if "embed" in accepted else []
    return [Case(cls, name, options, formula, *lengths) for name in names + embedded]


def width(kind: type[PositionEncoding], **options: Any) -> int:
    """The first width at which these positions are defined for a sequence."""
    problems: list[str] = []
    for dim in WIDTHS:
        try:
            place = kind(dim, HEADS, **options)
            x, position_ids = torch.zeros(1, 2, dim), range(2)
            place.embed(x, position_ids)
            place.rotate(x.view(1, 2, HEADS, -1).transpose(1, 2), position_ids)
            place.bias(position_ids, position_ids)
            return dim
        except UserError as problem:
            problems.append(str(problem))
    raise AssertionError(f"{kind.__name__} takes none of the widths {WIDTHS} with {HEADS} heads: {problems[-1]}")


def noise(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@torch.no_grad()
def shake(module: nn.Module) -> None:
    for parameter in module.parameters():
        parameter.add_(0.1 * torch.randn_like(parameter))


@dataclass
class Seen:
    """What went into an Attend and what came out, caught by a hook of our own and not by `record`."""

    scores: Scores
    value: Tensor
    mask: Mask | None
    context: Tensor


@contextmanager
def watch(layer: nn.Module) -> Iterator[list[Seen]]:
    """Catch every act of attention inside."""
    seen: list[Seen] = []

    def hook(_: nn.Module, args: tuple, kwargs: dict, output: Tensor) -> None:
        given = inspect.signature(Attend.forward).bind(None, *args, **kwargs).arguments
        seen.append(Seen(given["scores"], given["value"], given.get("mask"), output))

    handles = [m.register_forward_hook(hook, with_kwargs=True) for m in layer.modules() if isinstance(m, Attend)]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


def same(given: Tensor, wanted: Tensor, what: str, *, atol: float = 1e-9) -> None:
    """Assert equality up to rounding, and say how far apart they are."""
    assert given.shape == wanted.shape, f"{what}: shape {tuple(given.shape)}, wanted {tuple(wanted.shape)}"
    given, wanted = given.detach(), wanted.detach()
    gap = (given - wanted).abs().nan_to_num(nan=float("inf"))
    worst = float(gap.max()) if gap.numel() else 0.0
    assert torch.allclose(given, wanted, rtol=atol, atol=atol), f"{what}: they differ by up to {worst:.2e}"


def identical(given: Tensor, wanted: Tensor, what: str) -> None:
    """Assert equality to the bit."""
    assert given.shape == wanted.shape, f"{what}: shape {tuple(given.shape)}, wanted {tuple(wanted.shape)}"
    assert torch.equal(given, wanted), f"{what}: they differ by up to {float((given - wanted).abs().max()):.2e}"


def in_one_thread(check: Callable[[Any], None]) -> Callable[[Any], None]:
    """Bits may depend on how a sum is dealt out to threads, and at these sizes one is the fastest."""

    @wraps(check)
    def alone(case: Any) -> None:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            check(case)
        finally:
            torch.set_num_threads(threads)

    return alone
