"""A ModuleList with the type of its modules, so that pyright checks calls of their methods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

from torch import nn

M = TypeVar("M", bound=nn.Module)


class TypedModuleList(nn.ModuleList, Generic[M]):
    """`TypedModuleList[EncoderBlock](...)` iterates over EncoderBlock."""

    def __iter__(self) -> Iterator[M]:  # type: ignore[override]
        return super().__iter__()  # type: ignore[return-value]
