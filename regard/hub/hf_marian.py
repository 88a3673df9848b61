"""Marian to and from Hugging Face (model_type "marian": MarianMTModel, MarianModel).

Their positions are a fixed table that follows from the sizes; it is not read and not written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from regard.hub import hf_config
from regard.hub import tensor_map as p
from regard.models.marian import Marian, MarianConfig

MODEL = Marian
PREFIX = "model."


def read_config(config: Mapping[str, Any], state: Mapping[str, Tensor]) -> MarianConfig:
    hf_config.only(
        config, "share_encoder_decoder_embeddings", True, "regard's Marian has one vocabulary for both sides"
    )
    heads, hidden = hf_config.need(config, "encoder_attention_heads"), hf_config.need(config, "encoder_ffn_dim")
    hf_config.only(config, "decoder_attention_heads", heads, "regard's Marian has the same heads on both sides")
    hf_config.only(config, "decoder_ffn_dim", hidden, "regard's Marian has the same widths on both sides")
    return MarianConfig(
        vocab=hf_config.need(config, "vocab_size"),
        dim=hf_config.need(config, "d_model"),
        hidden=hidden,
        layers=hf_config.need(config, "encoder_layers"),
        decoder_layers=hf_config.need(config, "decoder_layers"),
        heads=heads,
        activation=hf_config.activation(config, "activation_function", "gelu"),
        scaled=bool(config.get("scale_embedding", False)),
        dropout=hf_config.dropout(config, "dropout"),
    )


def ties(config: MarianConfig) -> dict[str, str]:
    """Names that may stand in a file for a tensor that has another name."""
    return {
        "lm_head.weight": "model.shared.weight",
        "model.encoder.embed_tokens.weight": "model.shared.weight",
        "model.decoder.embed_tokens.weight": "model.shared.weight",
    }


def write_config(model: Marian) -> dict[str, Any]:
    config = model.config
    return {
        "model_type": "marian",
        "architectures": ["MarianMTModel"],
        "vocab_size": config.vocab,
        "decoder_vocab_size": config.vocab,
        "d_model": config.dim,
        "encoder_layers": config.layers,
        "decoder_layers": config.decoder_layers or config.layers,
        "encoder_attention_heads": config.heads,
        "decoder_attention_heads": config.heads,
        "encoder_ffn_dim": config.hidden,
        "decoder_ffn_dim": config.hidden,
        "max_position_embeddings": 1024,
        "activation_function": hf_config.activation_back(config.activation),
        "scale_embedding": config.scaled,
        "dropout": config.dropout,
        "attention_dropout": 0.0,
        "share_encoder_decoder_embeddings": True,
        "pad_token_id": 0,
        "bos_token_id": 2,
        "eos_token_id": 3,
        "forced_eos_token_id": 3,
        "decoder_start_token_id": 2,
    }


def pairs(config: MarianConfig) -> list[p.Pair]:
    table = [
        p.same("embed.weight", "model.shared.weight"),
        p.Pair("bias", ("final_logits_bias",), lambda parts: parts[0][0], lambda whole: [whole[None]]),
    ]
    for side, count in (("encoder", config.layers), ("decoder", config.decoder_layers or config.layers)):
        for i in range(count):
            ours, theirs = f"{side}.{i}", f"model.{side}.layers.{i}"
            table += [
                *_attention(f"{ours}.attention", f"{theirs}.self_attn"),
                *p.linear(f"{ours}.attention_residual.norm", f"{theirs}.self_attn_layer_norm"),
                *p.linear(f"{ours}.ffn.up", f"{theirs}.fc1"),
                *p.linear(f"{ours}.ffn.down", f"{theirs}.fc2"),
                *p.linear(f"{ours}.ffn_residual.norm", f"{theirs}.final_layer_norm"),
            ]
            if side == "decoder":
                table += _attention(f"{ours}.cross_attention", f"{theirs}.encoder_attn")
                table += p.linear(f"{ours}.cross_attention_residual.norm", f"{theirs}.encoder_attn_layer_norm")
    return table


def _attention(ours: str, theirs: str) -> list[p.Pair]:
    parts = [f"{theirs}.{part}_proj" for part in "qkv"]
    return [*p.stacked_linear(f"{ours}.mechanism.qkv", parts), *p.linear(f"{ours}.out", f"{theirs}.out_proj")]


def to_regard(state: Mapping[str, Tensor], config: MarianConfig) -> dict[str, Tensor]:
    return p.to_regard(state, pairs(config))


def to_hf(state: Mapping[str, Tensor], config: MarianConfig) -> dict[str, Tensor]:
    return p.to_hf(state, pairs(config))
