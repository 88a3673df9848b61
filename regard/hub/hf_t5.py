"""T5 from and to Hugging Face (model_type "t5": T5ForConditionalGeneration; 1.0 and 1.1).

T5 does not divide its scores by sqrt(d_k); regard always does. So W_Q is multiplied by sqrt(d_k) when it is imported
and divided by it when it is exported. With d_k = 4, 16, 64 or 256 (64 in all published models but the 3B and 11B of
1.0, which have 128) that is a power of two and exact, so the exported weights are bit-identical. Otherwise W_Q differs
by at most one unit in the last place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from regard.errors import UserError
from regard.hub.hf_config import read_dropout, require_int, require_value
from regard.hub.hf_family import HFFamily
from regard.hub.tensor_map import TensorPair, same
from regard.models.t5 import T5, T5Config

GATED_FFN = {"relu": False, "gated-gelu": True}
"""Hugging Face's feed_forward_proj to `T5Config.gated_ffn`."""


class T5Family(HFFamily):
    """T5 1.0 and 1.1."""

    model_class = T5

    def read_config(self, hf_config: Mapping[str, Any], state: Mapping[str, Tensor]) -> T5Config:
        require_value(hf_config, "relative_attention_num_buckets", 32, "regard's T5 has the positions of the paper")
        require_value(hf_config, "relative_attention_max_distance", 128, "regard's T5 has the positions of the paper")
        require_value(hf_config, "layer_norm_epsilon", 1e-6, "regard's T5 has the norm of the paper")
        ffn = hf_config.get("feed_forward_proj", "relu")
        if not isinstance(ffn, str) or ffn not in GATED_FFN:
            raise UserError(f"config.json: feed_forward_proj = {ffn!r} is not supported; use {' or '.join(GATED_FFN)}")
        has_decoder_layers = hf_config.get("num_decoder_layers") is not None
        return T5Config(
            dim=require_int(hf_config, "d_model"),
            hidden=require_int(hf_config, "d_ff"),
            layers=require_int(hf_config, "num_layers"),
            decoder_layers=require_int(hf_config, "num_decoder_layers") if has_decoder_layers else None,
            heads=require_int(hf_config, "num_heads"),
            key_width=require_int(hf_config, "d_kv"),
            gated_ffn=GATED_FFN[ffn],
            tied_head=_has_tied_head(hf_config, state),
            dropout=read_dropout(hf_config, "dropout_rate"),
        )

    def tied_names(self, config: T5Config) -> dict[str, str]:
        names = ["encoder.embed_tokens.weight", "decoder.embed_tokens.weight"]
        return dict.fromkeys([*names, "lm_head.weight"] if config.tied_head else names, "shared.weight")

    def write_config(self, model: T5) -> dict[str, Any]:
        config = model.config
        return {
            "model_type": "t5",
            "architectures": ["T5ForConditionalGeneration"],
            "vocab_size": model.embed.num_embeddings,
            "d_model": config.dim,
            "d_ff": config.hidden,
            "d_kv": config.key_width,
            "num_layers": config.layers,
            "num_decoder_layers": config.decoder_layers or config.layers,
            "num_heads": config.heads,
            "relative_attention_num_buckets": 32,
            "relative_attention_max_distance": 128,
            "feed_forward_proj": "gated-gelu" if config.gated_ffn else "relu",
            "layer_norm_epsilon": 1e-6,
            "dropout_rate": config.dropout,
            "tie_word_embeddings": config.tied_head,
            "scale_decoder_outputs": config.tied_head,
            "pad_token_id": 0,
            "bos_token_id": 2,
            "eos_token_id": 3,
            "decoder_start_token_id": 2,
        }

    def tensor_pairs(self, config: T5Config) -> list[TensorPair]:
        pairs = [same("embed.weight", "shared.weight")]
        if not config.tied_head:
            pairs.append(same("out.weight", "lm_head.weight"))
        for side, layers in (("encoder", config.layers), ("decoder", config.decoder_layers or config.layers)):
            bias = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
            pairs.append(same(f"{side}_positions.table", bias))
            pairs.append(same(f"{side}_norm.weight", f"{side}.final_layer_norm.weight"))
            for i in range(layers):
                pairs += _block_pairs(side, i, config)
        return pairs

    def to_regard(self, state: Mapping[str, Tensor], config: T5Config) -> dict[str, Tensor]:
        if not config.tied_head and "shared.weight" in state:  # a head that is not in the file equals the embeddings
            state = {"lm_head.weight": state["shared.weight"].clone(), **state}
        return super().to_regard(state, config)


def _has_tied_head(hf_config: Mapping[str, Any], state: Mapping[str, Tensor]) -> bool:
    """Whether the head is E / sqrt(dim), as in 1.0. In 1.1 it is a separate matrix and not divided.

    Newer files tell whether it is divided, older ones only whether it is tied.
    """
    is_divided = hf_config.get("scale_decoder_outputs", hf_config.get("tie_word_embeddings") is not False)
    head, shared = state.get("lm_head.weight"), state.get("shared.weight")
    if is_divided and head is not None and shared is not None and not torch.equal(head, shared):
        raise UserError(
            "config.json says that T5's head is tied with its embeddings, but lm_head.weight in the file is another "
            'matrix; for T5 1.1 set "tie_word_embeddings": false in config.json'
        )
    return bool(is_divided)


def _block_pairs(side: str, i: int, config: T5Config) -> list[TensorPair]:
    block, hf_block = f"{side}.{i}", f"{side}.block.{i}.layer"
    hf_ffn = f"{hf_block}.{2 if side == 'decoder' else 1}"
    ffn_names = {"gate": "wi_0", "up": "wi_1", "down": "wo"} if config.gated_ffn else {"up": "wi", "down": "wo"}
    pairs = [
        *_attention_pairs(f"{block}.attention", f"{hf_block}.0.SelfAttention", config),
        same(f"{block}.attention_residual.norm.weight", f"{hf_block}.0.layer_norm.weight"),
        *(
            same(f"{block}.ffn.{name}.weight", f"{hf_ffn}.DenseReluDense.{hf_name}.weight")
            for name, hf_name in ffn_names.items()
        ),
        same(f"{block}.ffn_residual.norm.weight", f"{hf_ffn}.layer_norm.weight"),
    ]
    if side == "decoder":
        pairs += _attention_pairs(f"{block}.cross_attention", f"{hf_block}.1.EncDecAttention", config)
        pairs.append(same(f"{block}.cross_attention_residual.norm.weight", f"{hf_block}.1.layer_norm.weight"))
    return pairs


def _attention_pairs(name: str, hf_name: str, config: T5Config) -> list[TensorPair]:
    root = config.key_width**0.5

    def join(parts: list[Tensor]) -> Tensor:
        return torch.cat([parts[0] * root, *parts[1:]])

    def split(whole: Tensor) -> list[Tensor]:
        q, k, v = whole.chunk(3)
        return [q / root, k, v]

    hf_names = tuple(f"{hf_name}.{part}.weight" for part in "qkv")
    return [
        TensorPair(f"{name}.mechanism.qkv.weight", hf_names, join, split),
        same(f"{name}.out.weight", f"{hf_name}.o.weight"),
    ]


T5_FAMILY = T5Family()
