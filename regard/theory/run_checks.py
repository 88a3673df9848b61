"""Check a trained run: properties that its model must have, measured with its own weights.

Which checks apply depends on the model: a causal model must not see the future, and a model with a KV cache must give
the same logits with and without it. Checks that do not apply are left out. A check that cannot run is undecided;
its figures hold the reason.
"""

from __future__ import annotations

import copy
import inspect
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.layers.merge_qk import merge_qk
from regard.layers.multi_head_attention import MultiHeadAttention
from regard.tasks.base_run import Run
from regard.theory.claim import CheckResult, Claim, ClaimResults, check_claim

TOPIC = "your run"
MAX_LENGTH = 17
TOLERANCE = 2e-4
"""Largest relative difference of logits that float32 rounding may cause in a trained model."""
CAUSAL_OBJECTIVES = ("causal", "span")
SOURCE_IDS = torch.tensor([9, 7, 8, 10, 7, 2])
"""The source text for translation models, the same for all rows, so that a check is about the target alone."""


@dataclass
class ModelUnderTest:
    """The model of a run with example inputs.

    Args:
        ids: (b, n).
        mask: True for tokens, False for padding, (b, n).
        logits: Maps model, ids and mask to logits, (b, n, vocab_size) or (b, classes).
    """

    model: nn.Module
    ids: Tensor
    mask: Tensor
    logits: Callable[[nn.Module, Tensor, Tensor], Tensor]
    task: str
    causal: bool
    run: Any

    def __call__(self, ids: Tensor | None = None, mask: Tensor | None = None, model: nn.Module | None = None) -> Tensor:
        ids, mask = self.ids if ids is None else ids, self.mask if mask is None else mask
        with torch.no_grad():
            return self.logits(model or self.model, ids, mask)

    def without_padding(self, ids: Tensor | None = None) -> Tensor:
        """Return the logits with every position unmasked."""
        ids = self.ids if ids is None else ids
        return self(ids, torch.ones_like(ids, dtype=torch.bool))

    def select_tokens(self, logits: Tensor) -> Tensor:
        """Return the logits at tokens, without those at padding."""
        return logits[self.mask] if logits.dim() == 3 else logits


def build_subject(run: Any, seed: int) -> ModelUnderTest:
    """Return the model of a run with two random texts, the second one shorter."""
    if run.fitted is not None:
        raise UserError(f"{run.settings.model_name!r} is fitted, not trained: it has no layers to check")
    generator = torch.Generator().manual_seed(seed)
    length = min(MAX_LENGTH, getattr(run.settings.data, "block_size", MAX_LENGTH))
    vocab_size = run.config["vocab_size"]
    ids = torch.randint(min(7, vocab_size - 1), vocab_size, (2, length), generator=generator)
    mask = torch.ones_like(ids, dtype=torch.bool)
    mask[1, length - 5 :] = False
    task = run.settings.task
    return ModelUnderTest(
        copy.deepcopy(run.model).eval(),
        ids,
        mask,
        LOGITS.get(task, _language_logits),
        task,
        getattr(run, "objective", "") in CAUSAL_OBJECTIVES or task == "translate",
        run,
    )


def _classifier_logits(model: nn.Module, ids: Tensor, mask: Tensor) -> Tensor:
    positions = torch.arange(ids.shape[1]).expand_as(ids)
    return model(ids, mask, positions // 6).logits


def _language_logits(model: nn.Module, ids: Tensor, mask: Tensor) -> Tensor:
    output = model(ids, mask=mask)
    return output[0] if isinstance(output, tuple) else output


def _translation_logits(model: nn.Module, ids: Tensor, mask: Tensor) -> Tensor:
    source = source_batch(len(ids))
    return model(source, ids, source_mask=torch.ones_like(source, dtype=torch.bool), target_mask=mask)


def source_batch(size: int) -> Tensor:
    return SOURCE_IDS[None].expand(size, -1)


LOGITS = {"classify": _classifier_logits, "language": _language_logits, "translate": _translation_logits}


def relative_difference(a: Tensor, b: Tensor) -> float:
    """Return the largest difference, relative to the largest logit."""
    if a.shape != b.shape:
        return float("inf")
    return float((a - b).abs().max() / b.abs().max().clamp(min=1e-6)) if a.numel() else 0.0


def check_no_leak(subject: ModelUnderTest) -> CheckResult:
    logits, future_change, own_change = subject.without_padding(), 0.0, 0.0
    for t in (0, subject.ids.shape[1] // 2, subject.ids.shape[1] - 2):
        future_changed, own_changed = subject.ids.clone(), subject.ids.clone()
        future_changed[:, t + 1 :] = future_changed[:, t + 1 :].flip(1).roll(1, 0)
        own_changed[:, t] = own_changed[:, t].roll(1, 0)
        difference = subject.without_padding(future_changed)[:, : t + 1] - logits[:, : t + 1]
        future_change = max(future_change, float(difference.abs().max()))
        difference = subject.without_padding(own_changed)[:, t] - logits[:, t]
        own_change = max(own_change, float(difference.abs().max()))
    return CheckResult(
        {"change when later words change": future_change, "change when the word itself changes": own_change},
        {"later words have no influence": future_change == 0.0, "the word itself has": own_change > 0.0},
    )


def check_padding(subject: ModelUnderTest) -> CheckResult:
    logits = subject()
    changed_padding = torch.where(subject.mask, subject.ids, subject.ids.flip(1))
    difference = subject.select_tokens(subject(changed_padding)) - subject.select_tokens(logits)
    change = float(difference.abs().max())
    length = int(subject.mask[1].sum())
    unpadded = subject(subject.ids[1:, :length], subject.mask[1:, :length])
    padded = logits[1:, :length] if unpadded.dim() == 3 else logits[1:]
    padding_difference = relative_difference(padded, unpadded)
    return CheckResult(
        {"change when the padding changes": change, "with padding against without": padding_difference},
        {"padding has no influence": change == 0.0, "its length has no influence": padding_difference < TOLERANCE},
    )


def check_batch(subject: ModelUnderTest) -> CheckResult:
    logits = subject()
    differences = []
    for i in range(len(subject.ids)):
        row = slice(i, i + 1)
        single, batched = subject(subject.ids[row], subject.mask[row]), logits[row]
        if single.dim() == 3:
            single, batched = single[subject.mask[row]], batched[subject.mask[row]]
        differences.append(relative_difference(batched, single))
    return CheckResult(
        {"single against batched": differences}, {"other rows have no influence": max(differences) < TOLERANCE}
    )


def check_kv_cache(subject: ModelUnderTest) -> CheckResult:
    model: Any = subject.model
    logits, difference = subject.without_padding(), 0.0
    length = subject.ids.shape[1]
    with torch.no_grad():
        source = []
        if subject.task == "translate":
            source = [model.project_source(model.encode(source_batch(len(subject.ids))))]
        for chunks in ((1,) * length, (4, length - 4)):
            cache, parts = None, []
            for part in subject.ids.split(chunks, 1):
                part_logits, cache = model.step(part, cache, *source)
                parts.append(part_logits)
            difference = max(difference, relative_difference(torch.cat(parts, 1), logits))
    return CheckResult(
        {"incremental against full": difference}, {"the KV cache gives the same logits": difference < TOLERANCE}
    )


def check_recurrent_steps(subject: ModelUnderTest) -> CheckResult:
    """Decode word by word from the state of a recurrent decoder."""
    model: Any = subject.model
    parts = []
    with torch.no_grad():
        source, state = model.project_source(model.encode(source_batch(len(subject.ids))))
        for position, ids in enumerate(subject.ids.unbind(1)):
            logits, state = model.step(ids, source, state, position)
            parts.append(logits)
    difference = relative_difference(torch.stack(parts, 1), subject.without_padding())
    return CheckResult(
        {"incremental against full": difference}, {"single steps give the same logits": difference < TOLERANCE}
    )


def count_most_likely(subject: ModelUnderTest, prefix: list[int], ids: list[int], forbidden: list[int]) -> int:
    """Return how many of the generated ids are the most likely ones in a full forward pass."""
    prefix, count = list(prefix), 0
    for token_id in ids:
        logits = subject.without_padding(torch.tensor([prefix]))[0, -1]
        logits[forbidden] = -torch.inf
        largest = float(logits[logits.isfinite()].abs().max())
        count += float(logits.max() - logits[token_id]) <= TOLERANCE * largest
        prefix.append(token_id)
    return count


def check_greedy(subject: ModelUnderTest) -> CheckResult:
    from regard.decoding import Sampling, generate

    prompt = subject.ids[0, :4].tolist()
    ids = generate(subject.model, [prompt], max_new_tokens=8, sampling=Sampling(temperature=0.0), stop_ids=())[0][0].ids
    most_likely = count_most_likely(subject, prompt, ids, [])
    return _compare_most_likely("each word is the most likely", len(ids), most_likely)


def check_beam_one(subject: ModelUnderTest) -> CheckResult:
    from regard.data.tokenizer import BOS, EOS
    from regard.decoding.beam_search import BeamSearch
    from regard.tasks.translate.run import SUPPRESSED_IDS

    translations = subject.run.batch_translator().translate([SOURCE_IDS.tolist()], strategy=BeamSearch(1), max_length=8)
    hypothesis = translations[0][0]
    ids = [*hypothesis.ids, *([EOS] if hypothesis.ended else [])]
    most_likely = count_most_likely(subject, [BOS], ids, SUPPRESSED_IDS)
    return _compare_most_likely("one beam is greedy", len(ids), most_likely)


def _compare_most_likely(test: str, num_ids: int, num_most_likely: int) -> CheckResult:
    return CheckResult(
        {"generated words": num_ids, "most likely words": num_most_likely}, {test: num_most_likely == num_ids > 0}
    )


def check_permutation(subject: ModelUnderTest) -> CheckResult:
    """Permute the words: the output must change if the model has positions or is order-sensitive, and only then."""
    ids = subject.ids[:1]
    order = torch.randperm(ids.shape[1], generator=torch.Generator().manual_seed(3))
    logits, permuted = subject.without_padding(ids), subject.without_padding(ids[:, order])
    difference = relative_difference(permuted, logits[:, order] if logits.dim() == 3 else logits)
    expected = is_order_sensitive(subject.model)
    return CheckResult(
        {"change when words are permuted": difference},
        {f"word order {'matters' if expected else 'does not matter'}": (difference > 1e-6) == expected},
    )


def attention_layers(model: nn.Module) -> list[MultiHeadAttention]:
    return [module for module in model.modules() if isinstance(module, MultiHeadAttention)]


def is_order_sensitive(model: nn.Module) -> bool:
    """Return False for a model of attention layers without positions and without order-sensitive mechanisms."""
    layers = attention_layers(model)
    positions = getattr(model, "positions", None)
    no_positions = positions is not None and positions.kind == "none"
    return not layers or not no_positions or any(layer.mechanism.order_sensitive for layer in layers)


def check_shift(subject: ModelUnderTest) -> CheckResult:
    """Run the same words at later positions: with relative positions the logits must not change."""
    model: Any = subject.model
    n = subject.ids.shape[1]
    with torch.no_grad():
        logits = model(subject.ids, position_ids=range(n))
        shifted = model(subject.ids, position_ids=range(23, 23 + n))
    difference = relative_difference(shifted, logits)
    return CheckResult({"difference 23 positions later": difference}, {"only distances matter": difference < TOLERANCE})


def is_mergeable(module: nn.Module) -> bool:
    """Return whether `merge_qk` applies to a layer, except for its positions."""
    return isinstance(module, MultiHeadAttention) and module.mechanism.name in ("dot", "bare")


def check_merged(subject: ModelUnderTest) -> CheckResult:
    """Merge query and key projections into one matrix in every layer that has them."""
    merged = copy.deepcopy(subject.model)
    num_layers = 0
    for parent in list(merged.modules()):
        for name, child in list(parent.named_children()):
            if is_mergeable(child):
                setattr(parent, name, merge_qk(child))  # type: ignore[arg-type]
                num_layers += 1
    difference = relative_difference(subject.select_tokens(subject(model=merged)), subject.select_tokens(subject()))
    return CheckResult(
        {"merged layers": num_layers, "difference": difference},
        {"merged equals factored": difference < 10 * TOLERANCE and num_layers > 0},
    )


def check_saved(subject: ModelUnderTest) -> CheckResult:
    with tempfile.TemporaryDirectory() as folder:
        loaded = Run.load(subject.run.save_pretrained(Path(folder) / "copy"))
    equal = torch.equal(subject(), subject(model=loaded.model))
    return CheckResult({"bitwise equal": equal}, {"save and load": equal})


def check_compiled(subject: ModelUnderTest) -> CheckResult:
    """Trace the model with torch.compile (backend aot_eager: the graph, without generated code)."""
    logits = subject.without_padding()
    torch.compiler.reset()
    try:
        compiled: Any = torch.compile(subject.logits, backend="aot_eager")
        with torch.no_grad():
            difference = relative_difference(
                compiled(subject.model, subject.ids, torch.ones_like(subject.mask)), logits
            )
    except Exception as problem:
        reason = (str(problem).strip() or repr(problem)).splitlines()[0][:200]
        return CheckResult({"compilation failed": reason}, {"compiled equals eager": None})
    finally:
        torch.compiler.reset()
    return CheckResult({"difference": difference}, {"compiled equals eager": difference < TOLERANCE})


def applicable_checks(
    subject: ModelUnderTest,
) -> Iterator[tuple[str, str, str, Callable[[ModelUnderTest], CheckResult]]]:
    """Yield id, statement, equation and check of everything that applies to this model."""
    layers = attention_layers(subject.model)
    positions = getattr(subject.model, "positions", None)
    if subject.causal:
        yield "no-leak", "No position depends on a later word.", "∂ out[t] / ∂ w[t' > t] = 0", check_no_leak
    yield "padding", "Padding and its length have no influence.", "f(x, pad) = f(x)", check_padding
    yield "batch", "Other rows of the batch have no influence.", "f([x; y])_x = f(x)", check_batch
    steps = "step(w_t | state) = f(w_1..w_t)[t]"
    if "state" in inspect.signature(getattr(subject.model, "step", print)).parameters:
        yield "steps", "Incremental decoding equals the full forward pass.", steps, check_recurrent_steps
    elif subject.causal and hasattr(subject.model, "step"):
        yield "kv-cache", "Decoding with a KV cache equals the full forward pass.", steps, check_kv_cache
    if "generate" in subject.run.verbs and subject.causal:
        yield "greedy", "Temperature 0 generates the most likely word.", "argmax P(w | prefix)", check_greedy
    if subject.task == "translate":
        yield "beam-1", "Beam search with one beam is greedy.", "argmax P(w | source, prefix)", check_beam_one
    yield "permutation", "Word order matters if, and only if, there are positions.", "f(Px) = P f(x)", check_permutation
    relative = positions is not None and (
        positions.kind == "rotate" or (positions.kind == "bias" and positions.distance_only)
    )
    if subject.causal and relative and not any(layer.mechanism.name.startswith("synthesizer") for layer in layers):
        yield "shift", "A shift of all positions has no influence.", "f(x at t) = f(x at t + k)", check_shift
    mergeable = [layer for layer in layers if is_mergeable(layer)]
    if mergeable and all(layer.mechanism.positions.kind != "rotate" for layer in mergeable):
        yield "merged", "One query-key matrix gives the same as two.", "W = W_Qᵀ W_K / sqrt(d_k)", check_merged
    yield "saved", "Saving and loading keeps every bit.", "load(save(f)) = f", check_saved
    yield "compiled", "The compiled model gives the same logits.", "compile(f) = f", check_compiled


def check_run(folder: str | Path, seed: int = 0) -> ClaimResults:
    """Run every check that applies to the run in a folder."""
    subject = build_subject(Run.load(folder), seed)

    def run_check(check: Callable[[ModelUnderTest], CheckResult], seed: int) -> CheckResult:
        return check(subject)

    return ClaimResults(
        check_claim(Claim(name, TOPIC, "exact", statement, equation, partial(run_check, check)))
        for name, statement, equation, check in applicable_checks(subject)
    )
