"""regard: the attention workbench. Train, compare, look inside, cost and verify attention models on your own data.

    import regard

    run = regard.train("classify", "reviews.csv", text="review", label="sentiment", model="han", budget="2min")
    run.predict("A film to forget.")
    run.look("A film to forget.")

    output, attention = regard.run_with_attention(regard.GPT(vocab_size=100, dim=64, layers=2, heads=4), ids)

A name is imported when it is first used, so that `import regard` and `regard --help` are fast and do not import torch.
"""

from __future__ import annotations

from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from pathlib import Path

    from regard.attention.kv_cache import KVCache
    from regard.attention.masks import Mask
    from regard.attention.mechanisms import Mechanism
    from regard.attention.positions import PositionEncoding
    from regard.comparison import compare
    from regard.config.plugins import import_file
    from regard.config.registry import register_model
    from regard.config.settings import setting
    from regard.errors import UserError
    from regard.explain.look_result import Look
    from regard.inspect import ablate, edit, record, run_with_attention
    from regard.layers import (
        AttentionPooling,
        BidirectionalRNN,
        DecoderBlock,
        EncoderBlock,
        FeedForward,
        MultiHeadAttention,
        SpatialAttention,
        factor_qk,
        merge_qk,
    )
    from regard.models.bert import BERT, BERTConfig
    from regard.models.bilstm import BiLSTM, BiLSTMConfig
    from regard.models.birnn import BiRNN, BiRNNConfig
    from regard.models.causal_cnn import CausalCNN, CausalCNNConfig
    from regard.models.context_han import ContextHAN, ContextHANConfig
    from regard.models.gated_cnn import GatedCNN, GatedCNNConfig
    from regard.models.gpt import GPT, GPTConfig
    from regard.models.han import HAN, HANConfig
    from regard.models.image_classifier import ImageClassifier, ImageClassifierConfig
    from regard.models.kim_cnn import KimCNN, KimCNNConfig
    from regard.models.marian import Marian, MarianConfig
    from regard.models.ngram_attention import NGramAttention, NGramAttentionConfig
    from regard.models.ngram_gpt import NGramGPT, NGramGPTConfig
    from regard.models.rnn_captioner import RNNCaptioner, RNNCaptionerConfig
    from regard.models.rnn_translator import RNNTranslator, RNNTranslatorConfig
    from regard.models.self_attentive import SelfAttentive, SelfAttentiveConfig
    from regard.models.span_reader import SpanReader, SpanReaderConfig
    from regard.models.strided_cnn import StridedCNN, StridedCNNConfig
    from regard.models.t5 import T5, T5Config
    from regard.models.transformer import Transformer, TransformerConfig
    from regard.models.transformer_captioner import TransformerCaptioner, TransformerCaptionerConfig
    from regard.models.transformer_classifier import TransformerClassifier, TransformerClassifierConfig
    from regard.tasks.base import Task
    from regard.tasks.base_run import Run
    from regard.tasks.train import train
    from regard.theory.cost.cost import cost
    from regard.theory.verify_claims import verify

_MODULES = {
    "BERT": "regard.models.bert",
    "GPT": "regard.models.gpt",
    "HAN": "regard.models.han",
    "T5": "regard.models.t5",
    "AttentionPooling": "regard.layers",
    "BERTConfig": "regard.models.bert",
    "BiLSTM": "regard.models.bilstm",
    "BiLSTMConfig": "regard.models.bilstm",
    "BiRNN": "regard.models.birnn",
    "BiRNNConfig": "regard.models.birnn",
    "BidirectionalRNN": "regard.layers",
    "CausalCNN": "regard.models.causal_cnn",
    "CausalCNNConfig": "regard.models.causal_cnn",
    "ContextHAN": "regard.models.context_han",
    "ContextHANConfig": "regard.models.context_han",
    "DecoderBlock": "regard.layers",
    "EncoderBlock": "regard.layers",
    "FeedForward": "regard.layers",
    "GPTConfig": "regard.models.gpt",
    "GatedCNN": "regard.models.gated_cnn",
    "GatedCNNConfig": "regard.models.gated_cnn",
    "HANConfig": "regard.models.han",
    "ImageClassifier": "regard.models.image_classifier",
    "ImageClassifierConfig": "regard.models.image_classifier",
    "KVCache": "regard.attention.kv_cache",
    "KimCNN": "regard.models.kim_cnn",
    "KimCNNConfig": "regard.models.kim_cnn",
    "Marian": "regard.models.marian",
    "MarianConfig": "regard.models.marian",
    "Mask": "regard.attention.masks",
    "Mechanism": "regard.attention.mechanisms",
    "MultiHeadAttention": "regard.layers",
    "NGramAttention": "regard.models.ngram_attention",
    "NGramAttentionConfig": "regard.models.ngram_attention",
    "NGramGPT": "regard.models.ngram_gpt",
    "NGramGPTConfig": "regard.models.ngram_gpt",
    "PositionEncoding": "regard.attention.positions",
    "RNNCaptioner": "regard.models.rnn_captioner",
    "RNNCaptionerConfig": "regard.models.rnn_captioner",
    "RNNTranslator": "regard.models.rnn_translator",
    "RNNTranslatorConfig": "regard.models.rnn_translator",
    "Run": "regard.tasks.base_run",
    "SelfAttentive": "regard.models.self_attentive",
    "SelfAttentiveConfig": "regard.models.self_attentive",
    "SpanReader": "regard.models.span_reader",
    "SpanReaderConfig": "regard.models.span_reader",
    "SpatialAttention": "regard.layers",
    "StridedCNN": "regard.models.strided_cnn",
    "StridedCNNConfig": "regard.models.strided_cnn",
    "T5Config": "regard.models.t5",
    "Task": "regard.tasks.base",
    "Transformer": "regard.models.transformer",
    "TransformerCaptioner": "regard.models.transformer_captioner",
    "TransformerCaptionerConfig": "regard.models.transformer_captioner",
    "TransformerClassifier": "regard.models.transformer_classifier",
    "TransformerClassifierConfig": "regard.models.transformer_classifier",
    "TransformerConfig": "regard.models.transformer",
    "UserError": "regard.errors",
    "ablate": "regard.inspect",
    "compare": "regard.comparison",
    "cost": "regard.theory.cost.cost",
    "edit": "regard.inspect",
    "factor_qk": "regard.layers",
    "import_file": "regard.config.plugins",
    "merge_qk": "regard.layers",
    "record": "regard.inspect",
    "register_model": "regard.config.registry",
    "run_with_attention": "regard.inspect",
    "setting": "regard.config.settings",
    "train": "regard.tasks.train",
    "verify": "regard.theory.verify_claims",
}
"""Public name -> module that defines it."""

__all__ = [
    "BERT",
    "GPT",
    "HAN",
    "T5",
    "AttentionPooling",
    "BERTConfig",
    "BiLSTM",
    "BiLSTMConfig",
    "BiRNN",
    "BiRNNConfig",
    "BidirectionalRNN",
    "CausalCNN",
    "CausalCNNConfig",
    "ContextHAN",
    "ContextHANConfig",
    "DecoderBlock",
    "EncoderBlock",
    "FeedForward",
    "GPTConfig",
    "GatedCNN",
    "GatedCNNConfig",
    "HANConfig",
    "ImageClassifier",
    "ImageClassifierConfig",
    "KVCache",
    "KimCNN",
    "KimCNNConfig",
    "Marian",
    "MarianConfig",
    "Mask",
    "Mechanism",
    "MultiHeadAttention",
    "NGramAttention",
    "NGramAttentionConfig",
    "NGramGPT",
    "NGramGPTConfig",
    "PositionEncoding",
    "RNNCaptioner",
    "RNNCaptionerConfig",
    "RNNTranslator",
    "RNNTranslatorConfig",
    "Run",
    "SelfAttentive",
    "SelfAttentiveConfig",
    "SpanReader",
    "SpanReaderConfig",
    "SpatialAttention",
    "StridedCNN",
    "StridedCNNConfig",
    "T5Config",
    "Task",
    "Transformer",
    "TransformerCaptioner",
    "TransformerCaptionerConfig",
    "TransformerClassifier",
    "TransformerClassifierConfig",
    "TransformerConfig",
    "UserError",
    "ablate",
    "compare",
    "cost",
    "edit",
    "factor_qk",
    "import_file",
    "load",
    "look",
    "merge_qk",
    "record",
    "register_model",
    "run_with_attention",
    "setting",
    "train",
    "verify",
]


def load(folder: str | Path) -> Any:
    """Open a trained run, a checkpoint, an imported model or a Hugging Face folder.

    Args:
        folder: A run folder of `regard.train`, a checkpoint (RUN/state/step-100), a folder that `regard import` wrote,
            or a local Hugging Face folder (BERT, GPT-2, Marian, T5).

    Returns:
        The run, such as a `Classifier` or `LanguageModel`. `run.verbs` lists what it can do.
    """
    from regard.hub.load_any import load_any

    return load_any(folder)


def look(run: Run | str | Path, text: str, **options: Any) -> Look:
    """Show what a model attends to, and measure how faithful the attention is.

    Args:
        run: A run, or a folder that `load` opens.
        text: The text to explain; for image models the name of an image file.
        **options: Options of the run's `look` method, such as `label` and `faithful`.

    Returns:
        The attention maps, the prediction and the faithfulness. Displays itself in a notebook; `save` writes a page.
    """
    model: Any = load(run) if isinstance(run, str | PathLike) else run
    return model.look(text, **options)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    try:
        return import_module(f"regard.{name}")  # a subpackage, such as regard.layers
    except ModuleNotFoundError as error:
        if error.name != f"regard.{name}":
            raise  # a dependency of the subpackage is missing
        raise AttributeError(f"module 'regard' has no attribute {name!r}") from None


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
