"""The result of `look`: prediction, attention weights, faithfulness and every attention map of one input."""

from __future__ import annotations

import csv
import io
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np

from regard import pages
from regard.data.frames import to_frame
from regard.errors import UserError
from regard.explain.rationales import add_evidence, find_spans
from regard.inspect.faithfulness import Faithfulness, Metric
from regard.pages.image_overlay import overlay_png, overlay_svg
from regard.pages.quantized_maps import dequantize
from regard.pages.schema import check_look
from regard.pages.word_layout import layout

FORMATS = (".html", ".svg", ".png", ".json", ".csv")
COLUMNS = ("text", "start", "end", "word", "special")
NUM_TOP_WORDS = 5

logger = logging.getLogger(__name__)


class Look:
    """What a model attended to on one input, and whether that explains its prediction.

    Printing it shows a summary, a notebook shows the page, and `save` writes the page or a figure.

    Attributes:
        data: Everything on the page, as plain data.
    """

    def __init__(self, data: dict[str, Any]):
        self.data = data

    @property
    def text(self) -> str:
        """The input; for a translation the source and the translation."""
        return self.data["text"]

    @property
    def prediction(self) -> str | None:
        """The predicted label or token; the output text of a translator or captioner."""
        if self.data.get("prediction"):
            return self.data["prediction"]["label"]
        return self.data.get("translation") or self.data.get("caption")

    @property
    def probabilities(self) -> dict[str, float]:
        """Probability of each label, most probable first; empty for models without labels."""
        return (self.data.get("prediction") or {}).get("probabilities", {})

    @property
    def tokens(self) -> list[str]:
        """Text of each token."""
        return [token["text"] for token in self.data["tokens"]]

    @property
    def weights(self) -> np.ndarray | None:
        """Attention weight of each token, (tokens,); None if no layer attends to the tokens."""
        return None if self.data.get("weights") is None else np.array(self.data["weights"])

    @property
    def words(self) -> list[tuple[str, float]]:
        """Each word with its attention weight, most attended first."""
        if self.data.get("weights") is None:
            return []
        lines = layout(check_look({**self.data, "maps": [], "other": None})).lines
        words = [(word.text, word.weight or 0.0) for line in lines for word in line.words if word.number is not None]
        return sorted(words, key=lambda pair: -pair[1])

    @property
    def faithfulness(self) -> Faithfulness | None:
        """Whether attention explains the prediction; None if it was not measured."""
        report = self.data.get("faithfulness")
        if not report:
            return None
        return Faithfulness(
            [Metric(**{"description": "", **metric}) for metric in report["metrics"]], report["verdict"]
        )

    def maps(self) -> dict[str, np.ndarray]:
        """Attention maps (heads, queries, keys) by layer name, quantized to 256 levels."""
        return {stored["layer"]: dequantize(stored) for stored in self.data["maps"]}

    def to_frame(self) -> Any:
        """One row per token with its attention weight, as a DataFrame of pandas if it is installed, else of polars."""
        return to_frame(self._records())

    def html(self) -> str:
        """The interactive page: one HTML document that needs no other file."""
        return pages.render_page(self.data)

    def svg(self) -> str:
        """The text with its weights as a figure, or the image under its weights."""
        if self.data.get("image_axis"):
            return overlay_svg(self.data)
        return pages.render_svg(self.data)

    def png(self) -> bytes:
        """Like `svg`, as PNG. Logs a warning for characters that no installed font has."""
        if self.data.get("image_axis"):
            return overlay_png(self.data)
        from regard.pages.png import render_png

        content, warnings = render_png(self.data)
        for warning in warnings:
            logger.info(warning)
        return content

    def json(self) -> str:
        """All data except the attention maps, which `maps` returns."""
        return json.dumps({k: v for k, v in self.data.items() if k not in ("maps", "other")}, ensure_ascii=False)

    def csv(self) -> str:
        """One line per token: its text, position and weight."""
        file = io.StringIO()
        writer = csv.writer(file)
        writer.writerow(["token", *COLUMNS, "weight"])
        writer.writerows(record.values() for record in self._records())
        return file.getvalue()

    def compare_with(self, other: Look) -> Look:
        """One page with both looks and their difference: two runs or two checkpoints on the same text."""
        if other.data["text"] != self.data["text"] and "translation" not in self.data:
            raise UserError("two looks can only be compared on the same text, or on the same grid of an image")
        return Look({**self.data, "other": {k: v for k, v in other.data.items() if k != "other"}})

    def with_evidence(self, *evidence: str | tuple[int, int]) -> Look:
        """Add words that are known to decide, as text or character spans, and how much of them attention found."""
        phrases = [one for one in evidence if isinstance(one, str)]
        spans = [one for one in evidence if not isinstance(one, str)]
        size = len(self.data["text"]) - (len(self.data["translation"]) + 1 if "translation" in self.data else 0)
        return Look(add_evidence(self.data, [*spans, *find_spans(self.data["text"][:size], phrases)]))

    def save(self, path: str | Path) -> Path:
        """Save the page (.html), a figure of the weights (.svg, .png), or the numbers (.json, .csv)."""
        path = check_save_path(path)
        render = {".html": self.html, ".svg": self.svg, ".png": self.png, ".json": self.json, ".csv": self.csv}
        content = render[path.suffix.lower()]()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def _records(self) -> list[dict[str, Any]]:
        weights = self.data.get("weights") or [None] * len(self.data["tokens"])
        return [
            {"token": i, **{key: token[key] for key in COLUMNS}, "weight": weights[i]}
            for i, token in enumerate(self.data["tokens"])
        ]

    def __repr__(self) -> str:
        lines = [f"Look at {self.data['title']!r}"]
        if self.data.get("model"):
            lines[0] += f" with {self.data['model']}"
        if self.prediction is not None:
            probability = self.probabilities.get(self.prediction)
            lines.append(f"  prediction:    {self.prediction}" + (f" ({probability:.1%})" if probability else ""))
        if self.words:
            top = ", ".join(f"{word} {weight:.3f}" for word, weight in self.words[:NUM_TOP_WORDS])
            lines.append(f"  most attended: {top}")
        verdict = self.faithfulness.verdict if self.faithfulness else "not measured"
        return "\n".join([*lines, f"  faithfulness:  {verdict}"])

    def _repr_html_(self) -> str:
        return pages.render_notebook(self.data)


def check_save_path(path: str | Path) -> Path:
    """Return the path, or raise if a look cannot be saved in its format."""
    if Path(path).suffix.lower() not in FORMATS:
        raise UserError(f"a look is saved as {', '.join(FORMATS)}, and {str(path)!r} was given")
    return Path(path)
