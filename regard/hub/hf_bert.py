"""BERT to and from Hugging Face (model_type "bert": BertModel, BertForPreTraining, BertForMaskedLM and others)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from regard.errors import UserError
from regard.hub import hf_config
from regard.hub import tensor_map as p
from regard.models.bert import BERT, EPS, BERTConfig

MODEL = BERT
PREFIX = "bert."


def read_config(config: Mapping[str, Any], state: Mapping[str, Tensor]) -> BERTConfig:
    hf_config.only(config, "position_embedding_type", "absolute", "regard's BERT has learned positions")
    hf_config.only(config, "is_decoder", False, "regard's BERT looks both ways")
    hf_config.only(config, "add_cross_attention", False, "regard's BERT is an encoder")
    hf_config.only(config, "layer_norm_eps", EPS, "regard's BERT has the paper's norm")
    return BERTConfig(
        vocab=hf_config.need(config, "vocab_size"),
        dim=hf_config.need(config, "hidden_size"),
        hidden=hf_config.need(config, "intermediate_size"),
        layers=hf_config.need(config, "num_hidden_layers"),
        heads=hf_config.need(config, "num_attention_heads"),
        positions=f"learned:length={hf_config.need(config, 'max_position_embeddings')}",
        segments=hf_config.need({"type_vocab_size": 2, **config}, "type_vocab_size"),
        activation=hf_config.activation(config, "hidden_act", "gelu"),
        dropout=hf_config.dropout(config, "hidden_dropout_prob"),
    )


def ties(config: BERTConfig) -> dict[str, str]:
    """Names that may stand in a file for a tensor that has another name."""
    return {
        "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
        "cls.predictions.decoder.bias": "cls.predictions.bias",
    }


def write_config(model: BERT) -> dict[str, Any]:
    config = model.config
    if config.mechanism != "dot" or not config.positions.startswith("learned"):
        raise UserError(
            f"Hugging Face's BERT has dot attention and learned positions; this one has {config.mechanism!r} and "
            f"{config.positions!r}, and cannot be written as one"
        )
    return {
        "model_type": "bert",
        "architectures": ["BertForPreTraining"],
        "vocab_size": config.vocab,
        "hidden_size": config.dim,
        "intermediate_size": config.hidden,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "max_position_embeddings": model.get_parameter("positions.table").shape[0],
        "type_vocab_size": config.segments,
        "hidden_act": hf_config.activation_back(config.activation),
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": 0.0,
        "layer_norm_eps": EPS,
        "pad_token_id": 0,
    }


def pairs(config: BERTConfig) -> list[p.Pair]:
    table = [
        p.same("embed.weight", "bert.embeddings.word_embeddings.weight"),
        p.same("positions.table", "bert.embeddings.position_embeddings.weight"),
        p.same("segments.weight", "bert.embeddings.token_type_embeddings.weight"),
        *p.linear("norm", "bert.embeddings.LayerNorm"),
        *p.linear("pooler", "bert.pooler.dense"),
        *p.linear("word", "cls.predictions.transform.dense"),
        *p.linear("word_norm", "cls.predictions.transform.LayerNorm"),
        p.same("word_bias", "cls.predictions.bias"),
        *p.linear("next", "cls.seq_relationship"),
    ]
    for i in range(config.layers):
        ours, theirs = f"layers.{i}", f"bert.encoder.layer.{i}"
        parts = [f"{theirs}.attention.self.{part}" for part in ("query", "key", "value")]
        table += [
            *p.stacked_linear(f"{ours}.attention.mechanism.qkv", parts),
            *p.linear(f"{ours}.attention.out", f"{theirs}.attention.output.dense"),
            *p.linear(f"{ours}.attention_residual.norm", f"{theirs}.attention.output.LayerNorm"),
            *p.linear(f"{ours}.ffn.up", f"{theirs}.intermediate.dense"),
            *p.linear(f"{ours}.ffn.down", f"{theirs}.output.dense"),
            *p.linear(f"{ours}.ffn_residual.norm", f"{theirs}.output.LayerNorm"),
        ]
    return table


def to_regard(state: Mapping[str, Tensor], config: BERTConfig) -> dict[str, Tensor]:
    return p.to_regard(state, pairs(config))


def to_hf(state: Mapping[str, Tensor], config: BERTConfig) -> dict[str, Tensor]:
    return p.to_hf(state, pairs(config))
