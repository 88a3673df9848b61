"""T5 to and from Hugging Face (model_type "t5": T5ForConditionalGeneration; 1.0 and 1.1).

T5 does not divide its scores by sqrt(d_k); regard always does. So W_Q is multiplied by sqrt(d_k) on the way in and
divided by it on the way out. With d_k = 4, 16, 64 or 256 (64 in all published ones but the 3B and 11B of 1.0, which
have 128) that is a power of two and exact, so the weights come back bit by bit; otherwise W_Q comes back within one
unit in the last place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from regard.errors import UserError
from regard.hub import hf_config
from regard.hub import tensor_map as p
from regard.models.t5 import T5, T5Config

MODEL = T5
PREFIX = ""
FEEDS = {"relu": False, "gated-gelu": True}


def read_config(config: Mapping[str, Any], state: Mapping[str, Tensor]) -> T5Config:
    hf_config.only(config, "relative_attention_num_buckets", 32, "regard's T5 has the paper's positions")
    hf_config.only(config, "relative_attention_max_distance", 128, "regard's T5 has the paper's positions")
    hf_config.only(config, "layer_norm_epsilon", 1e-6, "regard's T5 has the paper's norm")
    feed = config.get("feed_forward_proj", "relu")
    if not isinstance(feed, str) or feed not in FEEDS:
        raise UserError(f"config.json gives feed_forward_proj = {feed!r}; known are {', '.join(FEEDS)}")
    return T5Config(
        vocab=hf_config.need(config, "vocab_size"),
        dim=hf_config.need(config, "d_model"),
        hidden=hf_config.need(config, "d_ff"),
        layers=hf_config.need(config, "num_layers"),
        decoder_layers=None
        if config.get("num_decoder_layers") is None
        else hf_config.need(config, "num_decoder_layers"),
        heads=hf_config.need(config, "num_heads"),
        key_width=hf_config.need(config, "d_kv"),
        gated=FEEDS[feed],
        tied=_tied(config, state),
        dropout=hf_config.dropout(config, "dropout_rate"),
    )


def _tied(config: Mapping[str, Any], state: Mapping[str, Tensor]) -> bool:
    """The head of 1.0 is E / sqrt(dim), that of 1.1 a matrix of its own, undivided. Newer files say whether it is
    divided; older ones only whether it is tied."""
    divided = config.get("scale_decoder_outputs", config.get("tie_word_embeddings") is not False)
    own, shared = state.get("lm_head.weight"), state.get("shared.weight")
    if divided and own is not None and shared is not None and not torch.equal(own, shared):
        raise UserError(
            "config.json says that T5's head is tied with its embeddings, and the file's lm_head.weight is another "
            'matrix; for T5 1.1 set "tie_word_embeddings": false in config.json'
        )
    return bool(divided)


def ties(config: T5Config) -> dict[str, str]:
    """Names that may stand in a file for a tensor that has another name."""
    table = {f"{side}.embed_tokens.weight": "shared.weight" for side in ("encoder", "decoder")}
    return {**table, "lm_head.weight": "shared.weight"} if config.tied else table


def write_config(model: T5) -> dict[str, Any]:
    config = model.config
    return {
        "model_type": "t5",
        "architectures": ["T5ForConditionalGeneration"],
        "vocab_size": config.vocab,
        "d_model": config.dim,
        "d_ff": config.hidden,
        "d_kv": config.key_width,
        "num_layers": config.layers,
        "num_decoder_layers": config.decoder_layers or config.layers,
        "num_heads": config.heads,
        "relative_attention_num_buckets": 32,
        "relative_attention_max_distance": 128,
        "feed_forward_proj": next(name for name, gated in FEEDS.items() if gated == config.gated),
        "layer_norm_epsilon": 1e-6,
        "dropout_rate": config.dropout,
        "tie_word_embeddings": config.tied,
        "scale_decoder_outputs": config.tied,
        "pad_token_id": 0,
        "bos_token_id": 2,
        "eos_token_id": 3,
        "decoder_start_token_id": 2,
    }


def pairs(config: T5Config) -> list[p.Pair]:
    table = [p.same("embed.weight", "shared.weight")]
    if not config.tied:
        table.append(p.same("out.weight", "lm_head.weight"))
    for side, count in (("encoder", config.layers), ("decoder", config.decoder_layers or config.layers)):
        bias = f"{side}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"
        table.append(p.same(f"{side}_positions.table", bias))
        table.append(p.same(f"{side}_norm.weight", f"{side}.final_layer_norm.weight"))
        for i in range(count):
            table += _block(side, i, config)
    return table


def _block(side: str, i: int, config: T5Config) -> list[p.Pair]:
    ours, theirs = f"{side}.{i}", f"{side}.block.{i}.layer"
    feed, last = ("DenseReluDense", 2 if side == "decoder" else 1)
    names = {"gate": "wi_0", "up": "wi_1", "down": "wo"} if config.gated else {"up": "wi", "down": "wo"}
    table = [
        *_attention(f"{ours}.attention", f"{theirs}.0.SelfAttention", config),
        p.same(f"{ours}.attention_residual.norm.weight", f"{theirs}.0.layer_norm.weight"),
        *(p.same(f"{ours}.ffn.{a}.weight", f"{theirs}.{last}.{feed}.{b}.weight") for a, b in names.items()),
        p.same(f"{ours}.ffn_residual.norm.weight", f"{theirs}.{last}.layer_norm.weight"),
    ]
    if side == "decoder":
        table += _attention(f"{ours}.cross_attention", f"{theirs}.1.EncDecAttention", config)
        table.append(p.same(f"{ours}.cross_attention_residual.norm.weight", f"{theirs}.1.layer_norm.weight"))
    return table


def _attention(ours: str, theirs: str, config: T5Config) -> list[p.Pair]:
    root = config.key_width**0.5

    def join(parts: list[Tensor]) -> Tensor:
        return torch.cat([parts[0] * root, *parts[1:]])

    def split(whole: Tensor) -> list[Tensor]:
        q, k, v = whole.chunk(3)
        return [q / root, k, v]

    names = tuple(f"{theirs}.{part}.weight" for part in "qkv")
    return [
        p.Pair(f"{ours}.mechanism.qkv.weight", names, join, split),
        p.same(f"{ours}.out.weight", f"{theirs}.o.weight"),
    ]


def to_regard(state: Mapping[str, Tensor], config: T5Config) -> dict[str, Tensor]:
    if not config.tied and "shared.weight" in state:  # a head that is not in the file is equal to the embeddings
        state = {"lm_head.weight": state["shared.weight"].clone(), **state}
    return p.to_regard(state, pairs(config))


def to_hf(state: Mapping[str, Tensor], config: T5Config) -> dict[str, Tensor]:
    return p.to_hf(state, pairs(config))
