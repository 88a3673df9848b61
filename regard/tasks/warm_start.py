"""Start from another run: its tokenizer, the sizes of its model, and its weights by name where they fit.

    gpt, bert, preln-bert -> transformer     the layers have the same names. The transformer's norms stand where the
                                             model's did (norm="post" for bert); a BERT's first segment is added to its
                                             words. The pooling and the classes are new.
    birnn -> bilstm                          words, with what their letters say, and both recurrent nets.
    birnn -> han                             words and both nets over words (GRUs); what n-grams add to a word is read
                                             with weights of zero at first. The rest is new.
    cnn -> gated-cnn                         words and all layers. The pooling and the classes are new.
    any -> the same model                    by name.

What was loaded, what was not used and what is new is told. An origin may also be a file of settings: its run, in a
folder of that name under runs/, is trained first where it is not there yet.
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
from regard.config.settings import Settings, load, merge
from regard.data.tokenizer import Tokenizer
from regard.errors import UserError
from regard.layers.subword_embedding import spelt
from regard.models.ensemble import Ensemble
from regard.models.linear_text_model import FittableConfig
from regard.tasks.base import kind
from regard.tasks.run_dir import read_config, settings_of
from regard.training.checkpoint import read_tensors

RECIPES = (".yaml", ".yml", ".json")
NO_SIZES = {"vocab", "dropout"}
CELLS = {"bilstm": "lstm", "han": "gru"}
"""What reads the words in classifiers that a birnn can start."""
Weights = dict[str, Tensor]


def _from_gpt(weights: Weights) -> Weights:
    return _renamed(weights, {"embed.weight": "embedding.weight"})


def _from_birnn(weights: Weights) -> Weights:
    """What the letters of words say is added to each word."""
    pieces, runs = (weights.get(f"subwords.{part}") for part in ("pieces.weight", "runs"))
    if pieces is not None and runs is not None:
        weights = {name: tensor for name, tensor in weights.items() if not name.startswith("subwords.")}
        weights["embed.weight"] = weights["embed.weight"] + spelt(pieces, runs)
    return _from_gpt(weights)


def _from_birnn_to_han(weights: Weights) -> Weights:
    names = {name: name.replace("read.", "read_words.", 1) for name in weights if name.startswith("read.")}
    return _renamed(_from_birnn(weights), names)


def _from_bert(weights: Weights) -> Weights:
    words = {name: tensor for name, tensor in weights.items() if name != "segments.weight"}
    words["embed.weight"] = weights["embed.weight"] + weights["segments.weight"][0]
    return _renamed(words, {"embed.weight": "embedding.weight"})


def _from_post_norm(weights: Weights) -> Weights:
    return _renamed(_from_bert(weights), {f"norm.{part}": f"first_norm.{part}" for part in ("weight", "bias")})


PARTNERS: dict[tuple[str, str], Callable[[Weights], Weights]] = {
    ("gpt", "transformer"): _from_gpt,
    ("bert", "transformer"): _from_post_norm,
    ("preln-bert", "transformer"): _from_bert,
    ("birnn", "bilstm"): _from_birnn,
    ("birnn", "han"): _from_birnn_to_han,
    ("cnn", "gated-cnn"): _from_gpt,
}
"""(model of the run, model of a classifier): its weights under the new names."""


@dataclass(frozen=True)
class Account:
    """What became of a run's weights: names in its file, names in the new model."""

    run: str
    loaded: list[str]
    skipped: list[str]
    new: list[str]

    def __str__(self) -> str:
        lines = [f"from {self.run}: {len(self.loaded)} tensors loaded"]
        if self.skipped:
            lines.append(f"  of it not used: {_few(self.skipped)}")
        lines.append(f"  new: {_few(self.new)}" if self.new else "  nothing is new")
        return "\n".join(lines)


def recipe(origin: str | Path) -> Path | None:
    """The file of settings that an origin names, or none where it is a run."""
    path = Path(origin)
    return path if path.suffix.lower() in RECIPES and not path.is_dir() else None


def place(origin: str | Path) -> Path:
    """The folder of the run."""
    made_by = recipe(origin)
    return Path(origin) if made_by is None else Path("runs") / made_by.stem


def finished(folder: Path) -> bool:
    return (folder / "config.json").is_file() and bool(read_config(folder).get("finished"))


def adopt(task: str, tree: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with the model, its sizes and the tokenizer of the run that is started from, unless given."""
    folder = place(str(tree["origin"]))
    if (made_by := recipe(str(tree["origin"]))) and not finished(folder):
        before = load(made_by).get("task", "language")
        raise UserError(
            f"{folder}, which {made_by} makes, is to be trained first: "
            f"regard train {before} --config {made_by} --out {folder}"
        )
    tree = {**tree, "origin": str(folder)}
    config = read_config(folder)
    then = settings_of(config)
    if isinstance(then.model, FittableConfig):
        raise UserError(f"{folder} holds a {then.model_name}, which is fitted at once: there is nothing to start from")
    if (given := tree.get("tokenizer")) and dict(given) != {}:
        raise UserError(f"the tokenizer is that of {folder}, which the weights belong to; leave out what was given")
    chosen = tree.get("model") or {}
    name = str(chosen.get("name") or _model(task, then, folder))
    if (then.task, then.model_name) != (task, name) and (then.model_name, name) not in _allowed(task, then.task):
        raise UserError(
            f"{folder} is a {then.model_name} of the task {then.task!r}: {_starts(then)}; it cannot start a {name} of "
            f"{task!r}"
        )
    sizes = _sizes(then, name, task)
    words = {"kind": then.tokenizer.kind, "vocab": config["vocab"]}
    under: dict[str, Any] = {"model": {"name": name, **sizes}, "tokenizer": words}
    if then.task == task == "language" and tree.get("objective") in (None, then.objective):  # type: ignore[attr-defined]
        own: Any = then
        under |= {"objective": own.objective, "corruption": dataclasses.asdict(own.corruption)}
    places, options = specs.parse(str(sizes.get("positions", "none")))
    if task == "classify" and places == "learned":  # documents are cut where the positions end
        most = dataclasses.fields(kind(task).SETTINGS)
        known = next(f.default_factory() for f in most if f.name == "data").max_tokens  # type: ignore[misc]
        under["data"] = {"max_tokens": min(known, int(options.get("length", 512)))}
    return merge(under, tree)


def tokenizer(settings: Settings) -> Tokenizer:
    return Tokenizer.load(str(settings.origin))


def transfer(model: nn.Module, settings: Settings) -> Account:
    """Put the run's weights into the model, in place."""
    folder = Path(str(settings.origin))
    then = settings_of(read_config(folder))
    if isinstance(model, Ensemble) and getattr(then, "members", 1) == 1:  # each starts from the one
        accounts = [transfer(member, settings) for member in model.members]
        return accounts[0]
    given = read_tensors(folder / "model.safetensors")
    change = PARTNERS.get((then.model_name, settings.model_name), dict) if then.task != settings.task else dict
    own = model.state_dict()
    found = {name: _widened(name, tensor, own) for name, tensor in change(given).items()}
    loaded = [name for name, tensor in found.items() if name in own and own[name].shape == tensor.shape]
    places = {own[name].data_ptr() for name in loaded}  # tied tensors have several names
    new = [name for name, tensor in own.items() if tensor.data_ptr() not in places]
    with torch.no_grad():
        for name in loaded:
            own[name].copy_(found[name])
        for name in new:  # a model without biases is one whose biases are 0
            if name.endswith(".bias") and name.removesuffix("bias") + "weight" in loaded and name not in found:
                own[name].zero_()
    if not loaded:
        raise UserError(f"no weight of {folder} fits this model; give it the same sizes, or leave --from out")
    # by their names in the file, so that they can be found there
    back = {id(tensor): name for name, tensor in given.items()}
    skipped = [back.get(id(tensor), name) for name, tensor in found.items() if name not in loaded]
    return Account(str(folder), loaded, skipped, new)


def _widened(name: str, tensor: Tensor, own: Mapping[str, Tensor]) -> Tensor:
    """What a recurrent net reads its words with, where it is to read more beside each: as if there were nothing."""
    if "weight_ih" not in name or name not in own or len(own[name]) != len(tensor):
        return tensor
    more = own[name].shape[1] - tensor.shape[1]
    return torch.cat((tensor, tensor.new_zeros(len(tensor), more)), 1) if more > 0 else tensor


def _allowed(task: str, before: str) -> set[tuple[str, str]]:
    if (before, task) == ("language", "recall"):  # the same model, which goes on to answer
        return {(name, name) for name in ("gpt", "ngram-gpt")}
    return set(PARTNERS) if (before, task) == ("language", "classify") else set()


def _model(task: str, then: Settings, folder: Path) -> str:
    """The model where none is named: the same, or the one that goes with it."""
    if then.task == task:
        return then.model_name
    partners = [new for old, new in sorted(_allowed(task, then.task)) if old == then.model_name]
    if not partners:
        raise UserError(f"{folder} is a {then.model_name} of the task {then.task!r}: {_starts(then)}, not {task!r}")
    cell = getattr(then.model, "cell", None)
    return next((name for name in partners if CELLS.get(name, cell) == cell), partners[0])


def _starts(then: Settings) -> str:
    """What such a run can start, in words."""
    ways = [f"a {then.model_name} of {then.task!r}"]
    if then.task == "language":
        ways += [f"a {new} of 'classify'" for old, new in PARTNERS if old == then.model_name]
        ways += [f"a {new} of 'recall'" for _, new in _allowed("recall", "language") if new == then.model_name]
    return "it can start " + " or ".join(ways)


def _sizes(then: Settings, name: str, task: str) -> dict[str, Any]:
    """Fields of the model's Config that the new one has as well."""
    from regard.tasks.build_settings import model_module

    fields = {f.name for f in dataclasses.fields(model_module(task, name).Config)}
    sizes = dataclasses.asdict(then.model)
    if then.model_name == "gpt":
        sizes["hidden"] = sizes["hidden"] or 4 * sizes["dim"]
    if name == "transformer":
        sizes["norm"] = "post" if then.model_name == "bert" else sizes.get("norm", "pre")
    if then.model_name == "birnn" and name in CELLS:
        sizes["embed"] = sizes["dim"]
        if sizes["cell"] != CELLS[name]:
            raise UserError(f"a {name} reads with {CELLS[name]!r} cells, and the run has {sizes['cell']!r} cells")
        if name == "han" and sizes["layers"] > 1:
            raise UserError(f"a han reads words with one layer, and the run has {sizes['layers']}")
    return {key: value for key, value in sizes.items() if key in fields and key not in NO_SIZES}


def _renamed(weights: Weights, names: Mapping[str, str]) -> Weights:
    return {names.get(name, name): tensor for name, tensor in weights.items()}


def _few(names: list[str], count: int = 6) -> str:
    """Names, layers' parts counted and not listed one by one."""
    tops: dict[str, int] = {}
    for name in names:
        top = name if name.count(".") <= 1 else ".".join(name.split(".")[:2]) + ".*"
        tops[top] = tops.get(top, 0) + 1
    more = len(tops) - count
    return ", ".join(list(tops)[:count]) + (f" and {more} more" if more > 0 else "")
