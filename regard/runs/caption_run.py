"""A trained captioner in Python: caption, with where it looked for each word and how far to believe that, evaluate and
look."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.data import captions, images, sights
from regard.data.tokenizer import EOS, SPECIAL
from regard.decoding import Beam
from regard.decoding.beam import Said
from regard.decoding.consensus import Consensus
from regard.decoding.describe import Describer
from regard.errors import UserError
from regard.runs.backbone import seen
from regard.runs.reading import fits, known, read
from regard.runs.run import Run
from regard.tasks.caption import GREY, measure, share_on, word_maps
from regard.tasks.caption_scores import scores

NEVER = [i for i in range(len(SPECIAL)) if i != EOS]
"""Special tokens are no words, so none is said; [EOS] ends a caption."""
MAPS_AT_ONCE = 64


@dataclass(frozen=True)
class Described:
    """What was said of a picture. `score` is the mean log chance of a word; `words` are those of the text, and `maps`
    (words, rows, columns), where asked for, says where each was looked for: each sums to one. `faithful`, where asked
    for, says how far to believe the maps: {"all": ..., "words": [...]}, each a sentence and its figures."""

    name: str
    text: str
    score: float
    words: list[str]
    ended: bool
    maps: np.ndarray | None = None
    faithful: dict[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        told: dict[str, Any] = {"picture": self.name, "caption": self.text, "score": self.score, "ended": self.ended}
        if self.maps is not None:
            told |= {"words": self.words, "maps": np.round(self.maps.astype(float), 6).tolist()}
        if self.faithful is not None:
            told["faithfulness"] = self.faithful
        return told

    def __str__(self) -> str:
        return self.text


class CaptionRun(Run):
    """A run of `caption`."""

    @property
    def verbs(self) -> tuple[str, ...]:
        return ("caption", "evaluate", "look")

    @property
    def side(self) -> int:
        return self.settings.data.size

    @property
    def limit(self) -> int:
        """The most words that are said."""
        return min(self.settings.data.longest, 2 * self.config["data"]["train"]["longest"]) + 1

    def pictures(self, path: str | Path | Sequence[str | Path], say: Callable[[str], Any] = print) -> images.Pictures:
        """Pictures of a file, a folder or a zip, or of several of them, as the model reads them."""
        paths = [path] if isinstance(path, str | Path) else list(path)
        found = [read(self, sights.files(path), say) for path in paths]
        if len(found) == 1:
            return found[0]
        names = [name for part in found for name in part.names]
        return images.Pictures(np.concatenate([part.array for part in found]), names, [], "")

    def caption(
        self,
        path: str | Path | Sequence[str | Path],
        *,
        beam: int = 5,
        alpha: float = 0.7,
        consensus: int = 0,
        maps: bool = False,
        faithful: int = 0,
        told: Callable[[int], Any] | None = None,
        say: Callable[[str], Any] = print,
    ) -> list[Described]:
        """What each picture shows. `beam` 1 is greedy; `consensus` captions are drawn instead and the one
        is taken that most agree with (decoding/consensus.py); `maps` says where each word was looked for, and of the
        first `faithful` pictures how far to believe that."""
        found = self.pictures(path, say)
        how: dict[str, Any] = {"beam": beam, "alpha": alpha, "consensus": consensus, "maps": maps, "told": told}
        return self.describe(found.array, found.names, faithful=faithful, **how)

    def describe(
        self,
        pictures: np.ndarray,
        names: Sequence[str] | None = None,
        *,
        beam: int = 5,
        alpha: float = 0.7,
        consensus: int = 0,
        maps: bool = False,
        faithful: int = 0,
        told: Callable[[int], Any] | None = None,
    ) -> list[Described]:
        """The same for pictures (n, side, side, 3) of bytes."""
        seen = self.shown(pictures)
        best = self.said(seen, Consensus(consensus) if consensus else Beam(beam, alpha), told)
        drawn = self.maps(seen, [said.ids for said in best]) if maps else [None] * len(best)
        names = names or [str(i) for i in range(len(best))]
        from regard.runs.look_caption import believe

        made = []
        for name, said, map_ in zip(names, best, drawn, strict=True):
            text = self.words.decode(said.ids).strip()
            words = [self.words.decode([id]).strip() for id in said.ids]
            believed = believe(self, np.array(seen[len(made)]), said.ids) if len(made) < faithful else None
            made.append(Described(name, text, said.score, words, said.ended, map_, believed))
        return made

    def shown(self, pictures: np.ndarray) -> np.ndarray:
        """The pictures as the model sees them: grey, if it was trained without looking."""
        return np.full_like(pictures, GREY) if self.settings.data.blank else pictures

    def said(
        self, pictures: np.ndarray, how: Beam | Consensus | None = None, told: Callable[[int], Any] | None = None
    ) -> list[Said]:
        """The ids of the best caption of each picture, with its chance."""
        how = how or Beam(5, 0.7)
        found = Describer(self.net, never=NEVER).write(pictures, how=how, limit=self.limit, told=told)
        return [said[0] for said in found]

    def maps(self, pictures: np.ndarray, rows: Sequence[Sequence[int]]) -> list[np.ndarray]:
        """Where each of these words was looked for, (words, rows, columns) of each picture, and not the end."""
        found: list[np.ndarray] = []
        for first in range(0, len(rows), MAPS_AT_ONCE):
            part = slice(first, first + MAPS_AT_ONCE)
            seen = torch.from_numpy(np.array(pictures[part]))
            ended = [[*row, EOS] for row in rows[part]]
            found += [map_[:-1] for map_ in word_maps(self.net, seen, ended)]
        return found

    def point(self, pictures: np.ndarray, texts: Sequence[str], boxes: Sequence[Sequence[captions.Named]]) -> float:
        """How much of the attention falls on what a word names, in the mean over these words, when the caption is
        `texts`: by the map that entered the state which that word is said from."""
        rows = [list(self.words.encode(text).ids) for text in texts]
        drawn = self.maps(pictures, rows)
        shares = [share_on(map_[word], box) for map_, named in zip(drawn, boxes, strict=True) for word, box in named]
        if not shares:
            raise UserError("no box belongs to one of these pictures")
        return float(np.mean(shares))

    def evaluate(
        self,
        data: str | Path,
        references: str | Path | None = None,
        *,
        boxes: str | Path | None = None,
        beam: int = 5,
        alpha: float = 0.7,
        consensus: int = 0,
        told: Callable[[int], Any] | None = None,
        say: Callable[[str], Any] = print,
    ) -> dict[str, Any]:
        """BLEU-1 to 4 of captions of pictures against their references, the share that is word by word one of them, and
        nats a word. `boxes` says where what a word names is: `pointing` is the share of attention that falls there."""
        if references is None:
            raise UserError("pictures and their captions are wanted: regard evaluate RUN PICTURES CAPTIONS")
        part = captions.read(data, references, self.side)
        for note in part.notes:
            say(note)
        part = replace(part, pictures=seen(part.pictures, self.settings.data, known(self), say)[0])
        fits(self, part.pictures, data)
        found = self.describe(part.pictures, part.names, beam=beam, alpha=alpha, consensus=consensus, told=told)
        measured: dict[str, Any] = {"rows": len(found), **({"consensus": consensus} if consensus else {"beam": beam})}
        measured |= scores([one.text for one in found], part.captions)
        if boxes is not None:
            there = captions.boxes(boxes)
            named = [there.get(name, []) for name in part.names]
            measured["pointing"] = self.point(part.pictures, [each[0] for each in part.captions], named)
        from regard.runs.caption import encode

        rows, _ = encode(part, self.words, None)
        return measured | measure(self.net, part.pictures, rows, blank=self.settings.data.blank)

    def measuring(self, files: Sequence[str | Path], rows: int) -> Callable[[], dict[str, float]]:
        """What `regard heads` asks again and again: nats a word and accuracy on at most so many pictures."""
        from regard.runs.caption import encode

        if len(files) != 2:
            raise UserError("pictures and their captions are wanted: regard heads RUN PICTURES CAPTIONS")
        part = captions.read(files[0], files[1], self.side)
        part = part.part(range(min(rows, len(part))))
        pictures = seen(part.pictures, self.settings.data, known(self))[0]
        fits(self, pictures, files[0])
        ids, _ = encode(part, self.words, None)

        def asked() -> dict[str, float]:
            said = measure(self.net, pictures, ids, blank=self.settings.data.blank)
            return {name: said[name] for name in ("loss", "accuracy")}

        return asked

    def look(
        self,
        text: str | Path,
        *,
        label: str | None = None,
        faithful: bool = True,
        changes: Sequence[Any] = (),
    ) -> Any:
        """A page that shows what is said of a picture (its file) and where each word was looked for, with every head;
        in a notebook it shows itself. `changes`: what if (regard.runs.changes)."""
        from regard.runs.look_caption import look

        return look(self, text, label=label, faithful=faithful, changes=changes)
