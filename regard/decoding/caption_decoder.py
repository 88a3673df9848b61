"""Let a captioner speak: pictures in batches, each as if it were alone.

    Describer(model).write(pictures)[0][0].ids

Which words are chosen is said by the search (beam.py), by a sampling (sampling.py) or by the agreement of many
(consensus.py), and how the model is walked
through by the ways of speakers.py: a picture is a source like any other, read once for all of its beams.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

import numpy as np
import torch
from torch import nn

from regard.data.tokenizer import BOS, EOS
from regard.decoding.beam_search import Beam, Said, search
from regard.decoding.generation import still
from regard.decoding.mbr import Consensus, agreed
from regard.decoding.sampling import Sampling
from regard.decoding.seq2seq_decoders import Recurrent, Remembered, Speaker
from regard.decoding.translation import draw
from regard.errors import UserError
from regard.models.rnn_captioner import RNNCaptioner
from regard.models.rnn_translator import RNNTranslator
from regard.models.transformer import Transformer
from regard.models.transformer_captioner import TransformerCaptioner

AT_ONCE = 64  # pictures


class Describer:
    """A captioner, for many pictures; `never` are words that are not to be said."""

    def __init__(self, model: nn.Module, *, never: Iterable[int] = ()):
        self.model, self.never = model, sorted(set(never) - {EOS})

    def write(
        self,
        pictures: np.ndarray,
        *,
        how: Beam | Sampling | Consensus | None = None,
        limit: int = 40,
        told: Callable[[int], Any] | None = None,
    ) -> list[list[Said]]:
        """The best captions of each picture (n, height, width, 3), the best first, of at most `limit` words."""
        how, found = how or Beam(), []
        if limit < 1:
            raise UserError(f"a caption has at least 1 word; the limit given is {limit}")
        with still(self.model), torch.inference_mode():
            for first in range(0, len(pictures), AT_ONCE):
                part = torch.from_numpy(np.array(pictures[first : first + AT_ONCE]))
                limits = np.full(len(part), limit)
                way = speaker(self.model, self.never)
                if isinstance(how, Sampling):
                    rows = [[first + i] for i in range(len(part))]  # each picture draws its own numbers
                    found += draw(way, rows, part, None, how, begin=BOS, end=EOS, limits=limits)
                elif isinstance(how, Consensus):
                    numbered = {"begin": BOS, "end": EOS, "limit": limit, "first": first}
                    found += [[said] for said in agreed(way, part, how, **numbered)]
                else:
                    found += search(way, part, None, how, begin=BOS, end=EOS, limits=limits)
                if told is not None:
                    told(len(part))
        return found


def speaker(model: nn.Module, never: Iterable[int]) -> Speaker:
    """The way through a captioner: it has the words of a translator, with a picture for a source."""
    if isinstance(model, RNNCaptioner):
        return Recurrent(cast(RNNTranslator, model), never)
    if isinstance(model, TransformerCaptioner):
        return Remembered(cast(Transformer, model), never)
    raise UserError(f"{type(model).__name__} is no captioner: it has nothing to say of a picture")
