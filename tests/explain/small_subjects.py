"""Small true models with a text before them, and what `record` sees of them."""

from __future__ import annotations

import numpy as np
import torch

from regard.explain.seq2seq_subject import Pair, Side
from regard.explain.word_subjects import Missing, Reading
from regard.inspect import AttentionMap, attention_maps, record
from regard.models.bert import BERT
from regard.models.bert import BERTConfig as BertConfig
from regard.models.transformer import TransformerConfig as PairConfig

TEXT = "[CLS] the quick brown fox jumped [MASK] the lazy dogs sleeping [SEP]"
WORDS = TEXT.split()


def shaken(model: torch.nn.Module, seed: int) -> torch.nn.Module:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.4 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


def tokens_of(words: list[str], special: tuple[str, ...] = ()) -> list[dict]:
    """Long words in two pieces."""
    tokens, at = [], 0
    for number, word in enumerate(words):
        cuts = [word[:3], word[3:]] if len(word) > 4 and word not in ("[CLS]", "[SEP]", "[MASK]", "</s>") else [word]
        for cut in cuts:
            own = word in special
            tokens.append(
                {"text": cut, "start": at, "end": at + len(cut), "word": None if own else number, "special": own}
            )
            at += len(cut)
        at += 1
    return tokens


def bert(seed: int = 0) -> BERT:
    torch.manual_seed(seed)
    return shaken(BERT(BertConfig(vocab=31, dim=24, hidden=16, layers=3, heads=4, positions="learned:length=32")), seed)


def missing(seed: int = 0) -> Missing:
    tokens = tokens_of(WORDS, ("[CLS]", "[SEP]"))
    ids = [3 + (7 * i) % 27 for i in range(len(tokens))]
    place = next(i for i, t in enumerate(tokens) if t["text"] == "[MASK]")
    reading = Reading(TEXT, ids, tokens, lambda i: f"word{i}", lambda w: None)
    return Missing(bert(seed), reading, place, name="bert", folder=f"runs/{seed}")


def translation(seed: int = 0) -> Pair:
    torch.manual_seed(seed)
    net = shaken(PairConfig(dim=24, hidden=16, layers=2, heads=4).build(31), seed)
    source, target = ["ein", "rotes", "Haus", "brennt", "</s>"], ["a", "burning", "red", "house", "</s>"]
    sides = []
    for words in (source, target):
        text = " ".join(words[:-1])
        tokens = tokens_of(words, ("</s>",))
        tokens[-1] |= {"start": len(text), "end": len(text)}
        sides.append(Side(text, [5 + (3 * i) % 25 for i in range(len(tokens))], tokens))
    return Pair(net, *sides, begin=2, first="[BOS]", empty=3, name="transformer", folder="runs/mt")


def exact(subject) -> dict[str, np.ndarray]:
    """What `record` sees, by site."""
    return {m.layer: m.weights.numpy() for m in seen(subject)}


def seen(subject) -> list[AttentionMap]:
    with torch.no_grad(), record(subject.net) as recording:
        subject.answers([np.arange(len(subject.tokens))])
    return attention_maps(recording, 0, subject.sizes())
