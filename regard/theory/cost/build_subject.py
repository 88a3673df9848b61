"""From a name to something that can be costed: a mechanism, a layer, a model, or the model of a run.

dot, local:window=64        a layer of multi-head attention with that mechanism
rnn, gru, lstm, convolution a layer of width d
gpt, classify/transformer   a model of a task; translate's Transformer is regard.models.transformer
transformer-base            a model of the size that its paper gives it
"""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from regard.attention.mechanisms import MECHANISMS
from regard.config import specs
from regard.config.settings import build_dataclass as build_settings
from regard.errors import UserError, suggest_choices
from regard.layers.multi_head_attention import MultiHeadAttention
from regard.theory.cost import reference_layers

DIM = ("dim", "hidden", "embed")
"""The settings that say how wide a model is, in the order in which they are looked for."""
VOCAB = 8000
PAPERS = {"transformer-base": "translate/transformer"}
"""Names of the sizes of papers, each the BASE that stands beside a model's Config, with its vocabulary."""


def layer(spec: str, d: int, heads: int, positions: str | None = None) -> nn.Module | None:
    """A layer by name; None where there is none of that name."""
    name = specs.parse_spec(spec)[0]
    if name in reference_layers.NAMES and name != "local":
        return reference_layers.build(name, d, heads=heads)
    if name in MECHANISMS:
        return MultiHeadAttention(d, heads, spec, positions=positions)
    return None


def model(name: str, known: Mapping[str, str], given: Mapping[str, Any], vocab: int | None, classes: int) -> nn.Module:
    """A model by name, "task/name" or "regard.models.file", with these settings; `known` maps "task/name" to its
    module."""
    short = {full.split("/")[1]: full for full in reversed(list(known))}
    full = name if name in known else PAPERS.get(name) or short.get(name)
    home = known[full] if full else name
    if full is None and not name.startswith("regard.models."):
        every = sorted({*MECHANISMS, *reference_layers.NAMES, *short, *PAPERS})
        raise UserError(
            f"nothing called {name!r} can be costed; {suggest_choices(name, every)}, a recipe (.yaml), or a run folder"
        )
    try:
        module = importlib.import_module(home)
    except ModuleNotFoundError:
        raise UserError(f"there is no module {name!r}; `regard list` names the models") from None
    config = getattr(module, "Config", None)
    if config is None:
        raise UserError(f"{name} has no Config and cannot be built from here")
    base = module.BASE if name in PAPERS else None
    settings = settings_of(config, given, name, base)
    words = vocab or (VOCAB if base is None else base.vocab)
    if not hasattr(settings, "build"):
        made = [c for c in vars(module).values() if isinstance(c, type) and issubclass(c, nn.Module)]
        own = next(c for c in made if c.__module__ == module.__name__)
        return own(dataclasses.replace(settings, vocab=words))
    return of_task(settings, (full or "").split("/")[0], words, classes)


def of_task(settings: Any, task: str, vocab: int, classes: int) -> nn.Module:
    """The model of these settings, for so many words or classes as its task wants."""
    if task == "classify":
        return settings.build(vocab, classes)
    return settings.build(classes if task == "images" else vocab)


def settings_of(config: type, given: Mapping[str, Any], name: str, base: Any = None) -> Any:
    """The model's settings, those of `base` where nothing is given; `d` is its width by whatever name, `layers`,
    `heads` and the like by their own."""
    fields = {f.name for f in dataclasses.fields(config)}
    tree = {key: value for key, value in given.items() if key != "d" and value is not None}
    for key in tree:
        if key not in fields:
            raise UserError(f"model {name!r} has no {key}; {suggest_choices(key, fields)}")
    if given.get("d") is not None:
        wide = next((key for key in DIM if key in fields), None)
        if wide is None:
            raise UserError(f"model {name!r} has no width to be set by --d; its settings: {', '.join(sorted(fields))}")
        tree[wide] = given["d"]
    return build_settings(config, {**(dataclasses.asdict(base) if base else {}), **tree}, where="model")


def quiet(made: nn.Module) -> nn.Module:
    """The same on fixed weights, so that a card is the same again."""
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(0)
        return made
