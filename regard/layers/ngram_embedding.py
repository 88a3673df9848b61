"""N-gram embeddings: a vector for each pair, triple, ... of tokens, added to the token embedding.

    x[t] = E[w_t] + Σ_{k=2..max_n} E_k[bucket(w_{t-k+1} .. w_t)]

The first layers of a Transformer combine neighbouring tokens; a table does it with one lookup (Huang et al. 2025,
Over-Tokenized Transformer, section 3; buckets as in Bojanowski et al. 2017, Enriching Word Vectors with Subword
Information, 3.2). If there are more n-grams than rows, they share rows by a hash. Before the first token of a text or
window there is PAD.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from regard.config.validation import check_positive
from regard.errors import UserError
from regard.layers.typed_module_list import TypedModuleList

_HASH_FACTOR = 0x9E3779B97F4A7C15 - (1 << 64)  # 2^64 / golden ratio as a signed number (Knuth, 6.4)
_HASH_SHIFT = 31


class NGramEmbedding(nn.Module):
    """Sum of the embeddings of the n-grams that end at each token. It is zero at initialization.

    Args:
        vocab_size: Number of tokens.
        dim: Width of the embeddings.
        max_n: Longest n-grams; 2 for pairs.
        table_size: Rows of each table.
    """

    def __init__(self, vocab_size: int, dim: int, *, max_n: int, table_size: int):
        super().__init__()
        check_positive("n-gram embedding", vocab_size=vocab_size, dim=dim, table_size=table_size)
        if max_n < 2:
            raise UserError(f"n-grams have 2 tokens or more; given ngrams={max_n}. The model gpt has no n-grams")
        self.vocab_size, self.max_n = vocab_size, max_n
        sizes = [min(table_size, vocab_size**n) for n in range(2, max_n + 1)]
        self.tables = TypedModuleList[nn.Embedding](nn.Embedding(size, dim) for size in sizes)
        for table in self.tables:
            nn.init.zeros_(table.weight)

    def forward(self, ids: Tensor, previous_ids: Tensor | None = None) -> Tensor:
        """Embed the n-grams.

        Args:
            ids: Token ids, (b, n).
            previous_ids: Token ids before them, (b, up to max_n - 1). Default: PAD.

        Returns:
            (b, n, dim).
        """
        n, lookback = ids.shape[1], self.max_n - 1
        padded = F.pad(ids, (lookback, 0)) if previous_ids is None else _prepend(previous_ids, ids, lookback)
        key, embeddings = ids, []
        for k, table in enumerate(self.tables, 1):
            key = key * self.vocab_size + padded[:, lookback - k : lookback - k + n]  # may overflow, as a hash does
            embeddings.append(table(self._bucket(key, table.num_embeddings, k + 1)))
        return torch.stack(embeddings).sum(0) if len(embeddings) > 1 else embeddings[0]

    def _bucket(self, key: Tensor, size: int, n: int) -> Tensor:
        return key if self.vocab_size**n <= size else ((key * _HASH_FACTOR) >> _HASH_SHIFT) % size


def _prepend(previous_ids: Tensor, ids: Tensor, lookback: int) -> Tensor:
    """ids with the `lookback` ids before them, padded on the left."""
    previous = previous_ids[:, -lookback:]
    return F.pad(torch.cat((previous, ids), 1), (lookback - previous.shape[1], 0))
