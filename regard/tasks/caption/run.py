"""A trained captioner: caption images, with attention maps of each word and their faithfulness; evaluate; look."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from regard.models.timm_backbone import apply_backbone
from regard.tasks.base_run import Run
from regard.tasks.caption.metrics import compute_caption_metrics
from regard.tasks.caption.objective import GRAY, attention_in_box, compute_word_maps, measure_loss
from regard.tasks.image_input import backbone_fingerprint, check_input_shape, read_images

if TYPE_CHECKING:
    from regard.explain.look_result import Look

logger = logging.getLogger(__name__)

SUPPRESSED_IDS = [i for i in range(len(SPECIAL_TOKENS)) if i != EOS]
"""Special tokens that are never generated; [EOS] ends a caption."""
MAP_BATCH_SIZE = 64
MAX_BPE_TOKENS_PER_WORD = 4
BASELINE_METRICS = ("bleu1", "bleu2", "bleu3", "bleu4", "cider")


@dataclass(frozen=True)
class Caption:
    """The caption of an image.

    Attributes:
        name: File name of the image.
        text: The caption.
        score: Mean log probability of a word.
        words: The words of the caption.
        ended: Whether the caption ended before the maximum length.
        maps: Attention map of each word, (words, rows, columns), each summing to one, if requested.
        faithful: Faithfulness of the maps, {"all": ..., "words": [...]}, if requested.
    """

    name: str
    text: str
    score: float
    words: list[str]
    ended: bool
    maps: np.ndarray | None = None
    faithful: dict[str, Any] | None = None

    def as_dict(self) -> dict[str, Any]:
        tree: dict[str, Any] = {"image": self.name, "caption": self.text, "score": self.score, "ended": self.ended}
        if self.maps is not None:
            tree |= {"words": self.words, "maps": np.round(self.maps.astype(float), 6).tolist()}
        if self.faithful is not None:
            tree["faithfulness"] = self.faithful
        return tree

    def __str__(self) -> str:
        return self.text


def max_tokens_per_word(tokenizer: Tokenizer) -> int:
    """Return how many tokens per word are allowed when captions are generated."""
    return MAX_BPE_TOKENS_PER_WORD if tokenizer.kind == "bpe" else 1


class ImageCaptioner(Run):
    """A run of `caption`."""

    @property
    def verbs(self) -> tuple[str, ...]:
        return ("caption", "evaluate", "look")

    @property
    def side(self) -> int:
        """Side of the images in pixels."""
        return self.settings.data.size

    @property
    def max_length(self) -> int:
        """Maximum number of tokens of a generated caption."""
        max_words = min(self.settings.data.max_words, 2 * self.config["data"]["train"]["max_words"]) + 1
        return max_tokens_per_word(self.tokenizer) * max_words

    def read_images(self, path: str | Path | Sequence[str | Path]) -> image_files.ImageArray:
        """Read the images of a file, folder or zip, or of several of them, as input of the model."""
        paths = [path] if isinstance(path, str | Path) else list(path)
        if not paths:
            raise UserError("no images; pass a file, a folder or a zip")
        parts, errors = [], []
        for one in paths:
            try:
                parts.append(read_images(self, image_source.open_image_source(one)))
            except UserError as error:  # other files may be readable
                errors.append(error)
        if not parts:
            raise errors[0]
        for error in errors:
            logger.info(f"skipped: {error}")
        if len(parts) == 1:
            return parts[0]
        names = [name for part in parts for name in part.names]
        return image_files.ImageArray(np.concatenate([part.array for part in parts]), names, [], "")

    def caption(
        self,
        path: str | Path | Sequence[str | Path],
        *,
        beam: int = 5,
        alpha: float = 0.7,
        consensus: int = 0,
        maps: bool = False,
        faithful: int = 0,
        on_progress: Callable[[int], Any] | None = None,
    ) -> list[Caption]:
        """Caption images.

        Args:
            path: Image file, folder or zip, or several of them.
            beam: Beam size; 1 is greedy.
            alpha: Length penalty of beam search.
            consensus: If not 0, draw this many captions and return the one that agrees most with the others
                (regard.decoding.mbr).
            maps: Whether to return the attention map of each word.
            faithful: Number of images for which the faithfulness of the maps is measured.
            on_progress: Called with the number of captions generated so far.
        """
        images = self.read_images(path)
        options: dict[str, Any] = {"beam": beam, "alpha": alpha, "consensus": consensus, "maps": maps}
        return self.caption_arrays(images.array, images.names, faithful=faithful, on_progress=on_progress, **options)

    def caption_arrays(
        self,
        images: np.ndarray,
        names: Sequence[str] | None = None,
        *,
        beam: int = 5,
        alpha: float = 0.7,
        consensus: int = 0,
        maps: bool = False,
        faithful: int = 0,
        on_progress: Callable[[int], Any] | None = None,
    ) -> list[Caption]:
        """Caption decoded images, (n, side, side, 3) uint8. The other arguments are those of `caption`."""
        from regard.tasks.caption.look import measure_faithfulness

        images = self.hide_if_blank(images)
        strategy = MinimumBayesRisk(consensus) if consensus else BeamSearch(beam, alpha)
        hypotheses = self.generate_captions(images, strategy, on_progress)
        word_maps = self.word_maps(images, [h.ids for h in hypotheses]) if maps else [None] * len(hypotheses)
        names = names or [str(i) for i in range(len(hypotheses))]
        captions = []
        for i, (name, hypothesis, word_map) in enumerate(zip(names, hypotheses, word_maps, strict=True)):
            text = self.tokenizer.decode(hypothesis.ids).strip()
            words = [self.tokenizer.decode([id]).strip() for id in hypothesis.ids]
            scores = measure_faithfulness(self, np.array(images[i]), hypothesis.ids) if i < faithful else None
            captions.append(Caption(name, text, hypothesis.score, words, hypothesis.ended, word_map, scores))
        return captions

    def hide_if_blank(self, images: np.ndarray) -> np.ndarray:
        """Return gray images if the run was trained with data.blank, otherwise the images."""
        return np.full_like(images, GRAY) if self.settings.data.blank else images

    def generate_captions(
        self,
        images: np.ndarray,
        strategy: BeamSearch | MinimumBayesRisk | None = None,
        on_progress: Callable[[int], Any] | None = None,
    ) -> list[Hypothesis]:
        """Return the best caption of each image, as token ids with their score."""
        strategy = strategy or BeamSearch(5, 0.7)
        outputs = CaptionGenerator(self.model, suppress=SUPPRESSED_IDS).generate(
            images, strategy=strategy, max_length=self.max_length, on_progress=on_progress
        )
        return [candidates[0] for candidates in outputs]

    def word_maps(self, images: np.ndarray, rows: Sequence[Sequence[int]]) -> list[np.ndarray]:
        """Return the attention map of each word of one caption per image, (words, rows, columns), without [EOS]."""
        maps: list[np.ndarray] = []
        for start in range(0, len(rows), MAP_BATCH_SIZE):
            part = slice(start, start + MAP_BATCH_SIZE)
            part_images = torch.from_numpy(np.array(images[part]))
            captions = [[*row, EOS] for row in rows[part]]
            maps += [word_map[:-1] for word_map in compute_word_maps(self.model, part_images, captions)]
        return maps

    def measure_pointing(
        self, images: np.ndarray, texts: Sequence[str], boxes: Sequence[Sequence[caption_files.WordBox]]
    ) -> dict[str, float]:
        """Measure how much attention falls on the objects that words name.

        Args:
            images: Model input.
            texts: Caption of each image.
            boxes: Bounding boxes of words of each caption.

        Returns:
            "pointing", the mean attention of a word within its box; "even", the same for uniform attention.
        """
        if self.tokenizer.kind == "bpe":
            raise UserError(
                "boxes refer to whole words, but this run uses BPE; train it with --set tokenizer.kind=spaces"
            )
        for text, word_boxes in zip(texts, boxes, strict=True):
            count = len(text.split())
            if invalid := [word for word, _ in word_boxes if word >= count]:
                raise UserError(f"a box refers to word {invalid[0]}, but {text!r} has {count} words, numbered from 0")
        rows = [list(self.tokenizer.encode(text).ids) for text in texts]
        maps = self.word_maps(self.hide_if_blank(images), rows)
        pairs = [(m[word], box) for m, word_boxes in zip(maps, boxes, strict=True) for word, box in word_boxes]
        if not pairs:
            raise UserError("no box belongs to one of these images")
        pointing = [attention_in_box(attention, box) for attention, box in pairs]
        even = [attention_in_box(np.full_like(attention, 1 / attention.size), box) for attention, box in pairs]
        return {"pointing": float(np.mean(pointing)), "even": float(np.mean(even))}

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
        on_progress: Callable[[int], Any] | None = None,
    ) -> dict[str, Any]:
        """Evaluate captions of images against references.

        Measures BLEU-1 to 4, exact match, and the loss per word; and baselines that do not use the image: the most
        frequent training caption (`most_frequent_`), and a run trained on gray images (`blank_`).

        Args:
            data: Images.
            references: Their captions.
            boxes: Bounding boxes of words; adds the metrics of `measure_pointing`.
            beam: See `caption`.
            alpha: See `caption`.
            consensus: See `caption`.
            blank: A run that was trained with --blank.
            on_progress: See `caption`.
        """
        if references is None:
            raise UserError("expected images and their captions: regard evaluate RUN IMAGES CAPTIONS")
        part = caption_files.read_captioned_images(data, references, self.side)
        for note in part.notes:
            logger.info(note)
        part = self._apply_backbone(part, data)
        options: dict[str, Any] = {"beam": beam, "alpha": alpha, "consensus": consensus}
        captions = self.caption_arrays(part.images, part.names, on_progress=on_progress, **options)
        metrics: dict[str, Any] = {"rows": len(captions), **({"consensus": consensus} if consensus else {"beam": beam})}
        metrics |= compute_caption_metrics([caption.text for caption in captions], part.captions)
        if most_frequent := self.config.get("most_frequent_caption"):
            logger.info(f"most_frequent_: {most_frequent!r}, the most frequent training caption, for every image")
            baseline = compute_caption_metrics([most_frequent] * len(part), part.captions)
            metrics |= _prefix_metrics("most_frequent", baseline)
        if blank is not None:
            with muted():
                metrics |= _prefix_metrics("blank", _load_blank_run(blank).evaluate(data, references, **options))
        if boxes is not None:
            word_boxes, num_unmatched = caption_files.read_boxes_of_images(boxes, part.names)
            if num_unmatched:
                logger.info(f"skipped {num_unmatched:,} boxes of other images")
            metrics |= self.measure_pointing(part.images, [captions[0] for captions in part.captions], word_boxes)
        return metrics | self._measure_loss(part)

    def _apply_backbone(self, part: caption_files.CaptionedImages, path: str | Path) -> caption_files.CaptionedImages:
        images, _ = apply_backbone(part.images, self.settings.data, backbone_fingerprint(self))
        check_input_shape(self, images, path)
        return replace(part, images=images)

    def _measure_loss(self, part: caption_files.CaptionedImages) -> dict[str, float]:
        from regard.tasks.caption.dataset import encode_captions

        rows, _ = encode_captions(part, self.tokenizer, None)
        return measure_loss(self.model, part.images, rows, blank=self.settings.data.blank)

    def build_evaluation(self, files: Sequence[str | Path], rows: int) -> Callable[[], dict[str, float]]:
        """Return a function that measures loss and accuracy on at most `rows` images."""
        if len(files) != 2:
            raise UserError("expected images and their captions: regard heads RUN IMAGES CAPTIONS")
        part = caption_files.read_captioned_images(files[0], files[1], self.side)
        part = self._apply_backbone(part.subset(range(min(rows, len(part)))), files[0])

        def measure() -> dict[str, float]:
            metrics = self._measure_loss(part)
            return {name: metrics[name] for name in ("loss", "accuracy")}

        return measure

    def look(
        self,
        text: str | Path,
        *,
        label: str | None = None,
        faithful: bool = True,
        what_if: Sequence[Any] = (),
    ) -> Look:
        """Return a page with the caption of an image and the attention of each word.

        Args:
            text: The image file.
            label: Not supported.
            faithful: Whether to measure faithfulness.
            what_if: Interventions (regard.explain.interventions).
        """
        from regard.tasks.caption.look import look

        return look(self, text, label=label, faithful=faithful, what_if=what_if)


def _prefix_metrics(prefix: str, metrics: dict[str, Any]) -> dict[str, Any]:
    return {f"{prefix}_{name}": metrics[name] for name in BASELINE_METRICS if name in metrics}


def _load_blank_run(folder: str | Path) -> ImageCaptioner:
    run = Run.load(folder)
    if not isinstance(run, ImageCaptioner) or not run.settings.data.blank:
        raise UserError(f"{folder} is not a captioner trained on gray images (regard train caption --blank)")
    return run
