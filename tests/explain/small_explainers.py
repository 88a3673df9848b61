"""Small models with one input each, and their exact attention maps."""

from __future__ import annotations

import numpy as np
import torch

from regard.explain.explainer import Explainer
from regard.explain.seq2seq_explainer import Seq2SeqExplainer, TokenizedText
from regard.explain.token_explainers import MaskedTokenExplainer, PromptText
from regard.inspect import AttentionMap, attention_maps, record
from regard.models.bert import BERT
from regard.models.transformer import Transformer

TEXT = "[CLS] the quick brown fox jumped [MASK] the lazy dogs sleeping [SEP]"
WORDS = TEXT.split()


def perturb(model: torch.nn.Module, seed: int) -> torch.nn.Module:
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.4 * torch.randn(parameter.shape, generator=generator))
    return model.eval()


def make_tokens(words: list[str], special: tuple[str, ...] = ()) -> list[dict]:
    """Tokens of words; long words have two."""
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
    return perturb(BERT(31, dim=24, hidden=16, layers=3, heads=4, positions="learned:length=32"), seed)


def masked_token_explainer(seed: int = 0) -> MaskedTokenExplainer:
    tokens = make_tokens(WORDS, ("[CLS]", "[SEP]"))
    ids = [3 + (7 * i) % 27 for i in range(len(tokens))]
    position = next(i for i, t in enumerate(tokens) if t["text"] == "[MASK]")
    prompt = PromptText(TEXT, ids, tokens, lambda i: f"word{i}", lambda w: None)
    return MaskedTokenExplainer(bert(seed), prompt, position, name="bert", folder=f"runs/{seed}")


def translation_explainer(seed: int = 0) -> Seq2SeqExplainer:
    torch.manual_seed(seed)
    model = perturb(Transformer(31, dim=24, hidden=16, layers=2, heads=4), seed)
    source, target = ["ein", "rotes", "Haus", "brennt", "</s>"], ["a", "burning", "red", "house", "</s>"]
    sides = []
    for words in (source, target):
        text = " ".join(words[:-1])
        tokens = make_tokens(words, ("</s>",))
        tokens[-1] |= {"start": len(text), "end": len(text)}
        sides.append(TokenizedText(text, [5 + (3 * i) % 25 for i in range(len(tokens))], tokens))
    return Seq2SeqExplainer(
        model, *sides, bos_id=2, bos_token="[BOS]", empty_id=3, name="transformer", folder="runs/mt"
    )


def exact_maps(explainer: Explainer) -> dict[str, np.ndarray]:
    """Attention weights by layer name."""
    return {m.layer: m.weights.numpy() for m in record_maps(explainer)}


def record_maps(explainer: Explainer) -> list[AttentionMap]:
    with torch.no_grad(), record(explainer.model) as recording:
        explainer.scores([np.arange(len(explainer.tokens))])
    return attention_maps(recording, 0, explainer.axis_sizes())
