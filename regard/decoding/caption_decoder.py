"""Generate captions of images, in batches. The batch does not change a caption.

    CaptionGenerator(model).generate(images)[0][0].ids

The tokens are chosen by beam search (beam_search.py), by sampling (sampling.py) or by minimum Bayes risk (mbr.py). The
decoders are those of seq2seq_decoders.py, with an image as the source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from regard.data.tokenizer import BOS, EOS
from regard.decoding.beam_search import BeamSearch, Hypothesis, run_beam_search
from regard.decoding.generation import evaluation_mode
from regard.decoding.mbr import MinimumBayesRisk, decode_mbr
from regard.decoding.sampling import Sampling
from regard.decoding.seq2seq_decoders import CachedSeq2SeqDecoder, RecurrentSeq2SeqDecoder, Seq2SeqDecoder
from regard.decoding.translation import sample_translations
from regard.errors import UserError
from regard.models.rnn_captioner import RNNCaptioner
from regard.models.rnn_translator import RNNTranslator
from regard.models.transformer import Transformer
from regard.models.transformer_captioner import TransformerCaptioner

BATCH_SIZE = 64


class CaptionGenerator:
    """Generates captions with a model. `suppress` are token ids that are never chosen."""

    def __init__(self, model: nn.Module, *, suppress: Iterable[int] = ()):
        self.model, self.suppress = model, sorted(set(suppress) - {EOS})

    def generate(
        self,
        images: np.ndarray,
        *,
        strategy: BeamSearch | Sampling | MinimumBayesRisk | None = None,
        max_length: int = 40,
        on_progress: Callable[[int], Any] | None = None,
    ) -> list[list[Hypothesis]]:
        """The best captions of each image, the best first.

        Args:
            images: (n, height, width, 3).
            strategy: How tokens are chosen. The default is `BeamSearch()`.
            max_length: Maximum number of tokens.
            on_progress: Called with the number of images of each batch when it is done.
        """
        strategy, captions = strategy or BeamSearch(), []
        if max_length < 1:
            raise UserError(f"the maximum length of a caption must be at least 1, got {max_length}")
        with evaluation_mode(self.model), torch.inference_mode():
            for first in range(0, len(images), BATCH_SIZE):
                batch = torch.from_numpy(np.array(images[first : first + BATCH_SIZE]))
                max_lengths = np.full(len(batch), max_length)
                decoder = build_caption_decoder(self.model, self.suppress)
                ends: dict[str, int] = {"bos_id": BOS, "eos_id": EOS}
                if isinstance(strategy, Sampling):
                    rows = [[first + i] for i in range(len(batch))]  # the index of an image seeds its random numbers
                    captions += sample_translations(
                        decoder, rows, batch, None, strategy, max_lengths=max_lengths, **ends
                    )
                elif isinstance(strategy, MinimumBayesRisk):
                    best = decode_mbr(decoder, batch, strategy, max_length=max_length, first=first, **ends)
                    captions += [[hypothesis] for hypothesis in best]
                else:
                    captions += run_beam_search(decoder, batch, None, strategy, max_lengths=max_lengths, **ends)
                if on_progress is not None:
                    on_progress(len(batch))
        return captions


def build_caption_decoder(model: nn.Module, suppress: Iterable[int]) -> Seq2SeqDecoder:
    """The decoder for a captioner, which has the interface of a translator with images as sources."""
    if isinstance(model, RNNCaptioner):
        return RecurrentSeq2SeqDecoder(cast(RNNTranslator, model), suppress)
    if isinstance(model, TransformerCaptioner):
        return CachedSeq2SeqDecoder(cast(Transformer, model), suppress)
    raise UserError(f"{type(model).__name__} is not a captioner and cannot describe images")
