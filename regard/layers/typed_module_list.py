"""A list of layers that knows what kind of layer it holds, so that their methods can be called and checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from torch import nn

L = TypeVar("L", bound=nn.Module)


class TypedModuleList(nn.ModuleList, Generic[L]):
    def __iter__(self) -> Iterator[L]:  # type: ignore[override]
        return super().__iter__()  # type: ignore[return-value]
