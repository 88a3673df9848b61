"""The page of `regard caption`: each word with its map over the picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from regard.data import image_files, image_source
from regard.explain import image_uri as pictures
from regard.pages.caption_page import render_caption_page
from regard.tasks.caption.run import CaptionRun, Described

PLAIN = 225
MOST = 40  # pictures on a page


def page(run: CaptionRun, found: Sequence[Described], paths: Sequence[Path]) -> str:
    """One self-contained document. Pictures are shown as they are, and not as small as they were read."""
    shown = []
    every = ((source, name) for source in map(image_source.open_image_source, paths) for name in source.names)
    for one in found[:MOST]:
        assert one.maps is not None
        source = next(source for source, name in every if name == one.name)  # in their order; some could not be read
        side = pictures.display_size(run.side)
        plain = np.full((side, side, 3), PLAIN, np.uint8)  # of features there is nothing to show
        picture = plain if source.features else image_files.decode_image(source.open(one.name), side)
        rows, columns = one.maps.shape[1:]
        shown.append(
            {
                "name": one.name,
                "caption": one.text,
                "words": one.words,
                "score": one.score,
                "rows": rows,
                "columns": columns,
                "maps": [[round(float(w), 6) for w in map_.ravel()] for map_ in one.maps],
                "image": pictures.to_data_uri(picture),
                "faithfulness": one.faithful,
            }
        )
    notes = [f"Only the first {MOST} of {len(found):,} pictures are shown."] if len(found) > MOST else []
    model = run.settings.model_name
    about: dict[str, Any] = {"title": "Where each word was looked for", "model": model, "run": str(run.folder or "")}
    return render_caption_page({**about, "images": shown, "notes": notes})
