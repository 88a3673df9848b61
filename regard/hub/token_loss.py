"""Loss and accuracy of an imported model on files, in nats per token. Head importance is measured with it.

gpt2          the next token, on the lines of a text
bert          every seventh token, replaced by [MASK]
marian, t5    the tokens of translations, in two aligned files or a table with two columns
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
    from regard.hub.imported_model import ImportedModel

BATCH_ROWS = 16
MASK_EVERY = 7

Batch = tuple[Callable[[], Tensor], Tensor]
"""A function that computes logits (k, vocab), and the k correct tokens."""


def build_evaluation(imported: ImportedModel, files: Sequence[str | Path], rows: int) -> Callable[[], dict[str, float]]:
    """Read the first `rows` lines or pairs and return a function that evaluates the current model on them."""
    is_seq2seq = imported.info.family in ("marian", "t5")
    batches = _pair_batches(imported, files, rows) if is_seq2seq else _line_batches(imported, files[0], rows)

    @torch.no_grad()
    def evaluate() -> dict[str, float]:
        loss, correct, count = 0.0, 0, 0
        for compute_logits, targets in batches:
            logits = compute_logits().float()
            loss += float(F.cross_entropy(logits, targets, reduction="sum"))
            correct, count = correct + int((logits.argmax(-1) == targets).sum()), count + len(targets)
        return {"loss": loss / count, "accuracy": correct / count}

    return evaluate


def _line_batches(imported: ImportedModel, file: str | Path, rows: int) -> list[Batch]:
    is_causal, mask_id = imported.info.family == "gpt2", imported.tokenizer.core.token_to_id("[MASK]")
    if not is_causal and (mask_id is None or imported.lacks_token_head):
        raise UserError(f"{imported.folder} has no [MASK] token or no masked-token head, so it cannot be evaluated")
    examples: list[tuple[list[int], list[int]]] = []  # token ids, and the positions that are predicted
    with Path(file).open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if not line.strip():
                continue
            ids, tokens, _ = imported.tokenizer.encode(line.strip(), imported.max_tokens)
            maskable = [i for i, token in enumerate(tokens) if not token["special"]]
            positions = list(range(1, len(ids))) if is_causal else maskable[len(examples) % MASK_EVERY :: MASK_EVERY]
            if positions:
                examples.append((ids, positions))
            if len(examples) == rows:
                break
    if not examples:
        raise UserError(f"{file} has no line with a token to predict")
    parts = [examples[i : i + BATCH_ROWS] for i in range(0, len(examples), BATCH_ROWS)]
    return [_line_batch(imported.model, part, None if is_causal else mask_id) for part in parts]


def _line_batch(model: Any, examples: Sequence[tuple[list[int], list[int]]], mask_id: int | None) -> Batch:
    """Without `mask_id`, each token is predicted from the position before it."""
    ids, mask = pad_ids([torch.tensor(ids) for ids, _ in examples], 0)
    targets = torch.tensor([ids[position] for ids, positions in examples for position in positions])
    if mask_id is not None:
        for row, (_, positions) in enumerate(examples):
            ids[row, positions] = mask_id
    width, shift = ids.shape[1], int(mask_id is None)
    logits_at = torch.tensor(
        [row * width + position - shift for row, (_, positions) in enumerate(examples) for position in positions]
    )

    def compute_logits() -> Tensor:
        output = model(ids, mask=mask, logits_at=logits_at)
        return output[0] if isinstance(output, tuple) else output

    return compute_logits, targets


def _pair_batches(imported: ImportedModel, files: Sequence[str | Path], rows: int) -> list[Batch]:
    texts = parallel_text.read_parallel_texts(list(files), source=None, target=None)
    pairs = list(zip(texts.sources, texts.targets, strict=True))[:rows]
    encoded = [
        (imported.tokenizer.encode(source, imported.max_tokens)[0], imported.target_ids(target))
        for source, target in pairs
    ]
    parts = [encoded[i : i + BATCH_ROWS] for i in range(0, len(encoded), BATCH_ROWS)]
    return [_pair_batch(imported.model, part, imported.start_id) for part in parts]


def _pair_batch(model: Any, pairs: Sequence[tuple[list[int], list[int]]], start_id: int) -> Batch:
    source, source_mask = pad_ids([torch.tensor(source) for source, _ in pairs], 0)
    target, mask = pad_ids([torch.tensor(target) for _, target in pairs], 0)
    inputs = torch.cat((torch.full((len(pairs), 1), start_id), target[:, :-1]), 1)
    return lambda: model(source, inputs, source_mask=source_mask)[mask], target[mask]
