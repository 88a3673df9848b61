"""A mechanism with one kind of positions, as the subject of a contract check.

Sizes are prime where possible, so that a silent transpose fails. All random numbers come from fixed seeds and are
float64, so that a failure is reproducible.
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
from regard.attention import positions as position_kinds
from regard.attention.masks import Mask
from regard.attention.mechanisms.mechanism import Mechanism
from regard.attention.positions.position_encoding import PositionEncoding
from regard.attention.scores import Attend, Scores
from regard.attention.token_positions import PositionIds
from regard.config import specs
from regard.errors import UserError
from regard.layers.multi_head_attention import MultiHeadAttention

HEADS, BATCH, QUERIES, KEYS, OTHER_DIM = 3, 2, 11, 13, 17
WIDTHS = (21, 42, 84)
"""Head widths 7, 14 and 28. The first that the positions support is used: rotary needs pairs, axial pairs of pairs."""

Formula = Callable[[Mechanism, Tensor, Tensor, Any], Tensor]
"""Maps a mechanism, queries, keys and QueryKeyPositions to logits (b, h, q, k)."""


@dataclass(frozen=True)
class Case:
    """What a check gets.

    Args:
        cls: Class of the mechanism.
        positions: Name of the positions.
        options: Options of the mechanism.
        formula: Reference implementation of its logits, if there is one.
        n: Number of queries.
        m: Number of keys in cross-attention.
    """

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
        return position_kinds.POSITIONS[self.positions].kind

    @property
    def dim(self) -> int:
        return smallest_width(position_kinds.POSITIONS[self.positions])

    @property
    def crosses(self) -> bool:
        return self.cls.supports_cross_attention

    def layer(
        self, *, dtype: torch.dtype = torch.float64, seed: int = 0, context_dim: int | None = None, dropout: float = 0.0
    ) -> MultiHeadAttention:
        """A layer with perturbed parameters, so that a bias of zero hides no error."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            encoding = position_kinds.build(self.positions, self.dim, HEADS)
            try:
                mechanism = self.cls(self.dim, HEADS, context_dim=context_dim, positions=encoding, **self.options)
            except TypeError as error:
                raise AssertionError(
                    f"{self.cls.__name__} cannot be built: {error}. A mechanism takes (dim, heads, **options), passes "
                    "the options on to its base class, and defines project_query, project_kv and score; a subclass of "
                    "QKVMechanism defines score only"
                ) from None
            layer = MultiHeadAttention(self.dim, HEADS, mechanism, dropout=dropout).to(dtype)
            perturb(layer)
        return layer.eval()

    def x(self, n: int | None = None, *, b: int = BATCH, seed: int = 1, dtype: torch.dtype = torch.float64) -> Tensor:
        """An input (b, n, dim). Positions of kind "embed" are added to it."""
        n = self.n if n is None else n
        return self.embed(noise(b, n, self.dim, seed=seed).to(dtype), range(n))

    def embed(self, x: Tensor, position_ids: PositionIds) -> Tensor:
        """Add the positions of kind "embed" to an input."""
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            torch.manual_seed(0)
            return position_kinds.build(self.positions, self.dim, HEADS).to(x.dtype).embed(x, position_ids)

    def context(self, m: int | None = None, *, width: int | None = None, seed: int = 2) -> Tensor:
        """A context (b, m, width) for cross-attention."""
        return noise(BATCH, self.m if m is None else m, width or self.dim, seed=seed)


def cases(
    name_or_class: str | type[Mechanism],
    *,
    positions: str | None = None,
    formula: Formula | None = None,
    lengths: tuple[int, int] = (QUERIES, KEYS),
    **options: Any,
) -> list[Case]:
    """A case for each kind of positions that the mechanism accepts, or for the given one; "none" comes first."""
    from regard.testing.reference_formulas import FORMULAS

    if isinstance(name_or_class, str):
        name, spec_options = specs.parse_spec(name_or_class)
        cls = mechanisms.MECHANISMS.find(name)
        options = specs.convert_options("mechanism", name, cls, {**spec_options, **options}, mechanisms.COMMON)
        formula = formula or FORMULAS.get(name)
    else:
        cls = name_or_class
    accepted = getattr(cls, "accepts", frozenset({"none"}))
    if positions is not None:
        return [Case(cls, positions, options, formula, *lengths)]
    names = [name for name, kind in position_kinds.POSITIONS.items() if kind.kind in accepted - {"embed"}]
    names.sort(key=lambda name: name != "none")
    # Positions that are added at the input of a model do not reach the mechanism, so one of them is enough.
    embedded = ["sinusoidal"] if "embed" in accepted else []
    return [Case(cls, name, options, formula, *lengths) for name in names + embedded]


def smallest_width(kind: type[PositionEncoding], **options: Any) -> int:
    """The first of `WIDTHS` that these positions support for a sequence."""
    errors: list[str] = []
    for dim in WIDTHS:
        try:
            encoding = kind(dim, HEADS, **options)
            x, position_ids = torch.zeros(1, 2, dim), range(2)
            encoding.embed(x, position_ids)
            encoding.rotate(x.view(1, 2, HEADS, -1).transpose(1, 2), position_ids)
            encoding.bias(position_ids, position_ids)
            return dim
        except UserError as error:
            errors.append(str(error))
    raise AssertionError(f"{kind.__name__} supports none of the widths {WIDTHS} with {HEADS} heads: {errors[-1]}")


def noise(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def padding_mask(n: int, padding: int, row: int = 1) -> Tensor:
    """A key mask (b, n) with `padding` False values at the end of one row."""
    mask = torch.ones(BATCH, n, dtype=torch.bool)
    mask[row, n - padding :] = False
    return mask


@torch.no_grad()
def perturb(module: nn.Module) -> None:
    """Add noise to all parameters."""
    for parameter in module.parameters():
        parameter.add_(0.1 * torch.randn_like(parameter))


@dataclass
class AttendCall:
    """Inputs and output of one call of `Attend`. Captured by a hook that is independent of `record`."""

    scores: Scores
    value: Tensor
    mask: Mask | None
    output: Tensor


@contextmanager
def capture_calls(module: nn.Module) -> Iterator[list[AttendCall]]:
    """Capture every call of an `Attend` inside a module."""
    calls: list[AttendCall] = []

    def hook(_: nn.Module, args: tuple, kwargs: dict, output: Tensor) -> None:
        arguments = inspect.signature(Attend.forward).bind(None, *args, **kwargs).arguments
        calls.append(AttendCall(arguments["scores"], arguments["value"], arguments.get("mask"), output))

    handles = [m.register_forward_hook(hook, with_kwargs=True) for m in module.modules() if isinstance(m, Attend)]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def assert_close(actual: Tensor, expected: Tensor, message: str, *, atol: float = 1e-9) -> None:
    """Assert equality up to rounding. The error says how large the difference is."""
    assert actual.shape == expected.shape, f"{message}: shape {tuple(actual.shape)}, expected {tuple(expected.shape)}"
    actual, expected = actual.detach(), expected.detach()
    difference = (actual - expected).abs().nan_to_num(nan=float("inf"))
    largest = float(difference.max()) if difference.numel() else 0.0
    assert torch.allclose(actual, expected, rtol=atol, atol=atol), f"{message}: they differ by up to {largest:.2e}"


def assert_identical(actual: Tensor, expected: Tensor, message: str) -> None:
    """Assert equality of every bit."""
    assert actual.shape == expected.shape, f"{message}: shape {tuple(actual.shape)}, expected {tuple(expected.shape)}"
    assert torch.equal(actual, expected), (
        f"{message}: they differ by up to {float((actual - expected).abs().max()):.2e}"
    )


def assert_useful_gradient(name: str, grad: Tensor | None, minimum: float = 0.0) -> None:
    """Assert that the gradient of a parameter exists, is finite and is larger than `minimum` somewhere."""
    assert grad is not None, f"{name} gets no gradient: it is never used"
    assert bool(grad.isfinite().all()), f"the gradient of {name} is not finite"
    assert float(grad.abs().max()) > minimum, f"the gradient of {name} is zero: the parameter has no effect"


def in_one_thread(check: Callable[[Any], None]) -> Callable[[Any], None]:
    """Run a check in one thread: bits can depend on the number of threads, and small tensors are fastest with one."""

    @wraps(check)
    def run(case: Any) -> None:
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            check(case)
        finally:
            torch.set_num_threads(threads)

    return run
