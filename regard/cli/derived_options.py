"""Build command-line options from settings dataclasses and from the signatures of methods.

A field of a settings dataclass becomes an option with the name and type of the field; `metadata["help"]` is its help
text (see `regard.config.settings.setting`). A keyword-only parameter of a method such as `Run.evaluate` becomes an
option in the same way; its help text is read from the `Args:` section of the docstring.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import json
import re
import types
import typing
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

SECTIONS = ("data", "tokenizer", "train")
"""Nested settings whose fields become options. All other nested settings are set with `--set`."""

NOT_OPTIONS = {"task", "model", "model_name", "data.train", *SECTIONS}
OPTION_NAMES = {"warm_start": "from", "tokenizer.kind": "tokenizer", "model.name": "model"}
"""Setting -> option name, where it is not the name of the field."""

MODEL_OPTIONS = {
    "model.name": "Model; `regard list` shows the models of each task.",
    "model.mechanism": "Attention mechanism, such as local:window=64.",
    "model.positions": "Position encoding, such as rotary.",
}


def settings_options(settings: type) -> list[inspect.Parameter]:
    """Build the parameters of a command from a settings dataclass.

    `data.train` becomes the argument. Each scalar field, also of the nested `data`, `tokenizer` and `train`, becomes an
    option.

    Args:
        settings: A dataclass, such as `ClassifySettings`.

    Returns:
        Keyword-only parameters, annotated for Typer. A parameter is named after its setting, with `__` for the dot:
        `train__lr`. Its value is None where the option is not given.
    """
    options = [make_option(path, str | None, text) for path, text in MODEL_OPTIONS.items()]
    sections = [option for name in ("", *SECTIONS) for option in field_options(settings, name)]
    return [data_argument(settings), *options, *sections]


def data_argument(settings: type) -> inspect.Parameter:
    """Build the argument that names the training data, from the field `data.train`."""
    cls = typing.get_type_hints(settings)["data"]
    field = next(field for field in dataclasses.fields(cls) if field.name == "train")
    info = typer.Argument(help=field.metadata.get("help"), metavar=field.metadata.get("metavar") or "DATA")
    kind = _option_type(typing.get_type_hints(cls)["train"])
    return inspect.Parameter(
        "data__train", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, info]
    )


def field_options(settings: type, section: str = "") -> list[inspect.Parameter]:
    """Build the options of the scalar fields of a dataclass, or of its nested dataclass `section`."""
    cls = typing.get_type_hints(settings)[section] if section else settings
    hints, options = typing.get_type_hints(cls), []
    for field in dataclasses.fields(cls):
        path = f"{section}.{field.name}" if section else field.name
        kind = str | None if path == "train.budget" else _option_type(hints[field.name])  # a budget is 90s, 2min, 1h
        if path in NOT_OPTIONS or kind is None or not field.init:
            continue
        help_text = field.metadata.get("help", "")
        options.append(make_option(path, kind, help_text, field.default, field.metadata.get("metavar")))
    return options


def method_options(method: Callable[..., Any]) -> list[inspect.Parameter]:
    """Build options from the keyword-only parameters of a method. Callbacks are left out.

    Args:
        method: A method with a Google-style docstring, such as `Translator.evaluate`.
    """
    texts, options = read_argument_help(method), []
    for parameter in inspect.signature(method).parameters.values():
        kind = _option_type(_resolve_annotation(method, parameter))
        if parameter.kind is parameter.KEYWORD_ONLY and kind is not None:
            options.append(make_option(parameter.name, kind, texts.get(parameter.name, ""), parameter.default))
    return options


def read_argument_help(function: Callable[..., Any]) -> dict[str, str]:
    """Read the `Args:` section of a Google-style docstring: argument name -> text."""
    doc = inspect.getdoc(function) or ""
    section = re.search(r"^Args:\n(.*?)(?=^\S|\Z)", doc, re.M | re.S)
    texts: dict[str, str] = {}
    if section:
        for name, text in re.findall(r"^ {4}\*{0,2}(\w+)[^:\n]*:\s*(.*?)(?=^ {4}\S|\Z)", section[1], re.M | re.S):
            texts[name] = " ".join(text.split())
    return texts


def add_options(command: Callable[..., Any], options: Iterable[inspect.Parameter]) -> Callable[..., Any]:
    """Return `command` with its `**options` parameter replaced by `options` in the signature that Typer reads.

    The command receives the options that the user gave: option name or setting -> value.
    """
    derived = list(options)
    own = [p for p in inspect.signature(command, eval_str=True).parameters.values() if p.kind is not p.VAR_KEYWORD]

    @functools.wraps(command)
    def run_command(**values: Any) -> Any:
        given = {p.name.replace("__", "."): values.pop(p.name) for p in derived}
        return command(**values, **{name: value for name, value in given.items() if value not in (None, [])})

    signature = [p.replace(kind=p.KEYWORD_ONLY) for p in (*own, *derived)]
    signature.sort(key=lambda p: (not _is_argument(p), p not in derived))
    run_command.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
    run_command.__annotations__ = {p.name: p.annotation for p in signature}
    return run_command


def _is_argument(parameter: inspect.Parameter) -> bool:
    metadata = getattr(parameter.annotation, "__metadata__", ())
    return any(isinstance(info, typer.models.ArgumentInfo) for info in metadata)


def make_option(
    path: str, kind: Any, help_text: str, default: Any = None, metavar: str | None = None
) -> inspect.Parameter:
    """Build one option of a type from `_option_type`. The default is only shown: an option not given is None."""
    flag = "--" + OPTION_NAMES.get(path, path.split(".")[-1]).replace("_", "-")
    if default is True:
        flag = f"{flag}/--no-{flag[2:]}"
    elif isinstance(default, (int, float, str)) and default is not False and default != "" and "[" not in help_text:
        help_text = f"{help_text} [{default}]"
    info = typer.Option(flag, help=help_text, metavar=metavar, show_default=False)
    name = path.replace(".", "__")
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind, info])


def _resolve_annotation(method: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    """The type of a parameter; Any if it cannot be imported at run time, as types of callbacks and results."""
    owner = types.SimpleNamespace(__annotations__={parameter.name: parameter.annotation})
    try:
        return typing.get_type_hints(owner, inspect.unwrap(method).__globals__, {"Path": Path})[parameter.name]
    except NameError:
        return Any


def _option_type(hint: Any) -> Any:
    """The type of an option for a field of this type, or None if the field cannot be an option."""
    choices = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    if any(typing.get_origin(choice) in (tuple, list) and typing.get_args(choice)[0] is str for choice in choices):
        return list[str] | None
    for kind in (bool, int, float, str, Path):
        if kind in choices:
            return str | None if kind is Path or str in choices else kind | None
    return None


def find_run_class(arguments: Iterable[str]) -> type | None:
    """Find the run folder among the arguments of a command, and return the class of that run.

    Args:
        arguments: Words of the command line, such as ["runs/en-de", "val.en", "--beam", "1"].

    Returns:
        Such as `Translator`; `Imported` for an imported model or a Hugging Face folder; None if no argument is a run
        folder.
    """
    for argument in arguments:
        folder = Path(argument)
        if folder.parent.name == "state":  # a checkpoint, RUN/state/step-100
            folder = folder.parent.parent
        if argument.startswith("-") or not (folder / "config.json").is_file():
            continue
        try:
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            task = config.get("settings", {}).get("task")
        except (OSError, ValueError, AttributeError):
            return None  # the command reports what is wrong
        if task is None:
            from regard.hub.imported_model import ImportedModel

            return ImportedModel
        from regard.tasks.base import TASKS

        return TASKS[task].run_class if task in TASKS else None
    return None
