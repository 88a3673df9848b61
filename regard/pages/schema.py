"""What a look must hold before it is drawn: lengths that agree, spans inside the text, numbers that are numbers."""

from __future__ import annotations

import math
import re
from typing import Any

from regard.errors import UserError

OPTIONAL = {
    "model": "",
    "run": "",
    "sentences": [],
    "prediction": None,
    "weights": None,
    "weights_how": "",
    "sentence_weights": None,
    "within": None,
    "hops": None,
    "evidence": None,
    "evidence_share": None,
    "evidence_found": None,
    "maps": [],
    "faithfulness": None,
    "axes": {},
    "cells": None,
    "asked": "",
    "answer": None,
    "without": None,
    "judged_by": "",
    "first": "",
    "questions": None,
    "instead": {},
    "changes": None,
    "heads": None,
    "other": None,
    "notes": [],
}
BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")
PICTURE = re.compile(r"data:image/(png|jpeg|webp);base64,[A-Za-z0-9+/]*={0,2}")


def checked(look: dict[str, Any]) -> dict[str, Any]:
    """The look with its optional parts filled in, or a UserError that says what does not fit."""
    missing = [key for key in ("title", "text", "tokens") if key not in look]
    if missing:
        raise UserError(f"a look without {', '.join(map(repr, missing))} was given; it needs 'title', 'text', 'tokens'")
    look = {**OPTIONAL, **{key: value for key, value in look.items() if value is not None or key not in OPTIONAL}}
    _tokens(look)
    _numbers("weights", look["weights"], len(look["tokens"]), "tokens")
    _numbers("within", look["within"], len(look["tokens"]), "tokens")
    if look["without"] is not None and len(look["without"]) != len(look["tokens"]):
        raise UserError(f"'without' holds {len(look['without'])} numbers for {len(look['tokens'])} tokens")
    for number, hop in enumerate((look["hops"] or {}).get("weights", [])):
        _numbers(f"hops[{number}]", hop, len(look["tokens"]), "tokens")
    _numbers("sentence_weights", look["sentence_weights"], len(look["sentences"]), "sentences")
    for span in look["evidence"] or []:
        if not 0 <= span[0] <= span[1] <= len(look["text"]):
            raise UserError(f"evidence {list(span)} lies outside the text of {len(look['text'])} characters")
    if look["prediction"]:
        chances = look["prediction"]["probabilities"]
        _numbers("probabilities", list(chances.values()), len(chances), "labels")
    for name, axis in look["axes"].items():
        if isinstance(axis, dict):
            _grid(name, axis)
        elif not 0 <= axis[0] <= axis[1] <= len(look["tokens"]):
            raise UserError(f"axis {name!r} is {list(axis)}, outside the {len(look['tokens'])} tokens")
    if look["cells"] is not None:
        _cells(look)
    for number, question in enumerate(look["questions"] or []):
        _numbers(f"questions[{number}]", question["weights"], len(look["tokens"]), "tokens")
    for name, values in look["instead"].items():
        _numbers(f"instead[{name!r}]", values, len(look["tokens"]), "tokens")
    for number, stored in enumerate(look["maps"]):
        _map(look, stored, f"maps[{number}]")
    if look["other"] is not None:
        look["other"] = checked({**look["other"], "other": None})
    return look


def _grid(name: str, axis: dict[str, Any]) -> None:
    """An axis that is the cells of a picture: `grid` says how many down and across, `picture` is a data: address."""
    grid = axis.get("grid")
    if grid is not None and grid[0] * grid[1] != len(axis["names"]):
        raise UserError(f"axis {name!r} is a grid of {list(grid)}, but has {len(axis['names'])} names")
    if not PICTURE.fullmatch(axis.get("picture") or "data:image/png;base64,"):
        raise UserError(f"the picture of axis {name!r} is not a data:image/...;base64 address")


def _cells(look: dict[str, Any]) -> None:
    """Where a picture is read, the tokens are the cells of one of the axes."""
    axis = look["axes"].get(look["cells"])
    if not isinstance(axis, dict) or not axis.get("grid") or len(axis["names"]) != len(look["tokens"]):
        raise UserError(f"the tokens of a picture are the cells of an axis with a grid, and {look['cells']!r} is none")


def _tokens(look: dict[str, Any]) -> None:
    size, count = len(look["text"]), len(look["tokens"])
    for number, token in enumerate(look["tokens"]):
        if not 0 <= token["start"] <= token["end"] <= size:
            span = [token["start"], token["end"]]
            raise UserError(f"token {number} ({token['text']!r}) has span {span} in a text of {size} characters")
    for first, end in look["sentences"]:
        if not 0 <= first <= end <= count:
            raise UserError(f"sentence {[first, end]} lies outside the {count} tokens")


def _numbers(name: str, values: Any, expected: int, of: str) -> None:
    if values is None:
        return
    if len(values) != expected:
        raise UserError(f"{name!r} holds {len(values)} numbers for {expected} {of}; expected one for each")
    if any(not math.isfinite(value) or value < 0 for value in values):
        raise UserError(f"{name!r} holds a number that is negative, infinite or NaN")


def _map(look: dict[str, Any], stored: dict[str, Any], name: str) -> None:
    heads, rows, columns = stored["shape"]
    sizes = {"tokens": len(look["tokens"]), "sentences": len(look["sentences"]), "document": 1, "hops": rows}
    for axis, given in look["axes"].items():
        sizes[axis] = len(given["names"]) if isinstance(given, dict) else given[1] - given[0]
    for axis, size, known in (
        ("rows", rows, ("tokens", "sentences", "document", "hops", *look["axes"])),
        ("columns", columns, ("tokens", "sentences", *look["axes"])),
    ):
        if stored[axis] not in known:
            raise UserError(f"{name} has {axis} of {stored[axis]!r}; expected one of {', '.join(known)}")
        if sizes[stored[axis]] != size:
            raise UserError(f"{name} has {size} {axis}, but the look has {sizes[stored[axis]]} {stored[axis]}")
    if stored.get("heads", heads) != heads:
        raise UserError(f"{name} says {stored['heads']} heads, but its shape is {list(stored['shape'])}")
    if not BASE64.fullmatch(stored["data"]):
        raise UserError(f"{name}['data'] is not base64; make it with regard.pages.quantise(weights)")
    if not math.isfinite(stored["max"]):
        raise UserError(f"{name}['max'] is {stored['max']}; expected the largest weight of the map")
