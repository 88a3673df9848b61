"""What the last words are, looked up whole: a vector for each word pair, triple, ... added to that of the word.

    x[t] = E[w_t] + Σ_{k=2..most} E_k[bucket(w_{t-k+1} .. w_t)]

A Transformer must spend its first layers on putting neighbours together; a table does it at the cost of a lookup
(Huang et al. 2025, Over-Tokenized Transformer, section 3; buckets as in Bojanowski et al. 2017, Enriching Word Vectors
with Subword Information, 3.2). n-grams that outnumber the table share its rows by a hash. Before the first word of a
text or of a window stands PAD.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.config.validation import check_positive
from regard.errors import UserError
from regard.layers.typed_module_list import TypedModuleList

_SPREAD = 0x9E3779B97F4A7C15 - (1 << 64)  # 2^64 / golden ratio, as a signed number (Knuth, 6.4)
_SHIFT = 31


class NGramEmbedding(nn.Module):
    """The sum over k of E_k at ids (b, n), without the words' own: (b, n, dim). All zero at the start."""

    def __init__(self, vocab: int, dim: int, *, most: int, table: int):
        super().__init__()
        check_positive("n-gram embedding", vocab=vocab, dim=dim, table=table)
        if most < 2:
            raise UserError(f"n-grams are of 2 words or more, and ngrams={most} was given; a plain gpt has none")
        self.vocab, self.most = vocab, most
        sizes = [min(table, vocab**k) for k in range(2, most + 1)]
        self.tables = TypedModuleList[nn.Embedding](nn.Embedding(size, dim) for size in sizes)
        for table_ in self.tables:
            nn.init.zeros_(table_.weight)

    def forward(self, ids: Tensor, before: Tensor | None = None) -> Tensor:
        """before (b, most - 1): the words that came before, PAD where there were none."""
        n, reach = ids.shape[1], self.most - 1
        past = F.pad(ids, (reach, 0)) if before is None else _joined(before, ids, reach)
        key, found = ids, []
        for k, table in enumerate(self.tables, 1):
            key = key * self.vocab + past[:, reach - k : reach - k + n]  # wraps around where it must
            found.append(table(self._bucket(key, table.num_embeddings, k + 1)))
        return torch.stack(found).sum(0) if len(found) > 1 else found[0]

    def _bucket(self, key: Tensor, size: int, k: int) -> Tensor:
        return key if self.vocab**k <= size else ((key * _SPREAD) >> _SHIFT) % size


def _joined(before: Tensor, ids: Tensor, reach: int) -> Tensor:
    past = before[:, -reach:]
    return F.pad(torch.cat((past, ids), 1), (reach - past.shape[1], 0))
