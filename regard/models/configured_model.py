"""One way to build every model: from keyword options, or from a config dataclass with the same fields.

    GPT(vocab_size=100, dim=64, layers=2)
    GPT.from_config(GPTConfig(dim=64, layers=2), vocab_size=100)
    GPTConfig(dim=64, layers=2).build(vocab_size=100)

The options of a model are the fields of its config. They have the same names in Python, in settings files and on the
command line. Sizes that come from the data (`vocab_size`, `num_classes`) are not part of the config.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, Self, TypeVar

from torch import nn


@dataclasses.dataclass(frozen=True)
class ModelConfig:
    """Base of all config dataclasses."""

    model_class: ClassVar[type[Any]]
    """The model that the config builds."""

    def build(self, *sizes: int | None, **named_sizes: int | None) -> Any:
        """Build the untrained model, for example `GPTConfig().build(vocab_size=100)`."""
        return self.model_class(*sizes, config=self, **named_sizes)


ConfigT = TypeVar("ConfigT", bound=ModelConfig)


class ConfiguredModel(nn.Module, Generic[ConfigT]):
    """Base of all models.

    A subclass sets `config_class`. Its constructor takes the sizes that come from the data, then `config`, then any
    fields of the config as keyword options. Its method `cost_parts(n, m)` yields the cost of each part by formula, for
    one example with a sequence of n positions and a source of m positions (tokens, or grid cells of an image).
    """

    config_class: ClassVar[type[Any]]

    def __init__(self, config: ConfigT | None, options: Mapping[str, Any]):
        super().__init__()
        if config is not None and options:
            raise TypeError(f"{type(self).__name__}: pass either config or options, not both: {', '.join(options)}")
        self.config: ConfigT = self.config_class(**options) if config is None else config

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        if "config_class" not in vars(cls):
            return
        cls.config_class.model_class = cls
        sizes = [p for p in inspect.signature(cls.__init__).parameters.values() if p.name not in ("config", "options")]
        options = [
            inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=field.type)
            for field in dataclasses.fields(cls.config_class)
        ]
        cls.__signature__ = inspect.Signature([*sizes[1:], *options])  # for help() and editors

    @classmethod
    def from_config(cls, config: ConfigT, *sizes: int | None, **named_sizes: int | None) -> Self:
        """Build the model from its config and the sizes that come from the data.

        Args:
            config: An instance of `config_class`.
            *sizes: The sizes in the order of the constructor, or by name: `vocab_size=`, `num_classes=`.
        """
        return cls(*sizes, config=config, **named_sizes)  # type: ignore[arg-type]
