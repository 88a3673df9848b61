"""What a model family needs to be converted from and to Hugging Face's format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from torch import Tensor

from regard.hub.hf_config import require_int
from regard.hub.tensor_map import TensorPair, join_tensors, split_tensors


class HFFamily(ABC):
    """A model family.

    Attributes:
        model_class: The model in regard.
        prefix: Prefix of the tensor names of a model with a head. A bare model is saved without it.
    """

    model_class: ClassVar[type[Any]]
    prefix: ClassVar[str] = ""

    @abstractmethod
    def read_config(self, hf_config: Mapping[str, Any], state: Mapping[str, Tensor]) -> Any:
        """The model's config from config.json. Raises UserError for variants that regard does not have.

        Args:
            hf_config: The content of config.json.
            state: Hugging Face's tensors by name.
        """

    @abstractmethod
    def write_config(self, model: Any) -> dict[str, Any]:
        """The content of config.json for a model."""

    @abstractmethod
    def tensor_pairs(self, config: Any) -> list[TensorPair]:
        """Which tensors correspond to each other."""

    @abstractmethod
    def tied_names(self, config: Any) -> dict[str, str]:
        """Second names of tied tensors in a file, each to the name that is read."""

    def build_model(self, hf_config: Mapping[str, Any], state: Mapping[str, Tensor]) -> Any:
        """Build the model that config.json describes, without its weights."""
        config = self.read_config(hf_config, state)
        return self.model_class(require_int(hf_config, "vocab_size"), config=config)

    def to_regard(self, state: Mapping[str, Tensor], config: Any) -> dict[str, Tensor]:
        """Hugging Face's tensors to regard's. Tensors that are not complete in `state` are left out."""
        return join_tensors(state, self.tensor_pairs(config))

    def to_hf(self, state: Mapping[str, Tensor], config: Any) -> dict[str, Tensor]:
        """Regard's tensors to Hugging Face's."""
        return split_tensors(state, self.tensor_pairs(config))
