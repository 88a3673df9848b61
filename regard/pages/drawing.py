"""A document with its weights as a drawing: boxes, lines and words in their places, for whoever paints them.

Sentences stand under each other with a bar for their weight, words are shaded by theirs, as the hierarchical papers
draw it; the hops of structured attention stand side by side below.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from regard.pages import line_breaking
from regard.pages.bidi import base
from regard.pages.schema import checked
from regard.pages.word_layout import Layout, Line, hop_layouts, layout

WIDE, PAD, MARGIN = 760.0, 24.0, 74.0
INK, SOFT, RULE, MARK = "#1e1c19", "#67625a", "#dfdad1", "#e88016"
STRONGEST = 0.82  # opacity of the strongest word, as on the page

Measure = Callable[[str, float], float]
"""How wide a text is at a size."""


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
    """y is the line that letters stand on; w the width they are to fill."""

    x: float
    y: float
    w: float
    size: float
    text: str
    turned: bool = False  # from right to left
    fill: str = INK
    tip: str = ""


@dataclass
class Scene:
    width: float = WIDE
    height: float = PAD
    title: str = ""
    boxes: list[Box] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)


def scene(look: dict[str, Any], measure: Measure) -> Scene:
    """The drawing of a look."""
    look = checked(look)
    view = layout(look)
    pen = Pen(Scene(title=str(look["title"])), measure)
    if head := _head(look):
        pen.say(head, PAD, SOFT)
        pen.down(10)
    unread = _without_unread(view)
    pen.document(view, PAD, WIDE - 2 * PAD, 18, two_levels=look["sentence_weights"] is not None)
    if unread:
        pen.say(f"… and {unread:,} characters more, which were not read", PAD, SOFT)
    if look["weights"] is not None:
        pen.down(8)
        pen.legend(view.peak, look)
    if look["faithfulness"]:
        pen.down(6)
        pen.tell(str(look["faithfulness"]["sentence"]))
    pen.hops(look)
    pen.down(PAD)
    return pen.scene


def _without_unread(view: Layout) -> int:
    """Take out what the model did not read, and say how many characters that was."""
    left = sum(word.end - word.start for line in view.lines for word in line.words if word.unread)
    for line in view.lines:
        line.words = [word for word in line.words if not word.unread]
    return left


def _head(look: dict[str, Any]) -> str:
    said = look["prediction"]
    if not said:
        return str(look["model"])
    chance = (said.get("probabilities") or {}).get(said["label"])
    words = f"{look['model']}: {said['label']}" if look["model"] else str(said["label"])
    return words if chance is None else f"{words}, {100 * chance:.1f} %"


class Pen:
    """Goes down the sheet; `y` is the upper edge of what comes next."""

    def __init__(self, sheet: Scene, measure: Measure):
        self.scene, self.measure = sheet, measure

    @property
    def y(self) -> float:
        return self.scene.height

    def down(self, by: float) -> None:
        self.scene.height += by

    def say(self, text: str, x: float, fill: str = INK, size: float = 13, room: float = WIDE - 2 * PAD) -> None:
        """One line of words about the picture, cut to its room."""
        while self.measure(text, size) > room and len(text) > 2:
            text = text[: max(1, int(0.95 * len(text)) - 1)] + "…"
        width = self.measure(text, size)
        turned = base([text]) == "R"
        self.scene.texts.append(Text(x, self.y + size, width, size, text, turned, fill))
        self.down(1.4 * size)

    def document(self, view: Layout, x: float, room: float, size: float, *, two_levels: bool) -> None:
        if two_levels:
            for line in view.lines:
                self._sentence(line, x, room, size)
                self.down(4)
            return
        self._words([word for line in view.lines for word in line.words], x, room, size)

    def _sentence(self, line: Line, x: float, room: float, size: float) -> None:
        """Its weight as a bar and a number in the margin, then its words."""
        weight, height = line.weight or 0.0, 1.75 * size
        edge, middle, tip = x + MARGIN - 12, self.y + height / 2, f"sentence {(line.sentence or 0) + 1}: {weight:.6g}"
        top = self.y
        width = max(1.0, 34 * line.shade)
        self.scene.boxes.append(Box(edge - width, middle - 7, width, 14, MARK, 1.0, tip))
        figure = f"{weight:.2f}"
        wide = self.measure(figure, 11)
        self.scene.texts.append(Text(edge - width - 5 - wide, middle + 4, wide, 11, figure, fill=SOFT, tip=tip))
        self._words(line.words, x + MARGIN, room - MARGIN, size)
        self.down(max(0.0, top + height - self.y))  # a sentence of mere breaks has a bar too
        self.scene.boxes.append(Box(edge, top, 1, self.y - top, RULE))

    def _words(self, words: list[Any], x: float, room: float, size: float) -> None:
        height = 1.75 * size
        whole = base(word.text for word in words)
        for row in line_breaking.broken(line_breaking.atoms(words, lambda text: self.measure(text, size)), room):
            for atom, at in line_breaking.placed(row, whole, x, room):
                if atom.shade:
                    box = Box(at, self.y + 0.2 * size, atom.width, 1.35 * size, MARK, STRONGEST * atom.shade, atom.tip)
                    self.scene.boxes.append(box)
                if atom.evidence:
                    self.scene.boxes.append(Box(at, self.y + 1.55 * size, atom.width, 2, INK))
                if not atom.space:
                    text = Text(at, self.y + 1.2 * size, atom.width, size, atom.text, atom.way == "R", INK, atom.tip)
                    self.scene.texts.append(text)
            self.down(height)

    def tell(self, sentence: str) -> None:
        """Whole sentences about the picture, in as many lines as they need."""
        line = ""
        for word in sentence.split():
            if line and self.measure(f"{line} {word}", 13) > WIDE - 2 * PAD:
                self.say(line, PAD, INK)
                line = word
            else:
                line = f"{line} {word}".strip()
        self.say(line, PAD, INK)

    def legend(self, peak: float, look: dict[str, Any]) -> None:
        for i in range(20):
            self.scene.boxes.append(Box(PAD + 4 * i, self.y + 3, 4, 11, MARK, STRONGEST * (i + 0.5) / 20))
        words = f"0 to {peak:.3g}, the strongest word"
        if look["sentence_weights"] is not None:
            words += "; the bars weigh whole sentences"
        self.say(words, PAD + 90, SOFT, 12, WIDE - 2 * PAD - 90)
        if look["evidence"] and look["evidence_share"] is not None:
            share = f"{100 * look['evidence_share']:.1f} % of the attention falls on the words underlined, the evidence"
            self.say(share, PAD + 90, SOFT, 12, WIDE - 2 * PAD - 90)

    def hops(self, look: dict[str, Any]) -> None:
        """One text for each hop, two beside each other."""
        if not look["hops"]:
            return
        views = hop_layouts(look)
        for view in views:
            _without_unread(view)
        found = look["hops"]["overlap"]
        self.down(18)
        self.say(f"{len(look['hops']['weights'])} hops; {overlap_words(found)}", PAD, INK, 13)
        self.down(6)
        column, gap = (WIDE - 2 * PAD - 28) / 2, 28
        for first in range(0, len(views), 2):
            top, lowest = self.y, self.y
            for beside, view in enumerate(views[first : first + 2]):
                self.scene.height, x = top, PAD + beside * (column + gap)
                self.say(f"hop {first + beside + 1}, up to {view.peak:.3g}", x, SOFT, 12, column)
                self.document(view, x, column, 14, two_levels=False)
                lowest = max(lowest, self.y)
            self.scene.height = lowest
            self.down(12)


def overlap_words(found: dict[str, Any]) -> str:
    """What the overlap is, for the reader."""
    shared, own = found["between"], found["own"]
    return f"overlap {shared:.3f} (mean of a_i · a_j over pairs of hops; with itself a hop has {own:.3f})"
