"""What an imported model says of a file, as a number that heads can be measured by: nats a token.

gpt2          the next token, over the lines of a text
bert          every seventh token, hidden behind [MASK]
marian, t5    the tokens of the translations in two aligned files, or a table with two columns
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard.data import parallel_text
from regard.errors import UserError
from regard.explain.explainer import pad_ids

if TYPE_CHECKING:
    from regard.hub.imported_model import Imported

AT_ONCE = 16  # rows
EVERY = 7

Batch = tuple[Callable[[], Tensor], Tensor]
"""What gives the logits (k, vocab), and the k tokens that are right."""


def measuring(model: Imported, files: Sequence[str | Path], rows: int) -> Callable[[], dict[str, float]]:
    """Of the first `rows` lines or pairs: a function that measures the model as it then is."""
    found = _pairs(model, files, rows) if model.info.family in ("marian", "t5") else _lines(model, files[0], rows)

    @torch.no_grad()
    def asked() -> dict[str, float]:
        nats, right, count = 0.0, 0, 0
        for said, words in found:
            logits = said().float()
            nats += float(F.cross_entropy(logits, words, reduction="sum"))
            right, count = right + int((logits.argmax(-1) == words).sum()), count + len(words)
        return {"loss": nats / count, "accuracy": right / count}

    return asked


def _lines(model: Imported, file: str | Path, rows: int) -> list[Batch]:
    causal, mask_id = model.info.family == "gpt2", model.reader.core.token_to_id("[MASK]")
    if not causal and (mask_id is None or model.headless):
        raise UserError(f"{model.folder} has no [MASK] or no head for it, so that its heads are not measured")
    asked: list[tuple[list[int], list[int]]] = []  # ids, and the places whose tokens are asked about
    with Path(file).open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if not line.strip():
                continue
            ids, tokens, _ = model.reader.read(line.strip(), model.most)
            plain = [i for i, token in enumerate(tokens) if not token["special"]]
            places = list(range(1, len(ids))) if causal else plain[len(asked) % EVERY :: EVERY]
            if places:
                asked.append((ids, places))
            if len(asked) == rows:
                break
    if not asked:
        raise UserError(f"{file} has no line that can be asked about")
    return [
        _batch(model.net, asked[i : i + AT_ONCE], None if causal else mask_id) for i in range(0, len(asked), AT_ONCE)
    ]


def _batch(net: Any, rows: Sequence[tuple[list[int], list[int]]], mask_id: int | None) -> Batch:
    """Without a mask each token is asked from the place before it."""
    block, mask = pad_ids([torch.tensor(ids) for ids, _ in rows], 0)
    words = torch.tensor([ids[place] for ids, places in rows for place in places])
    if mask_id is not None:
        for i, (_, places) in enumerate(rows):
            block[i, places] = mask_id
    wide, back = block.shape[1], int(mask_id is None)
    at = torch.tensor([i * wide + place - back for i, (_, places) in enumerate(rows) for place in places])

    def said() -> Tensor:
        found = net(block, mask=mask, logits_at=at)
        return found[0] if isinstance(found, tuple) else found

    return said, words


def _pairs(model: Imported, files: Sequence[str | Path], rows: int) -> list[Batch]:
    found = parallel_text.read_parallel_texts(list(files), source=None, target=None)
    both = list(zip(found.sources, found.targets, strict=True))[:rows]
    read = [(model.reader.read(a, model.most)[0], model.target_ids(b)) for a, b in both]
    parts = [read[i : i + AT_ONCE] for i in range(0, len(read), AT_ONCE)]
    return [_pair_batch(model.net, part, model.begin) for part in parts]


def _pair_batch(net: Any, rows: Sequence[tuple[list[int], list[int]]], begin: int) -> Batch:
    source, source_mask = pad_ids([torch.tensor(a) for a, _ in rows], 0)
    target, mask = pad_ids([torch.tensor(b) for _, b in rows], 0)
    before = torch.cat((torch.full((len(rows), 1), begin), target[:, :-1]), 1)
    return lambda: net(source, before, source_mask=source_mask)[mask], target[mask]
