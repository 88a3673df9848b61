"""GPT-2 from and to Hugging Face (model_type "gpt2": GPT2Model, GPT2LMHeadModel)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from regard.errors import UserError
from regard.hub.hf_config import hf_activation, read_activation, read_dropout, require_int, require_value
from regard.hub.hf_family import HFFamily
from regard.hub.tensor_map import TensorPair, linear, same, transposed
from regard.models.gpt import GPT, GPTConfig


class GPT2Family(HFFamily):
    """GPT-2. Hugging Face stores its linear layers as (in, out)."""

    model_class = GPT
    prefix = "transformer."

    def read_config(self, hf_config: Mapping[str, Any], state: Mapping[str, Tensor]) -> GPTConfig:
        require_value(hf_config, "scale_attn_weights", True, "regard's dot attention is scaled")
        require_value(hf_config, "scale_attn_by_inverse_layer_idx", False, "regard scales all layers the same")
        require_value(hf_config, "add_cross_attention", False, "regard's GPT has one sequence")
        require_value(hf_config, "layer_norm_epsilon", 1e-5, "regard's GPT has the norm of the paper")
        return GPTConfig(
            dim=require_int(hf_config, "n_embd"),
            layers=require_int(hf_config, "n_layer"),
            heads=require_int(hf_config, "n_head"),
            hidden=None if hf_config.get("n_inner") is None else require_int(hf_config, "n_inner"),
            positions=f"learned:length={require_int(hf_config, 'n_positions')}",
            activation=read_activation(hf_config, "activation_function", "gelu_new"),
            dropout=read_dropout(hf_config, "resid_pdrop"),
        )

    def tied_names(self, config: GPTConfig) -> dict[str, str]:
        return {"lm_head.weight": "transformer.wte.weight"}

    def write_config(self, model: GPT) -> dict[str, Any]:
        config = model.config
        if config.mechanism != "dot" or not config.positions.startswith("learned") or not config.bias:
            raise UserError(
                "cannot save as Hugging Face's GPT-2, which has dot attention, learned positions and biases: this "
                f"model has {config.mechanism!r}, {config.positions!r} and bias={config.bias}"
            )
        return {
            "model_type": "gpt2",
            "architectures": ["GPT2LMHeadModel"],
            "vocab_size": model.embed.num_embeddings,
            "n_embd": config.dim,
            "n_layer": config.layers,
            "n_head": config.heads,
            "n_inner": config.hidden,
            "n_positions": model.get_parameter("positions.table").shape[0],
            "activation_function": hf_activation(config.activation),
            "resid_pdrop": config.dropout,
            "embd_pdrop": config.dropout,
            "attn_pdrop": 0.0,
            "layer_norm_epsilon": 1e-5,
            "pad_token_id": 0,
            "bos_token_id": 2,
            "eos_token_id": 3,
        }

    def tensor_pairs(self, config: GPTConfig) -> list[TensorPair]:
        pairs = [
            same("embed.weight", "transformer.wte.weight"),
            same("positions.table", "transformer.wpe.weight"),
            *linear("norm", "transformer.ln_f"),
        ]
        for i in range(config.layers):
            block, hf_block = f"layers.{i}", f"transformer.h.{i}"
            pairs += [
                *linear(f"{block}.attention_residual.norm", f"{hf_block}.ln_1"),
                *linear(f"{block}.ffn_residual.norm", f"{hf_block}.ln_2"),
                *_conv1d(f"{block}.attention.mechanism.qkv", f"{hf_block}.attn.c_attn"),
                *_conv1d(f"{block}.attention.out", f"{hf_block}.attn.c_proj"),
                *_conv1d(f"{block}.ffn.up", f"{hf_block}.mlp.c_fc"),
                *_conv1d(f"{block}.ffn.down", f"{hf_block}.mlp.c_proj"),
            ]
        return pairs


def _conv1d(name: str, hf_name: str) -> list[TensorPair]:
    """A linear layer that is stored as (in, out)."""
    return [transposed(f"{name}.weight", f"{hf_name}.weight"), same(f"{name}.bias", f"{hf_name}.bias")]


GPT2_FAMILY = GPT2Family()
