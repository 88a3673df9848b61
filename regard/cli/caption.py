"""`regard caption`: describe images, and show where each word attends."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Annotated

import typer

from regard.cli.common import Imports, Json, RunFolder, open_run, progress_counter, show_measuring_progress
from regard.errors import UserError

logger = logging.getLogger(__name__)


def caption(
    run: RunFolder,
    images: Annotated[
        list[Path], typer.Argument(help="Image files, folders or zip files; or features.", metavar="IMAGE...")
    ],
    out: Annotated[
        Path | None, typer.Option(help="A page with the attention map of each word (.html), or the maps (.json).")
    ] = None,
    beam: Annotated[int, typer.Option(min=1, help="Beam size; 1 is greedy.")] = 5,
    alpha: Annotated[float, typer.Option(min=0.0, help="Length penalty: scores are divided by length ** alpha.")] = 0.7,
    consensus: Annotated[
        int, typer.Option(min=0, help="Sample N captions and take the one closest to the others, instead of beams.")
    ] = 0,
    faithful: Annotated[bool, typer.Option(help="With --out: measure the faithfulness of the maps.")] = True,
    import_: Imports = None,
    json_: Json = False,
) -> None:
    """Write captions for images.

    With --out, a page shows for each word where it attends, and how faithful the map is; .json has the maps as numbers.

    \b
    Examples:
      regard caption runs/scenes photo.png
      regard caption runs/scenes photo.png --out look.html
      regard caption runs/scenes unseen.zip --beam 1 --json
      regard caption runs/scenes photo.png --consensus 20
    """
    suffix = "" if out is None else out.suffix.lower()
    if out is not None and suffix not in (".html", ".json"):
        raise UserError(f"--out must end in .html (a page) or .json (the maps), not {str(out)!r}")
    if out is not None and not out.parent.is_dir():
        raise UserError(f"there is no folder {str(out.parent)!r} to write {out.name} into")
    model = open_run(run, import_, "caption")
    from regard.tasks.caption.page import MAX_IMAGES, render_page

    show_measuring_progress()
    captions = model.caption(
        images,
        beam=beam,
        alpha=alpha,
        consensus=consensus,
        maps=out is not None,
        faithful=MAX_IMAGES if faithful and out is not None else 0,
        on_progress=progress_counter("captioned"),
    )
    for item in captions:
        if json_:
            print(json.dumps(item.as_dict(), ensure_ascii=False))
        else:
            print(item.text if len(captions) == 1 else f"{item.name}\t{item.text}")
    if out is not None:
        maps = json.dumps([item.as_dict() for item in captions], ensure_ascii=False) if suffix == ".json" else None
        out.write_text(render_page(model, captions, images) if maps is None else maps, encoding="utf-8")
        logger.info(f"{'page' if maps is None else 'maps'}: {out}")
