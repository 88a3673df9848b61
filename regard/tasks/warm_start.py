"""Warm start: train from the tokenizer, the sizes and the weights of another run.

    gpt, bert -> transformer     Embeddings and all layers. The first segment embedding of a BERT is added to its token
                                 embeddings. The pooling and the output layer are new.
    birnn -> bilstm              Token embeddings, with the subword embeddings added, and both recurrent layers.
    birnn -> han                 Token embeddings and both recurrent layers over words (GRUs). Weights for n-gram
                                 features start at zero. The rest is new.
    cnn -> gated-cnn             Embeddings and all layers. The pooling and the output layer are new.
    any -> the same model        All weights, by name.

The log lists which weights were loaded, not used, and new. A warm start may also name a settings file: its run, in a
folder of that name in runs/, is trained first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.config import specs
from regard.config.settings import Settings, load_settings, merge_settings
from regard.errors import UserError
from regard.layers.subword_embedding import sum_ngrams
from regard.models.ensemble import Ensemble
from regard.models.linear_text_model import FittableConfig
from regard.tasks.base import get_task
from regard.tasks.build_settings import field_names, task_models
from regard.tasks.run_dir import read_config, settings_from_config
from regard.training.checkpoint import read_tensors

SETTINGS_FILES = (".yaml", ".yml", ".json")
NOT_ADOPTED = {"vocab_size", "dropout"}
RNN_CELLS = {"bilstm": "lstm", "han": "gru"}
"""Recurrent cells of the classifiers that can start from a birnn."""
Weights = dict[str, Tensor]


def _from_gpt(weights: Weights) -> Weights:
    return _rename(weights, {"embed.weight": "embedding.weight"})


def _from_birnn(weights: Weights) -> Weights:
    """Add the subword embeddings to the embedding of each token."""
    table, ngrams = (weights.get(f"subwords.{part}") for part in ("buckets.weight", "ngrams"))
    if table is not None and ngrams is not None:
        weights = {name: tensor for name, tensor in weights.items() if not name.startswith("subwords.")}
        weights["embed.weight"] = weights["embed.weight"] + sum_ngrams(table, ngrams)
    return _from_gpt(weights)


def _from_birnn_to_han(weights: Weights) -> Weights:
    names = {name: f"word_{name}" for name in weights if name.startswith("rnn.")}
    return _rename(_from_birnn(weights), names)


def _from_bert(weights: Weights) -> Weights:
    """Add the first segment embedding to the embedding of each token."""
    renamed = {name: tensor for name, tensor in weights.items() if name != "segments.weight"}
    renamed["embed.weight"] = weights["embed.weight"] + weights["segments.weight"][0]
    return _from_gpt(renamed)


PARTNERS: dict[tuple[str, str], Callable[[Weights], Weights]] = {
    ("gpt", "transformer"): _from_gpt,
    ("bert", "transformer"): _from_bert,
    ("birnn", "bilstm"): _from_birnn,
    ("birnn", "han"): _from_birnn_to_han,
    ("cnn", "gated-cnn"): _from_gpt,
}
"""(language model, classifier) to the function that renames the weights."""


@dataclass(frozen=True)
class WeightTransfer:
    """What happened to the weights.

    Attributes:
        run: The folder of the run they come from.
        loaded: Names of the loaded weights.
        skipped: Names in the file of the run that were not used.
        new: Names in the new model that keep their initial values.
    """

    run: str
    loaded: list[str]
    skipped: list[str]
    new: list[str]

    def __str__(self) -> str:
        lines = [f"warm start from {self.run}: {len(self.loaded)} tensors loaded"]
        if self.skipped:
            lines.append(f"  not used: {_summarize_names(self.skipped)}")
        lines.append(f"  new: {_summarize_names(self.new)}" if self.new else "  nothing is new")
        return "\n".join(lines)


def recipe_file(warm_start: str | Path) -> Path | None:
    """The settings file that a warm start names; None if it names a run folder."""
    path = Path(warm_start)
    return path if path.suffix.lower() in SETTINGS_FILES and not path.is_dir() else None


def run_folder(warm_start: str | Path) -> Path:
    """The folder of the run that a warm start names."""
    recipe = recipe_file(warm_start)
    return Path(warm_start) if recipe is None else Path("runs") / recipe.stem


def is_finished(folder: Path) -> bool:
    """Whether the folder holds a run whose training is complete."""
    return (folder / "config.json").is_file() and bool(read_config(folder).get("finished"))


def adopt_settings(task: str, tree: Mapping[str, Any]) -> dict[str, Any]:
    """Complete settings with the model, the sizes and the tokenizer of the run that the warm start names.

    Args:
        task: Name of the task to train for.
        tree: Nested mapping of settings. What it contains stays as it is.
    """
    folder, recipe = run_folder(str(tree["warm_start"])), recipe_file(str(tree["warm_start"]))
    if recipe and not is_finished(folder):
        raise UserError(
            f"{folder}, the run of {recipe}, must be trained first: regard train "
            f"{load_settings(recipe).get('task', 'language')} --config {recipe} --out {folder}"
        )
    tree = {**tree, "warm_start": str(folder)}
    config = read_config(folder)
    source: Any = settings_from_config(config)
    if isinstance(source.model, FittableConfig):
        raise UserError(f"{folder} is a fitted {source.model_name}, which has no weights for a warm start")
    if tree.get("tokenizer"):
        raise UserError(f"with a warm start the tokenizer is that of {folder}; leave out the tokenizer settings")
    name = str((tree.get("model") or {}).get("name") or _choose_model(task, source, folder))
    same = (source.task, source.model_name) == (task, name)
    if not same and (source.model_name, name) not in _allowed_pairs(task, source.task):
        raise UserError(
            f"{folder} is a {source.model_name} of the task {source.task!r}. {_describe_uses(source)}, not a {name} "
            f"of {task!r}"
        )
    sizes = _adopt_sizes(source, name, task)
    defaults: dict[str, Any] = {
        "model": {"name": name, **sizes},
        "tokenizer": {"kind": source.tokenizer.kind, "vocab_size": config["vocab_size"]},
    }
    if source.task == task == "language" and tree.get("objective") in (None, source.objective):
        defaults |= {"objective": source.objective, "corruption": dataclasses.asdict(source.corruption)}
    positions, options = specs.parse_spec(str(sizes.get("positions", "none")))
    if task == "classify" and positions == "learned":  # documents are truncated where the positions end
        data = next(f for f in dataclasses.fields(get_task(task).settings_class) if f.name == "data")
        default = data.default_factory().max_tokens  # type: ignore[misc]
        defaults["data"] = {"max_tokens": min(default, int(options.get("length", 512)))}
    return merge_settings(defaults, tree)


def transfer_weights(model: nn.Module, settings: Settings) -> WeightTransfer:
    """Copy the weights of the warm start's run into the model, in place."""
    folder = Path(str(settings.warm_start))
    source = settings_from_config(read_config(folder))
    if isinstance(model, Ensemble) and getattr(source, "ensemble_size", 1) == 1:  # each member starts from that one
        transfers = [transfer_weights(member, settings) for member in model.members]
        return transfers[0]
    stored = read_tensors(folder / "model.safetensors")
    rename = PARTNERS.get((source.model_name, settings.model_name), dict) if source.task != settings.task else dict
    state = model.state_dict()
    weights = {name: _widen_input(name, tensor, state) for name, tensor in rename(stored).items()}
    loaded = [name for name, tensor in weights.items() if name in state and state[name].shape == tensor.shape]
    addresses = {state[name].data_ptr() for name in loaded}  # tied tensors have several names
    new = [name for name, tensor in state.items() if tensor.data_ptr() not in addresses]
    with torch.no_grad():
        for name in loaded:
            state[name].copy_(weights[name])
        for name in new:  # a model without biases equals one with biases of 0
            if name.endswith(".bias") and name.removesuffix("bias") + "weight" in loaded and name not in weights:
                state[name].zero_()
    if not loaded:
        raise UserError(f"no weight of {folder} fits this model; use the same sizes, or leave --from out")
    stored_names = {id(tensor): name for name, tensor in stored.items()}
    skipped = [stored_names.get(id(tensor), name) for name, tensor in weights.items() if name not in loaded]
    return WeightTransfer(str(folder), loaded, skipped, new)


def _widen_input(name: str, tensor: Tensor, state: Mapping[str, Tensor]) -> Tensor:
    """Pad the input weights of a recurrent layer with zeros if the new layer has more input features."""
    if "weight_ih" not in name or name not in state or len(state[name]) != len(tensor):
        return tensor
    missing = state[name].shape[1] - tensor.shape[1]
    return torch.cat((tensor, tensor.new_zeros(len(tensor), missing)), 1) if missing > 0 else tensor


def _allowed_pairs(task: str, source_task: str) -> set[tuple[str, str]]:
    """(model of the run, new model) for a warm start from one task to another."""
    if (source_task, task) == ("language", "recall"):
        return {(name, name) for name in ("gpt", "ngram-gpt")}
    return set(PARTNERS) if (source_task, task) == ("language", "classify") else set()


def _choose_model(task: str, source: Settings, folder: Path) -> str:
    """The model if the settings name none: the same, or its partner."""
    if source.task == task:
        return source.model_name
    partners = [new for old, new in sorted(_allowed_pairs(task, source.task)) if old == source.model_name]
    if not partners:
        raise UserError(
            f"{folder} is a {source.model_name} of the task {source.task!r}. {_describe_uses(source)}, not {task!r}"
        )
    cell = getattr(source.model, "cell", None)
    return next((name for name in partners if RNN_CELLS.get(name, cell) == cell), partners[0])


def _describe_uses(source: Settings) -> str:
    """Which models can start from such a run."""
    uses = [f"a {source.model_name} of {source.task!r}"]
    if source.task == "language":
        uses += [f"a {new} of 'classify'" for old, new in PARTNERS if old == source.model_name]
        uses += [f"a {new} of 'recall'" for _, new in _allowed_pairs("recall", "language") if new == source.model_name]
    return "It can be the warm start of " + " or ".join(uses)


def _adopt_sizes(source: Settings, name: str, task: str) -> dict[str, Any]:
    """The model settings of the run that the new model has too."""
    sizes = dataclasses.asdict(source.model)
    if source.model_name == "gpt":
        sizes["hidden"] = sizes["hidden"] or 4 * sizes["dim"]
    if name == "transformer":
        sizes.setdefault("norm", "pre")
    if source.model_name == "birnn" and name in RNN_CELLS:
        sizes["embed"] = sizes["dim"]
        if sizes["cell"] != RNN_CELLS[name]:
            raise UserError(f"a {name} has {RNN_CELLS[name]!r} cells, but the run has {sizes['cell']!r} cells")
        if name == "han" and sizes["layers"] > 1:
            raise UserError(f"a han has one recurrent layer over words, but the run has {sizes['layers']}")
    fields = set(field_names(task_models(task).find(name))) - NOT_ADOPTED
    return {key: value for key, value in sizes.items() if key in fields}


def _rename(weights: Weights, names: Mapping[str, str]) -> Weights:
    return {names.get(name, name): tensor for name, tensor in weights.items()}


def _summarize_names(names: list[str], limit: int = 6) -> str:
    """List names, with the parts of one layer as one entry."""
    groups = list(dict.fromkeys(n if n.count(".") <= 1 else ".".join(n.split(".")[:2]) + ".*" for n in names))
    return ", ".join(groups[:limit]) + (f" and {len(groups) - limit} more" if len(groups) > limit else "")
