"""The HTML page of `regard caption`: each word with its attention map over the image."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from regard.data import image_files, image_source
from regard.explain.image_uri import display_size, to_data_uri
from regard.pages.caption_page import render_caption_page
from regard.tasks.caption.run import Caption, ImageCaptioner

FEATURES_COLOR = 225  # shown instead of the image if there are only features
MAX_IMAGES = 40


def render_page(run: ImageCaptioner, captions: Sequence[Caption], paths: Sequence[Path]) -> str:
    """Render a self-contained page. Images are shown at display size, not at the size of the model input."""
    images = []
    sources = ((source, name) for source in map(image_source.open_image_source, paths) for name in source.names)
    for caption in captions[:MAX_IMAGES]:
        assert caption.maps is not None
        # captions are in the order of the files, but unreadable files have none
        source = next(source for source, name in sources if name == caption.name)
        side = display_size(run.side)
        if source.features:
            image = np.full((side, side, 3), FEATURES_COLOR, np.uint8)
        else:
            image = image_files.decode_image(source.open(caption.name), side)
        rows, columns = caption.maps.shape[1:]
        images.append(
            {
                "name": caption.name,
                "caption": caption.text,
                "words": caption.words,
                "score": caption.score,
                "rows": rows,
                "columns": columns,
                "maps": [[round(float(weight), 6) for weight in word_map.ravel()] for word_map in caption.maps],
                "image": to_data_uri(image),
                "faithfulness": caption.faithful,
            }
        )
    notes = []
    if len(captions) > MAX_IMAGES:
        notes.append(f"Only the first {MAX_IMAGES} of {len(captions):,} images are shown.")
    return render_caption_page(
        {
            "title": "Attention of each caption word",
            "model": run.settings.model_name,
            "run": str(run.folder or ""),
            "images": images,
            "notes": notes,
        }
    )
