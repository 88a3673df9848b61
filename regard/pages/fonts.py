"""Fonts of this machine for the painter: a serif for the text, and another for each letter that it lacks."""

from __future__ import annotations

import shutil
import subprocess
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from PIL import ImageFont

# Names under which Linux, macOS and Windows have them; Pillow looks in the system's folders.
BODY = ("DejaVuSerif.ttf", "Georgia.ttf", "georgia.ttf", "NotoSerif-Regular.ttf", "LiberationSerif-Regular.ttf")
OTHERS = (
    *("DejaVuSans.ttf", "NotoSans-Regular.ttf", "NotoSansArabic-Regular.ttf", "NotoSansCJK-Regular.ttc"),
    *("DroidSansFallbackFull.ttf", "wqy-microhei.ttc", "PingFang.ttc", "Arial Unicode.ttf", "GeezaPro.ttc"),
    *("msyh.ttc", "arial.ttf", "seguiemj.ttf", "seguisym.ttf", "NotoEmoji-Regular.ttf", "Symbola.ttf"),
)


class Fonts:
    """Draws at `scale` pixels a unit; `lacking` are the letters for which no font was found."""

    def __init__(self, scale: float):
        self.scale, self.lacking = scale, set[str]()

    def runs(self, text: str, size: float) -> list[tuple[str, Any]]:
        """The text in stretches that one font can draw."""
        found: list[tuple[str, Any]] = []
        pixels = round(size * self.scale)
        for letter in text:
            joins = bool(found) and (unicodedata.category(letter) in ("Mn", "Me", "Mc", "Cf") or letter.isspace())
            font = found[-1][1] if joins else self._for(letter, pixels)
            if found and font is found[-1][1]:
                found[-1] = (found[-1][0] + letter, font)
            else:
                found.append((letter, font))
        return found

    def width(self, text: str, size: float) -> float:
        return sum(font.getlength(part) for part, font in self.runs(text, size)) / self.scale

    def _for(self, letter: str, pixels: int) -> Any:
        name = _name_for(letter)
        if name is None and unicodedata.category(letter) != "Cf":  # a joiner by itself is nothing to see
            self.lacking.add(letter)
        return _font(name or "", pixels)


@lru_cache(maxsize=4096)
def _name_for(letter: str) -> str | None:
    """The first font that has the letter."""
    return next((name for name in _candidates(letter) if _has(name, letter)), None)


def _candidates(letter: str) -> Iterator[str]:
    yield from _installed()
    yield ""  # Pillow's own
    if (finder := shutil.which("fc-match")) is not None:  # fontconfig knows of all that are installed
        asked = [finder, "-f", "%{file}", f":charset={ord(letter):x}"]
        yield subprocess.run(asked, capture_output=True, text=True, check=False).stdout


@lru_cache(maxsize=1)
def _installed() -> list[str]:
    body = next((name for name in BODY if _there(name)), None)
    return [*([body] if body else []), *(name for name in OTHERS if _there(name))]


def _there(name: str) -> bool:
    try:
        ImageFont.truetype(name, 10)
    except OSError:
        return False
    return True


@lru_cache(maxsize=64)
def _font(name: str, pixels: int) -> Any:
    return ImageFont.truetype(name, pixels) if name else ImageFont.load_default(pixels)


@lru_cache(maxsize=8192)
def _has(name: str, letter: str) -> bool:
    """A font draws what it lacks as its sign for nothing (often a box)."""
    try:
        font = _font(name, 20)
        drawn, nothing = font.getmask(letter), font.getmask("\U0010fffe")
    except OSError:  # a font of pictures, in sizes of its own
        return False
    return letter.isspace() or (drawn.getbbox() is not None and bytes(drawn) != bytes(nothing))
