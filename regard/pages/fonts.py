"""Installed fonts for the PNG renderer: a serif for the text, and a fallback for each character that it lacks."""

from __future__ import annotations

import shutil
import subprocess
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from PIL import ImageFont

# File names on Linux, macOS and Windows; Pillow searches the system's font folders.
SERIF_FONTS = ("DejaVuSerif.ttf", "Georgia.ttf", "georgia.ttf", "NotoSerif-Regular.ttf", "LiberationSerif-Regular.ttf")
FALLBACK_FONTS = (
    *("DejaVuSans.ttf", "NotoSans-Regular.ttf", "NotoSansArabic-Regular.ttf", "NotoSansCJK-Regular.ttc"),
    *("DroidSansFallbackFull.ttf", "wqy-microhei.ttc", "PingFang.ttc", "Arial Unicode.ttf", "GeezaPro.ttc"),
    *("msyh.ttc", "arial.ttf", "seguiemj.ttf", "seguisym.ttf", "NotoEmoji-Regular.ttf", "Symbola.ttf"),
)


class Fonts:
    """Chooses a font for each character, at `scale` pixels per unit; `missing` are characters that no font has."""

    def __init__(self, scale: float):
        self.scale, self.missing = scale, set[str]()

    def split_by_font(self, text: str, size: float) -> list[tuple[str, Any]]:
        """Split a text into parts that one font can draw."""
        runs: list[tuple[str, Any]] = []
        pixels = round(size * self.scale)
        for character in text:
            joins = bool(runs) and (unicodedata.category(character) in ("Mn", "Me", "Mc", "Cf") or character.isspace())
            font = runs[-1][1] if joins else self._font_for(character, pixels)
            if runs and font is runs[-1][1]:
                runs[-1] = (runs[-1][0] + character, font)
            else:
                runs.append((character, font))
        return runs

    def width(self, text: str, size: float) -> float:
        return sum(font.getlength(part) for part, font in self.split_by_font(text, size)) / self.scale

    def _font_for(self, character: str, pixels: int) -> Any:
        name = _font_name(character)
        if name is None and unicodedata.category(character) != "Cf":  # a lone joiner is invisible
            self.missing.add(character)
        return _load_font(name or "", pixels)


@lru_cache(maxsize=4096)
def _font_name(character: str) -> str | None:
    """The first font that has the character."""
    return next((name for name in _candidates(character) if _has_character(name, character)), None)


def _candidates(character: str) -> Iterator[str]:
    yield from _installed_fonts()
    yield ""  # Pillow's default font
    if (fc_match := shutil.which("fc-match")) is not None:  # fontconfig knows all installed fonts
        command = [fc_match, "-f", "%{file}", f":charset={ord(character):x}"]
        yield subprocess.run(command, capture_output=True, text=True, check=False).stdout


@lru_cache(maxsize=1)
def _installed_fonts() -> list[str]:
    serif = next((name for name in SERIF_FONTS if _is_installed(name)), None)
    return [*([serif] if serif else []), *(name for name in FALLBACK_FONTS if _is_installed(name))]


def _is_installed(name: str) -> bool:
    try:
        ImageFont.truetype(name, 10)
    except OSError:
        return False
    return True


@lru_cache(maxsize=64)
def _load_font(name: str, pixels: int) -> Any:
    return ImageFont.truetype(name, pixels) if name else ImageFont.load_default(pixels)


@lru_cache(maxsize=8192)
def _has_character(name: str, character: str) -> bool:
    """Whether a font draws the character differently from its glyph for missing characters."""
    try:
        font = _load_font(name, 20)
        glyph, missing = font.getmask(character), font.getmask("\U0010fffe")
    except OSError:  # a bitmap font of fixed sizes
        return False
    return character.isspace() or (glyph.getbbox() is not None and bytes(glyph) != bytes(missing))
