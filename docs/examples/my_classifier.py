"""A text classifier of your own: a plain nn.Module that regard can train, compare and look into.

    regard train classify reviews.csv --import my_classifier.py --model my-classifier --set model.dim=32
    regard compare classify reviews.csv --import my_classifier.py --models my-classifier,han,tfidf
    regard look runs/reviews-my-classifier "A film to forget." --import my_classifier.py

Two things are needed: a dataclass with the settings and a method `build`, registered under a name; and a module whose
`forward` takes a padded batch and returns logits. Attention is recorded if it is computed by a layer of regard, such as
MultiHeadAttention or AttentionPooling, or by torch.nn.MultiheadAttention.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

import regard
from regard.layers import AttentionPooling, MultiHeadAttention


class MyClassifier(nn.Module):
    """Embeddings, one self-attention layer, attention pooling, and a linear layer."""

    def __init__(self, vocab_size: int, num_classes: int, dim: int, heads: int):
        super().__init__()
        self.embedding = nn.Embedding(vocab_size, dim, padding_idx=0)
        self.attention = MultiHeadAttention(dim, heads)
        self.pool = AttentionPooling(dim)
        self.head = nn.Linear(dim, num_classes)

    def forward(self, ids: Tensor, mask: Tensor, sentences: Tensor | None = None) -> Tensor:
        """Token ids (b, n), a mask (b, n) that is True for real tokens, and sentence numbers (b, n), not used here.

        Returns:
            Logits, (b, classes). A model with further loss terms returns a `ClassifierOutput` instead.
        """
        x = self.embedding(ids)
        x = x + self.attention(x, key_mask=mask)
        document, _ = self.pool(x, mask)
        return self.head(document[:, 0])


@regard.register_model("classify", "my-classifier")
@dataclass(frozen=True)
class MyClassifierConfig:
    """The settings: `--set model.dim=32`, or {"model": {"dim": 32}} in Python."""

    dim: int = 64
    heads: int = 4

    def build(self, vocab_size: int, num_classes: int) -> MyClassifier:
        return MyClassifier(vocab_size, num_classes, self.dim, self.heads)
