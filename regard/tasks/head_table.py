"""Which heads of a run matter, over a data set, as a table; and the run without some of them.

Classifiers are measured by the mean log-loss of the true class and the accuracy; language models, translators and
imported models by nats a token.
"""

from __future__ import annotations

import csv
import json
import logging
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from regard.data import parallel_text
from regard.data.read_table import read_table
from regard.errors import UserError
from regard.explain.explainer import require_attention
from regard.inspect import HeadImportance, find_attention_layers, head_importance
from regard.inspect import prune as prune_heads
from regard.tasks.classify import objective
from regard.tasks.classify.dataset import encode_targets, encode_texts
from regard.tasks.classify.metrics import compute_metrics
from regard.tasks.classify.run import Classifier
from regard.tasks.language.run import LanguageModel
from regard.tasks.translate.objective import evaluate_pairs
from regard.tasks.translate.run import Translator

logger = logging.getLogger(__name__)

SHOWN = ("loss", "accuracy")
MOST_LETTERS = 16  # of a token, about


@dataclass(frozen=True)
class Importance:
    """`whole` is measured on the whole run; `rows` without each head, the most important first."""

    whole: dict[str, float]
    rows: list[HeadImportance]

    def as_dict(self) -> dict[str, Any]:
        return {"whole": self.whole, "rows": [row.as_dict() for row in self.rows]}

    def save(self, path: str | Path) -> Path:
        """As .csv or .json."""
        path = Path(path)
        if path.suffix.lower() == ".json":
            path.write_text(json.dumps(self.as_dict()), encoding="utf-8")
            return path
        if path.suffix.lower() != ".csv":
            raise UserError(f"a table is saved as .csv or .json, and {str(path)!r} was given")
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            names = list(self.whole)
            writer.writerow(["site", "head", "how", *names, *(f"change of {name}" for name in names)])
            for row in self.rows:
                head = "" if row.head is None else row.head
                writer.writerow([row.layer, head, row.intervention, *row.metrics.values(), *row.change.values()])
        return path

    def __str__(self) -> str:
        names = list(self.whole)
        wide = max(4, *(len(row.layer) for row in self.rows))
        lines = ["whole run: " + ", ".join(f"{name} {value:.4f}" for name, value in self.whole.items())]
        lines.append(f"{'site':{wide}}  {'head':>5}  {'':8}" + "".join(f"{name:>12}" for name in names))
        for row in self.rows:
            head = "all" if row.head is None else str(row.head)
            how = "silent" if row.intervention == "ablate" else "even"
            changes = "".join(f"{row.change[name]:>+12.4f}" for name in names)
            lines.append(f"{row.layer:{wide}}  {head:>5}  {how:8}{changes}")
        return "\n".join(lines)


def table(
    run: Any,
    files: Sequence[str | Path],
    *,
    rows: int = 200,
    told: Callable[[int, int], Any] | None = None,
) -> Importance:
    """Of the first `rows` texts of a file, or thousands of tokens of a corpus."""
    if hasattr(run, "build_evaluation"):  # an imported model
        asked = run.build_evaluation(files, rows)
    elif not isinstance(run, Classifier | LanguageModel | Translator):
        raise UserError(f"heads are not measured over data for a {type(run).__name__}; look at it instead")
    elif isinstance(run, Classifier):
        require_attention(run.model, run.settings.model_name)
        asked = _classes(run, files[0], rows)
    elif isinstance(run, LanguageModel):
        require_attention(run.model, run.settings.model_name)
        asked = _language(run, files, 1000 * rows)
    else:
        asked = _pairs(run, files, rows)
    whole, found = head_importance(run.model, asked, on_progress=told)
    found = sorted(found, key=lambda row: -row.change["loss"])
    return Importance(whole, found)


def pruned(run: Any, specs: Sequence[str]) -> Any:
    """A copy of the run without these heads, each SITE:HEADS."""
    model = deepcopy(run.model)
    for spec in specs:
        name, _, given = spec.rpartition(":")
        try:
            heads = [int(head) for head in given.split(",")]
        except ValueError:
            heads = []
        if not name or not heads:
            raise UserError(f"heads are named SITE:HEADS, such as layers.0:1,3, and {spec!r} was given")
        sites = [site for site in find_attention_layers(model) if site == name or site.startswith(f"{name}.")]
        if len(sites) != 1:
            known = ", ".join(sites or find_attention_layers(model))
            raise UserError(f"{name!r} means {len(sites)} places of attention, and one is wanted; there are {known}")
        prune_heads(model, sites[0], heads)
    if hasattr(run, "with_model"):  # an imported model
        return run.with_model(model)
    return type(run)(None, run.config, model, run.tokenizer)


def _classes(run: Classifier, file: str | Path, rows: int) -> Callable[[], dict[str, float]]:
    data = run.settings.data
    found = read_table(Path(file), text=run.text_column, label=data.label or run._columns[1], many=run.multi_label)
    truth = encode_targets(found.labels or [], run.labels, run.config.get("separator"), str(file))[:rows]
    texts = encode_texts(found.texts[:rows], run.tokenizer, run.settings)

    def asked() -> dict[str, float]:
        said = compute_metrics(objective.predict_probabilities(run.model, texts, multi_label=run.multi_label), truth)
        return {name: float(said[name]) for name in SHOWN if name in said}

    return asked


def _language(run: LanguageModel, files: Sequence[str | Path], tokens: int) -> Callable[[], dict[str, float]]:
    from regard.data.corpus import Corpus

    with Path(files[0]).open(encoding="utf-8", errors="replace") as file:
        text = file.read(MOST_LETTERS * tokens)
    ids = run.tokenizer.encode(text)
    if len(ids.ids) > tokens or len(files) > 1:
        text = text[: ids.offsets[tokens][0]] if len(ids.ids) > tokens else text
        logger.info(f"of {files[0]} the first {min(tokens, len(ids.ids)):,} tokens are read")
    corpus = Corpus.from_texts([text], run.tokenizer, documents=run.settings.data.documents)

    def asked() -> dict[str, float]:
        said = run._measured(corpus, None)
        return {name: float(said[name]) for name in SHOWN if name in said}

    return asked


def _pairs(run: Translator, files: Sequence[str | Path], rows: int) -> Callable[[], dict[str, float]]:
    data = run.settings.data
    found = parallel_text.read_parallel_texts(list(files), source=data.source, target=data.target, keep_empty=True)
    kept = replace(found, sources=found.sources[:rows], targets=found.targets[:rows])
    whole = parallel_text.encode_pairs(kept, run.tokenizer, max_tokens=run.most)

    def asked() -> dict[str, float]:
        said = evaluate_pairs(run.model, whole, batch_tokens=2 * data.batch_tokens)
        return {name: float(said[name]) for name in SHOWN if name in said}

    return asked
