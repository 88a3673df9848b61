"""A trained captioner in Python: caption, with where it looked for each word and how far to believe that, evaluate and
look."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.config.messages import muted
from regard.data import caption_files, image_files, image_source
from regard.data.tokenizer import EOS, SPECIAL_TOKENS, Tokenizer
from regard.decoding import BeamSearch
from regard.decoding.beam_search import Hypothesis
from regard.decoding.caption_decoder import CaptionGenerator
from regard.decoding.mbr import MinimumBayesRisk
from regard.errors import UserError
from regard.models.timm_backbone import seen
from regard.tasks.base_run import Run
from regard.tasks.caption.metrics import scores
from regard.tasks.caption.objective import GREY, measure, share_on, word_maps
from regard.tasks.image_input import fits, known, read

logger = logging.getLogger(__name__)

NEVER = [i for i in range(len(SPECIAL_TOKENS)) if i != EOS]
"""Special tokens are no words, so none is said; [EOS] ends a caption."""
MAPS_AT_ONCE = 64
PIECES = 4


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
            told |= {"words": self.tokenizer, "maps": np.round(self.maps.astype(float), 6).tolist()}
        if self.faithful is not None:
            told["faithfulness"] = self.faithful
        return told

    def __str__(self) -> str:
        return self.text


def pieces(words: Tokenizer) -> int:
    """How many tokens a word may have."""
    return PIECES if words.kind == "bpe" else 1


def _prefixed(name: str, measured: dict[str, Any]) -> dict[str, Any]:
    kept = ("bleu1", "bleu2", "bleu3", "bleu4", "cider")
    return {f"{name}_{key}": measured[key] for key in kept if key in measured}


def _blanked(folder: str | Path) -> CaptionRun:
    run = Run.load(folder)
    if not isinstance(run, CaptionRun) or not run.settings.data.blank:
        raise UserError(f"{folder} is no captioner that was trained on grey pictures (regard train caption --blank)")
    return run


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
        """The most tokens that are said."""
        words = min(self.settings.data.longest, 2 * self.config["data"]["train"]["longest"]) + 1
        return pieces(self.tokenizer) * words

    def pictures(self, path: str | Path | Sequence[str | Path]) -> image_files.ImageArray:
        """Pictures of a file, a folder or a zip, or of several of them, as the model reads them."""
        paths = [path] if isinstance(path, str | Path) else list(path)
        if not paths:
            raise UserError("no picture was given")
        found, trouble = [], []
        for one in paths:
            try:
                found.append(read(self, image_source.open_image_source(one)))
            except UserError as problem:  # the others may be better
                trouble.append(problem)
        if not found:
            raise trouble[0]
        for problem in trouble:
            logger.info(f"left out: {problem}")
        if len(found) == 1:
            return found[0]
        names = [name for part in found for name in part.names]
        return image_files.ImageArray(np.concatenate([part.array for part in found]), names, [], "")

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
    ) -> list[Described]:
        """What each picture shows. `beam` 1 is greedy; `consensus` captions are drawn instead and the one
        is taken that most agree with (decoding/consensus.py); `maps` says where each word was looked for, and of the
        first `faithful` pictures how far to believe that."""
        found = self.pictures(path)
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
        best = self.said(seen, MinimumBayesRisk(consensus) if consensus else BeamSearch(beam, alpha), told)
        drawn = self.maps(seen, [said.ids for said in best]) if maps else [None] * len(best)
        names = names or [str(i) for i in range(len(best))]
        from regard.tasks.caption.look import believe

        made = []
        for name, said, map_ in zip(names, best, drawn, strict=True):
            text = self.tokenizer.decode(said.ids).strip()
            words = [self.tokenizer.decode([id]).strip() for id in said.ids]
            believed = believe(self, np.array(seen[len(made)]), said.ids) if len(made) < faithful else None
            made.append(Described(name, text, said.score, words, said.ended, map_, believed))
        return made

    def shown(self, pictures: np.ndarray) -> np.ndarray:
        """The pictures as the model sees them: grey, if it was trained without looking."""
        return np.full_like(pictures, GREY) if self.settings.data.blank else pictures

    def said(
        self, pictures: np.ndarray, how: BeamSearch | MinimumBayesRisk | None = None, told: Callable[[int], Any] | None = None
    ) -> list[Hypothesis]:
        """The ids of the best caption of each picture, with its chance."""
        how = how or BeamSearch(5, 0.7)
        found = CaptionGenerator(self.model, suppress=NEVER).generate(pictures, strategy=how, max_length=self.limit, on_progress=told)
        return [said[0] for said in found]

    def maps(self, pictures: np.ndarray, rows: Sequence[Sequence[int]]) -> list[np.ndarray]:
        """Where each of these words was looked for, (words, rows, columns) of each picture, and not the end."""
        found: list[np.ndarray] = []
        for first in range(0, len(rows), MAPS_AT_ONCE):
            part = slice(first, first + MAPS_AT_ONCE)
            seen = torch.from_numpy(np.array(pictures[part]))
            ended = [[*row, EOS] for row in rows[part]]
            found += [map_[:-1] for map_ in word_maps(self.model, seen, ended)]
        return found

    def point(
        self, pictures: np.ndarray, texts: Sequence[str], boxes: Sequence[Sequence[caption_files.WordBox]]
    ) -> dict[str, float]:
        """`pointing`: how much of the attention falls on what a word names, in the mean over these words, when the
        caption is `texts`: by the map that entered the state which that word is said from. `even`: what attention
        spread evenly would put there."""
        if self.tokenizer.kind == "bpe":
            raise UserError("boxes number whole words, and this run says pieces of words; train it with spaces")
        for text, named in zip(texts, boxes, strict=True):
            if beyond := [word for word, _ in named if word >= len(text.split())]:
                raise UserError(f"a box is one of word {beyond[0]}, and {text!r} has {len(text.split())}, from 0 on")
        rows = [list(self.tokenizer.encode(text).ids) for text in texts]
        drawn = self.maps(self.shown(pictures), rows)
        both = [(map_[word], box) for map_, named in zip(drawn, boxes, strict=True) for word, box in named]
        if not both:
            raise UserError("no box belongs to one of these pictures")
        even = [share_on(np.full_like(map_, 1 / map_.size), box) for map_, box in both]
        return {"pointing": float(np.mean([share_on(map_, box) for map_, box in both])), "even": float(np.mean(even))}

    def evaluate(
        self,
        data: str | Path,
        references: str | Path | None = None,
        *,
        boxes: str | Path | None = None,
        beam: int = 5,
        alpha: float = 0.7,
        consensus: int = 0,
        blank: str | Path | None = None,
        told: Callable[[int], Any] | None = None,
    ) -> dict[str, Any]:
        """BLEU-1 to 4 of captions of pictures against their references, the share that is word by word one of them, and
        nats a word; and beside it what is reached without looking: by the commonest caption of training (`commonest_`),
        and by a run `blank` that was trained on grey pictures (`blank_`). `boxes` says where what a word names is:
        `pointing` is the share of attention that falls there, `even` what attention spread evenly would put there."""
        if references is None:
            raise UserError("pictures and their captions are wanted: regard evaluate RUN PICTURES CAPTIONS")
        part = caption_files.read_captioned_images(data, references, self.side)
        for note in part.notes:
            logger.info(note)
        part = replace(part, images=seen(part.images, self.settings.data, known(self))[0])
        fits(self, part.images, data)
        found = self.describe(part.images, part.names, beam=beam, alpha=alpha, consensus=consensus, told=told)
        measured: dict[str, Any] = {"rows": len(found), **({"consensus": consensus} if consensus else {"beam": beam})}
        measured |= scores([one.text for one in found], part.captions)
        if said := self.config.get("commonest"):
            logger.info(f"commonest_: {said!r} said of every picture, the commonest caption of training")
            measured |= _prefixed("commonest", scores([said] * len(part), part.captions))
        if blank is not None:
            how: dict[str, Any] = {"beam": beam, "alpha": alpha, "consensus": consensus}
            with muted():
                measured |= _prefixed("blank", _blanked(blank).evaluate(data, references, **how))
        if boxes is not None:
            there, unknown = caption_files.read_boxes_of_images(boxes, part.names)
            if unknown:
                logger.info(f"{unknown:,} boxes are of pictures that are not here, and left out")
            measured |= self.point(part.images, [each[0] for each in part.captions], there)
        from regard.tasks.caption.dataset import encode

        rows, _ = encode(part, self.tokenizer, None)
        return measured | measure(self.model, part.images, rows, blank=self.settings.data.blank)

    def measuring(self, files: Sequence[str | Path], rows: int) -> Callable[[], dict[str, float]]:
        """What `regard heads` asks again and again: nats a word and accuracy on at most so many pictures."""
        from regard.tasks.caption.dataset import encode

        if len(files) != 2:
            raise UserError("pictures and their captions are wanted: regard heads RUN PICTURES CAPTIONS")
        part = caption_files.read_captioned_images(files[0], files[1], self.side)
        part = part.subset(range(min(rows, len(part))))
        pictures = seen(part.images, self.settings.data, known(self))[0]
        fits(self, pictures, files[0])
        ids, _ = encode(part, self.tokenizer, None)

        def asked() -> dict[str, float]:
            said = measure(self.model, pictures, ids, blank=self.settings.data.blank)
            return {name: said[name] for name in ("loss", "accuracy")}

        return asked

    def look(
        self,
        text: str | Path,
        *,
        label: str | None = None,
        faithful: bool = True,
        what_if: Sequence[Any] = (),
    ) -> Any:
        """A page that shows what is said of a picture (its file) and where each word was looked for, with every head;
        in a notebook it shows itself. `what_if`: interventions (regard.explain.interventions)."""
        from regard.tasks.caption.look import look

        return look(self, text, label=label, faithful=faithful, what_if=what_if)
