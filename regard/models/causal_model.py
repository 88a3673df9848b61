"""What the causal language models share: generation from token ids."""

from __future__ import annotations

import torch
from torch import Tensor

from regard.models.configured_model import ConfigT, ConfiguredModel


class CausalModel(ConfiguredModel[ConfigT]):
    """A model that predicts each token from the tokens before it."""

    def generate(
        self,
        ids: Tensor,
        max_new_tokens: int = 128,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int = 0,
    ) -> Tensor:
        """Continue each prompt of a batch.

        `regard.decoding.generation` has more: prompts of different lengths, stop tokens, several samples, streaming.

        Args:
            ids: Prompts of the same length, (b, n) or (n,).
            max_new_tokens: Number of tokens to add.
            temperature: Divides the logits; 0 always takes the most probable token.
            top_k: Sample from the k most probable tokens only.
            top_p: Sample from the fewest tokens whose probabilities sum to p.
            seed: The same seed gives the same tokens.

        Returns:
            Prompts with their continuations, (b, n + max_new_tokens) or (n + max_new_tokens,).
        """
        from regard.decoding.generation import generate
        from regard.decoding.sampling import Sampling

        prompts = ids if ids.dim() == 2 else ids[None]
        sampling = Sampling(temperature, top_k, top_p, seed)
        texts = generate(self, prompts.tolist(), max_new_tokens=max_new_tokens, sampling=sampling, stop_ids=())
        new_ids = torch.tensor([samples[0].ids for samples in texts], device=ids.device)
        return torch.cat((prompts, new_ids), 1).view(*ids.shape[:-1], -1)
