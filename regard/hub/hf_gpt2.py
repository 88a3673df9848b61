"""GPT-2 to and from Hugging Face (model_type "gpt2": GPT2Model, GPT2LMHeadModel)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from regard.errors import UserError
from regard.hub import hf_config
from regard.hub import tensor_map as p
from regard.models.gpt import GPT, GPTConfig

MODEL = GPT
PREFIX = "transformer."


def read_config(config: Mapping[str, Any], state: Mapping[str, Tensor]) -> GPTConfig:
    hf_config.only(config, "scale_attn_weights", True, "regard's dot attention is scaled")
    hf_config.only(config, "scale_attn_by_inverse_layer_idx", False, "regard scales every layer alike")
    hf_config.only(config, "add_cross_attention", False, "regard's GPT has one sequence")
    hf_config.only(config, "layer_norm_epsilon", 1e-5, "regard's GPT has the paper's norm")
    return GPTConfig(
        vocab=hf_config.need(config, "vocab_size"),
        dim=hf_config.need(config, "n_embd"),
        layers=hf_config.need(config, "n_layer"),
        heads=hf_config.need(config, "n_head"),
        hidden=None if config.get("n_inner") is None else hf_config.need(config, "n_inner"),
        positions=f"learned:length={hf_config.need(config, 'n_positions')}",
        activation=hf_config.activation(config, "activation_function", "gelu_new"),
        dropout=hf_config.dropout(config, "resid_pdrop"),
    )


def ties(config: GPTConfig) -> dict[str, str]:
    """Names that may stand in a file for a tensor that has another name."""
    return {"lm_head.weight": "transformer.wte.weight"}


def write_config(model: GPT) -> dict[str, Any]:
    config = model.config
    if config.mechanism != "dot" or not config.positions.startswith("learned") or not config.bias:
        raise UserError(
            "Hugging Face's GPT-2 has dot attention, learned positions and biases; this one has "
            f"{config.mechanism!r}, {config.positions!r} and bias={config.bias}, and cannot be written as one"
        )
    return {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": config.vocab,
        "n_embd": config.dim,
        "n_layer": config.layers,
        "n_head": config.heads,
        "n_inner": config.hidden,
        "n_positions": model.get_parameter("positions.table").shape[0],
        "activation_function": hf_config.activation_back(config.activation),
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "attn_pdrop": 0.0,
        "layer_norm_epsilon": 1e-5,
        "pad_token_id": 0,
        "bos_token_id": 2,
        "eos_token_id": 3,
    }


def pairs(config: GPTConfig) -> list[p.Pair]:
    """Their linear maps are written (in, out); queries, keys and values are one matrix there too."""
    table = [
        p.same("embed.weight", "transformer.wte.weight"),
        p.same("positions.table", "transformer.wpe.weight"),
        *p.linear("norm", "transformer.ln_f"),
    ]
    for i in range(config.layers):
        ours, theirs = f"layers.{i}", f"transformer.h.{i}"
        table += [
            *p.linear(f"{ours}.attention_residual.norm", f"{theirs}.ln_1"),
            *p.linear(f"{ours}.ffn_residual.norm", f"{theirs}.ln_2"),
            *_conv(f"{ours}.attention.mechanism.qkv", f"{theirs}.attn.c_attn"),
            *_conv(f"{ours}.attention.out", f"{theirs}.attn.c_proj"),
            *_conv(f"{ours}.ffn.up", f"{theirs}.mlp.c_fc"),
            *_conv(f"{ours}.ffn.down", f"{theirs}.mlp.c_proj"),
        ]
    return table


def _conv(ours: str, theirs: str) -> list[p.Pair]:
    return [p.turned(f"{ours}.weight", f"{theirs}.weight"), p.same(f"{ours}.bias", f"{theirs}.bias")]


def to_regard(state: Mapping[str, Tensor], config: GPTConfig) -> dict[str, Tensor]:
    return p.to_regard(state, pairs(config))


def to_hf(state: Mapping[str, Tensor], config: GPTConfig) -> dict[str, Tensor]:
    return p.to_hf(state, pairs(config))
