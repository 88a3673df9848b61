"""A text with its attention weights as a drawing of boxes and words, to be rendered as SVG or PNG.

Words are shaded by their weight, and sentences have a bar for theirs, as in the papers on hierarchical attention. The
hops of structured attention are drawn side by side below.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from regard.pages.bidi import base_direction
from regard.pages.line_breaking import break_lines, position_segments, split_words
from regard.pages.schema import check_look
from regard.pages.word_layout import Layout, Line, Word, hop_layouts, layout

WIDTH, PADDING, MARGIN = 760.0, 24.0, 74.0
INNER_WIDTH = WIDTH - 2 * PADDING
INK, SOFT, RULE, MARK = "#1e1c19", "#67625a", "#dfdad1", "#e88016"
MAX_OPACITY = 0.82  # of the most attended word, as on the page
LEGEND_X = 90.0

MeasureFn = Callable[[str, float], float]
"""Width of a text at a font size."""


@dataclass(frozen=True)
class Box:
    x: float
    y: float
    w: float
    h: float
    fill: str = MARK
    opacity: float = 1.0
    tip: str = ""


@dataclass(frozen=True)
class Text:
    """A word at its baseline y, stretched to the width w."""

    x: float
    y: float
    w: float
    size: float
    text: str
    right_to_left: bool = False
    fill: str = INK
    tip: str = ""


@dataclass
class Drawing:
    width: float = WIDTH
    height: float = PADDING
    title: str = ""
    boxes: list[Box] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)


def draw_look(look: dict[str, Any], measure: MeasureFn) -> Drawing:
    """Draw the text of a look with its weights; `measure` returns the width of a text at a font size."""
    look = check_look(look)
    view = layout(look)
    pen = _Pen(Drawing(title=str(look["title"])), measure)
    if headline := _headline(look):
        pen.line(headline, PADDING, SOFT)
        pen.skip(10)
    num_unread = _remove_unread(view)
    pen.document(view, PADDING, INNER_WIDTH, 18, two_levels=look["sentence_weights"] is not None)
    if num_unread:
        pen.line(f"… and {num_unread:,} more characters, which were truncated", PADDING, SOFT)
    if look["weights"] is not None:
        pen.skip(8)
        pen.legend(view.peak, look)
    if look["faithfulness"]:
        pen.skip(6)
        pen.paragraph(str(look["faithfulness"]["verdict"]))
    pen.hops(look)
    pen.skip(PADDING)
    return pen.drawing


def _remove_unread(view: Layout) -> int:
    """Remove truncated text, and return its number of characters."""
    count = sum(word.end - word.start for line in view.lines for word in line.words if word.unread)
    for line in view.lines:
        line.words = [word for word in line.words if not word.unread]
    return count


def _headline(look: dict[str, Any]) -> str:
    prediction = look["prediction"]
    if not prediction:
        return str(look["model"])
    probability = (prediction.get("probabilities") or {}).get(prediction["label"])
    text = f"{look['model']}: {prediction['label']}" if look["model"] else str(prediction["label"])
    return text if probability is None else f"{text}, {100 * probability:.1f} %"


class _Pen:
    """Draws from top to bottom; `y` is the top of the next element."""

    def __init__(self, drawing: Drawing, measure: MeasureFn):
        self.drawing, self.measure = drawing, measure

    @property
    def y(self) -> float:
        return self.drawing.height

    def skip(self, distance: float) -> None:
        self.drawing.height += distance

    def line(self, text: str, x: float, fill: str = INK, size: float = 13, max_width: float = INNER_WIDTH) -> None:
        """One line of text, truncated to its width."""
        while self.measure(text, size) > max_width and len(text) > 2:
            text = text[: max(1, int(0.95 * len(text)) - 1)] + "…"
        width, right_to_left = self.measure(text, size), base_direction([text]) == "R"
        self.drawing.texts.append(Text(x, self.y + size, width, size, text, right_to_left, fill))
        self.skip(1.4 * size)

    def paragraph(self, text: str) -> None:
        """A text of several lines."""
        line = ""
        for word in text.split():
            if line and self.measure(f"{line} {word}", 13) > INNER_WIDTH:
                self.line(line, PADDING)
                line = word
            else:
                line = f"{line} {word}".strip()
        self.line(line, PADDING)

    def document(self, view: Layout, x: float, max_width: float, size: float, *, two_levels: bool) -> None:
        if two_levels:
            for line in view.lines:
                self._sentence(line, x, max_width, size)
                self.skip(4)
            return
        self._words([word for line in view.lines for word in line.words], x, max_width, size)

    def _sentence(self, line: Line, x: float, max_width: float, size: float) -> None:
        """A sentence with its weight as a bar and a number in the margin."""
        weight, height = line.weight or 0.0, 1.75 * size
        edge, middle, tip = x + MARGIN - 12, self.y + height / 2, f"sentence {(line.sentence or 0) + 1}: {weight:.6g}"
        top = self.y
        bar = max(1.0, 34 * line.shade)
        self.drawing.boxes.append(Box(edge - bar, middle - 7, bar, 14, MARK, 1.0, tip))
        number = f"{weight:.2f}"
        width = self.measure(number, 11)
        self.drawing.texts.append(Text(edge - bar - 5 - width, middle + 4, width, 11, number, fill=SOFT, tip=tip))
        self._words(line.words, x + MARGIN, max_width - MARGIN, size)
        self.skip(max(0.0, top + height - self.y))  # a sentence of only line breaks has a bar too
        self.drawing.boxes.append(Box(edge, top, 1, self.y - top, RULE))

    def _words(self, words: list[Word], x: float, max_width: float, size: float) -> None:
        base = base_direction(word.text for word in words)
        segments = split_words(words, lambda text: self.measure(text, size))
        for row in break_lines(segments, max_width):
            for segment, left in position_segments(row, base, x, max_width):
                width, tip = segment.width, segment.tip
                if segment.shade:
                    box = Box(left, self.y + 0.2 * size, width, 1.35 * size, MARK, MAX_OPACITY * segment.shade, tip)
                    self.drawing.boxes.append(box)
                if segment.evidence:
                    self.drawing.boxes.append(Box(left, self.y + 1.55 * size, width, 2, INK))
                if not segment.space:
                    right_to_left = segment.direction == "R"
                    text = Text(left, self.y + 1.2 * size, width, size, segment.text, right_to_left, INK, tip)
                    self.drawing.texts.append(text)
            self.skip(1.75 * size)

    def legend(self, peak: float, look: dict[str, Any]) -> None:
        for i in range(20):
            self.drawing.boxes.append(Box(PADDING + 4 * i, self.y + 3, 4, 11, MARK, MAX_OPACITY * (i + 0.5) / 20))
        text = f"0 to {peak:.3g}, the most attended word"
        if look["sentence_weights"] is not None:
            text += "; the bars are sentence weights"
        self.line(text, PADDING + LEGEND_X, SOFT, 12, INNER_WIDTH - LEGEND_X)
        if look["evidence"] and look["evidence_fraction"] is not None:
            text = f"{100 * look['evidence_fraction']:.1f} % of the attention is on the underlined words, the evidence"
            self.line(text, PADDING + LEGEND_X, SOFT, 12, INNER_WIDTH - LEGEND_X)

    def hops(self, look: dict[str, Any]) -> None:
        """The text once for each hop, in two columns."""
        if not look["hops"]:
            return
        views = hop_layouts(look)
        for view in views:
            _remove_unread(view)
        self.skip(18)
        self.line(f"{len(look['hops']['weights'])} hops; {describe_overlap(look['hops']['overlap'])}", PADDING, INK, 13)
        self.skip(6)
        gap = 28
        column_width = (INNER_WIDTH - gap) / 2
        for first in range(0, len(views), 2):
            top, lowest = self.y, self.y
            for column, view in enumerate(views[first : first + 2]):
                self.drawing.height, x = top, PADDING + column * (column_width + gap)
                self.line(f"hop {first + column + 1}, up to {view.peak:.3g}", x, SOFT, 12, column_width)
                self.document(view, x, column_width, 14, two_levels=False)
                lowest = max(lowest, self.y)
            self.drawing.height = lowest
            self.skip(12)


def describe_overlap(overlap: dict[str, Any]) -> str:
    """The overlap of the hops, for the reader."""
    between, within = overlap["between_hops"], overlap["within_hop"]
    return f"overlap {between:.3f} (mean of a_i · a_j over pairs of hops; {within:.3f} for a hop with itself)"
