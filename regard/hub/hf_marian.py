"""Marian from and to Hugging Face (model_type "marian": MarianMTModel, MarianModel).

Hugging Face stores the positions as a table that follows from the sizes. It is not read and not written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from regard.hub.hf_config import hf_activation, read_activation, read_dropout, require_int, require_value
from regard.hub.hf_family import HFFamily
from regard.hub.tensor_map import TensorPair, linear, same, stacked_linear
from regard.models.marian import Marian, MarianConfig


class MarianFamily(HFFamily):
    """Marian with one vocabulary and the same sizes on both sides."""

    model_class = Marian
    prefix = "model."

    def read_config(self, hf_config: Mapping[str, Any], state: Mapping[str, Tensor]) -> MarianConfig:
        require_value(
            hf_config, "share_encoder_decoder_embeddings", True, "regard's Marian has one vocabulary for both sides"
        )
        heads, hidden = require_int(hf_config, "encoder_attention_heads"), require_int(hf_config, "encoder_ffn_dim")
        require_value(hf_config, "decoder_attention_heads", heads, "regard's Marian has the same heads on both sides")
        require_value(hf_config, "decoder_ffn_dim", hidden, "regard's Marian has the same widths on both sides")
        return MarianConfig(
            dim=require_int(hf_config, "d_model"),
            hidden=hidden,
            layers=require_int(hf_config, "encoder_layers"),
            decoder_layers=require_int(hf_config, "decoder_layers"),
            heads=heads,
            activation=read_activation(hf_config, "activation_function", "gelu"),
            scale_embedding=bool(hf_config.get("scale_embedding", False)),
            dropout=read_dropout(hf_config, "dropout"),
        )

    def tied_names(self, config: MarianConfig) -> dict[str, str]:
        names = ("lm_head.weight", "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight")
        return dict.fromkeys(names, "model.shared.weight")

    def write_config(self, model: Marian) -> dict[str, Any]:
        config, vocab_size = model.config, model.embed.num_embeddings
        return {
            "model_type": "marian",
            "architectures": ["MarianMTModel"],
            "vocab_size": vocab_size,
            "decoder_vocab_size": vocab_size,
            "d_model": config.dim,
            "encoder_layers": config.layers,
            "decoder_layers": config.decoder_layers or config.layers,
            "encoder_attention_heads": config.heads,
            "decoder_attention_heads": config.heads,
            "encoder_ffn_dim": config.hidden,
            "decoder_ffn_dim": config.hidden,
            "max_position_embeddings": 1024,
            "activation_function": hf_activation(config.activation),
            "scale_embedding": config.scale_embedding,
            "dropout": config.dropout,
            "attention_dropout": 0.0,
            "share_encoder_decoder_embeddings": True,
            "pad_token_id": 0,
            "bos_token_id": 2,
            "eos_token_id": 3,
            "forced_eos_token_id": 3,
            "decoder_start_token_id": 2,
        }

    def tensor_pairs(self, config: MarianConfig) -> list[TensorPair]:
        pairs = [
            same("embed.weight", "model.shared.weight"),
            TensorPair("bias", ("final_logits_bias",), lambda parts: parts[0][0], lambda whole: [whole[None]]),
        ]
        for side, layers in (("encoder", config.layers), ("decoder", config.decoder_layers or config.layers)):
            for i in range(layers):
                block, hf_block = f"{side}.{i}", f"model.{side}.layers.{i}"
                pairs += [
                    *_attention_pairs(f"{block}.attention", f"{hf_block}.self_attn"),
                    *linear(f"{block}.attention_residual.norm", f"{hf_block}.self_attn_layer_norm"),
                    *linear(f"{block}.ffn.up", f"{hf_block}.fc1"),
                    *linear(f"{block}.ffn.down", f"{hf_block}.fc2"),
                    *linear(f"{block}.ffn_residual.norm", f"{hf_block}.final_layer_norm"),
                ]
                if side == "decoder":
                    pairs += _attention_pairs(f"{block}.cross_attention", f"{hf_block}.encoder_attn")
                    pairs += linear(f"{block}.cross_attention_residual.norm", f"{hf_block}.encoder_attn_layer_norm")
        return pairs


def _attention_pairs(name: str, hf_name: str) -> list[TensorPair]:
    qkv = [f"{hf_name}.{part}_proj" for part in "qkv"]
    return [*stacked_linear(f"{name}.mechanism.qkv", qkv), *linear(f"{name}.out", f"{hf_name}.out_proj")]


MARIAN_FAMILY = MarianFamily()
