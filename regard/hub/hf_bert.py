"""BERT from and to Hugging Face (model_type "bert": BertModel, BertForPreTraining, BertForMaskedLM and others)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from regard.errors import UserError
from regard.hub.hf_config import hf_activation, read_activation, read_dropout, require_int, require_value
from regard.hub.hf_family import HFFamily
from regard.hub.tensor_map import TensorPair, linear, same, stacked_linear
from regard.layers.norm_placement import EPS
from regard.models.bert import BERT, BERTConfig


class BertFamily(HFFamily):
    """BERT with a norm after each sublayer."""

    model_class = BERT
    prefix = "bert."

    def read_config(self, hf_config: Mapping[str, Any], state: Mapping[str, Tensor]) -> BERTConfig:
        require_value(hf_config, "position_embedding_type", "absolute", "regard's BERT has learned positions")
        require_value(hf_config, "is_decoder", False, "regard's BERT is bidirectional")
        require_value(hf_config, "add_cross_attention", False, "regard's BERT is an encoder")
        require_value(hf_config, "layer_norm_eps", EPS["post"], "regard's BERT has the norm of the paper")
        return BERTConfig(
            dim=require_int(hf_config, "hidden_size"),
            hidden=require_int(hf_config, "intermediate_size"),
            layers=require_int(hf_config, "num_hidden_layers"),
            heads=require_int(hf_config, "num_attention_heads"),
            positions=f"learned:length={require_int(hf_config, 'max_position_embeddings')}",
            segments=require_int({"type_vocab_size": 2, **hf_config}, "type_vocab_size"),
            activation=read_activation(hf_config, "hidden_act", "gelu"),
            dropout=read_dropout(hf_config, "hidden_dropout_prob"),
        )

    def tied_names(self, config: BERTConfig) -> dict[str, str]:
        return {
            "cls.predictions.decoder.weight": "bert.embeddings.word_embeddings.weight",
            "cls.predictions.decoder.bias": "cls.predictions.bias",
        }

    def write_config(self, model: BERT) -> dict[str, Any]:
        config = model.config
        if config.mechanism != "dot" or not config.positions.startswith("learned") or config.norm != "post":
            raise UserError(
                "cannot save as Hugging Face's BERT, which has dot attention, learned positions and norm=post: this "
                f"model has {config.mechanism!r}, {config.positions!r} and norm={config.norm}"
            )
        return {
            "model_type": "bert",
            "architectures": ["BertForPreTraining"],
            "vocab_size": model.embed.num_embeddings,
            "hidden_size": config.dim,
            "intermediate_size": config.hidden,
            "num_hidden_layers": config.layers,
            "num_attention_heads": config.heads,
            "max_position_embeddings": model.get_parameter("positions.table").shape[0],
            "type_vocab_size": config.segments,
            "hidden_act": hf_activation(config.activation),
            "hidden_dropout_prob": config.dropout,
            "attention_probs_dropout_prob": 0.0,
            "layer_norm_eps": EPS["post"],
            "pad_token_id": 0,
        }

    def tensor_pairs(self, config: BERTConfig) -> list[TensorPair]:
        pairs = [
            same("embed.weight", "bert.embeddings.word_embeddings.weight"),
            same("positions.table", "bert.embeddings.position_embeddings.weight"),
            same("segments.weight", "bert.embeddings.token_type_embeddings.weight"),
            *linear("first_norm", "bert.embeddings.LayerNorm"),
            *linear("pooler", "bert.pooler.dense"),
            *linear("mlm_dense", "cls.predictions.transform.dense"),
            *linear("mlm_norm", "cls.predictions.transform.LayerNorm"),
            same("mlm_bias", "cls.predictions.bias"),
            *linear("next_sentence", "cls.seq_relationship"),
        ]
        for i in range(config.layers):
            block, hf_block = f"layers.{i}", f"bert.encoder.layer.{i}"
            qkv = [f"{hf_block}.attention.self.{part}" for part in ("query", "key", "value")]
            pairs += [
                *stacked_linear(f"{block}.attention.mechanism.qkv", qkv),
                *linear(f"{block}.attention.out", f"{hf_block}.attention.output.dense"),
                *linear(f"{block}.attention_residual.norm", f"{hf_block}.attention.output.LayerNorm"),
                *linear(f"{block}.ffn.up", f"{hf_block}.intermediate.dense"),
                *linear(f"{block}.ffn.down", f"{hf_block}.output.dense"),
                *linear(f"{block}.ffn_residual.norm", f"{hf_block}.output.LayerNorm"),
            ]
        return pairs


BERT_FAMILY = BertFamily()
