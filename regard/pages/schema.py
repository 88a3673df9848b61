"""Check the data of a look before it is rendered: lengths agree, spans are inside the text, numbers are finite."""

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
    "weights_description": "",
    "sentence_weights": None,
    "within_sentence": None,
    "hops": None,
    "evidence": None,
    "evidence_fraction": None,
    "evidence_recall": None,
    "maps": [],
    "faithfulness": None,
    "axes": {},
    "image_axis": None,
    "score_label": "",
    "score": None,
    "scores_without": None,
    "row_description": "",
    "default_layer": "",
    "targets": None,
    "other_attributions": {},
    "interventions": None,
    "heads": None,
    "other": None,
    "notes": [],
}
BASE64 = re.compile(r"[A-Za-z0-9+/]*={0,2}")
DATA_URI = re.compile(r"data:image/(png|jpeg|webp);base64,[A-Za-z0-9+/]*={0,2}")


def check_look(look: dict[str, Any]) -> dict[str, Any]:
    """Return the look with its optional fields filled in, or raise a UserError that names the invalid field."""
    missing = [key for key in ("title", "text", "tokens") if key not in look]
    if missing:
        raise UserError(f"a look without {', '.join(map(repr, missing))} was given; it needs 'title', 'text', 'tokens'")
    look = {**OPTIONAL, **{key: value for key, value in look.items() if value is not None or key not in OPTIONAL}}
    num_tokens = len(look["tokens"])
    _check_spans(look)
    _check_numbers("weights", look["weights"], num_tokens, "tokens")
    _check_numbers("within_sentence", look["within_sentence"], num_tokens, "tokens")
    if look["scores_without"] is not None and len(look["scores_without"]) != num_tokens:
        raise UserError(f"'scores_without' has {len(look['scores_without'])} numbers for {num_tokens} tokens")
    for i, hop in enumerate((look["hops"] or {}).get("weights", [])):
        _check_numbers(f"hops[{i}]", hop, num_tokens, "tokens")
    _check_numbers("sentence_weights", look["sentence_weights"], len(look["sentences"]), "sentences")
    for span in look["evidence"] or []:
        if not 0 <= span[0] <= span[1] <= len(look["text"]):
            raise UserError(f"evidence {list(span)} is outside the text of {len(look['text'])} characters")
    if look["prediction"]:
        probabilities = look["prediction"]["probabilities"]
        _check_numbers("probabilities", list(probabilities.values()), len(probabilities), "labels")
    for name, axis in look["axes"].items():
        if isinstance(axis, dict):
            _check_grid(name, axis)
        elif not 0 <= axis[0] <= axis[1] <= num_tokens:
            raise UserError(f"axis {name!r} is {list(axis)}, outside the {num_tokens} tokens")
    if look["image_axis"] is not None:
        _check_image_axis(look)
    for i, target in enumerate(look["targets"] or []):
        _check_numbers(f"targets[{i}]", target["weights"], num_tokens, "tokens")
    for name, values in look["other_attributions"].items():
        _check_numbers(f"other_attributions[{name!r}]", values, num_tokens, "tokens")
    for i, stored in enumerate(look["maps"]):
        _check_map(look, stored, f"maps[{i}]")
    if look["other"] is not None:
        look["other"] = check_look({**look["other"], "other": None})
    return look


def _check_grid(name: str, axis: dict[str, Any]) -> None:
    """An axis of image cells: `grid` is (rows, columns), `image` a data URI."""
    grid = axis.get("grid")
    if grid is not None and grid[0] * grid[1] != len(axis["names"]):
        raise UserError(f"axis {name!r} is a grid of {list(grid)}, but has {len(axis['names'])} names")
    if not DATA_URI.fullmatch(axis.get("image") or "data:image/png;base64,"):
        raise UserError(f"the image of axis {name!r} is not a data:image/...;base64 URI")


def _check_image_axis(look: dict[str, Any]) -> None:
    """The tokens of an image are the cells of the image axis."""
    axis = look["axes"].get(look["image_axis"])
    if not isinstance(axis, dict) or not axis.get("grid") or len(axis["names"]) != len(look["tokens"]):
        raise UserError(f"'image_axis' is {look['image_axis']!r}; expected an axis with a grid of one cell per token")


def _check_spans(look: dict[str, Any]) -> None:
    size, count = len(look["text"]), len(look["tokens"])
    for i, token in enumerate(look["tokens"]):
        if not 0 <= token["start"] <= token["end"] <= size:
            span = [token["start"], token["end"]]
            raise UserError(f"token {i} ({token['text']!r}) has span {span} in a text of {size} characters")
    for start, end in look["sentences"]:
        if not 0 <= start <= end <= count:
            raise UserError(f"sentence {[start, end]} is outside the {count} tokens")


def _check_numbers(name: str, values: Any, expected: int, items: str) -> None:
    if values is None:
        return
    if len(values) != expected:
        raise UserError(f"{name!r} has {len(values)} numbers for {expected} {items}; expected one for each")
    if any(not math.isfinite(value) or value < 0 for value in values):
        raise UserError(f"{name!r} has a number that is negative, infinite or NaN")


def _check_map(look: dict[str, Any], stored: dict[str, Any], name: str) -> None:
    heads, rows, columns = stored["shape"]
    sizes = {"tokens": len(look["tokens"]), "sentences": len(look["sentences"]), "document": 1, "hops": rows}
    for axis_name, axis in look["axes"].items():
        sizes[axis_name] = len(axis["names"]) if isinstance(axis, dict) else axis[1] - axis[0]
    for side, size, valid in (
        ("rows", rows, ("tokens", "sentences", "document", "hops", *look["axes"])),
        ("columns", columns, ("tokens", "sentences", *look["axes"])),
    ):
        if stored[side] not in valid:
            raise UserError(f"{name} has {side} of {stored[side]!r}; expected one of {', '.join(valid)}")
        if sizes[stored[side]] != size:
            raise UserError(f"{name} has {size} {side}, but the look has {sizes[stored[side]]} {stored[side]}")
    if stored.get("heads", heads) != heads:
        raise UserError(f"{name} says {stored['heads']} heads, but its shape is {list(stored['shape'])}")
    if not BASE64.fullmatch(stored["data"]):
        raise UserError(f"{name}['data'] is not base64; make it with regard.pages.quantize(weights)")
    if not math.isfinite(stored["max"]):
        raise UserError(f"{name}['max'] is {stored['max']}; expected the largest weight of the map")
