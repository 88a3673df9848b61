"""A trained run held to what must be true of its own model, with its own weights.

Which checks apply hangs on the model: a causal one must not see the future, one with a KV cache must say with it what
it says without. What does not apply is left out, what could not be tried is undecided, with the reason.
"""

from __future__ import annotations

import copy
import inspect
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.layers.merge_qk import merge_qk
from regard.layers.multi_head_attention import MultiHeadAttention
from regard.tasks.base_run import Run
from regard.theory.claim import CheckResult, Claim, ClaimResult, check_claim

TOPIC = "your run"
LENGTH = 17
CLOSE = 2e-4
"""How far float32 may carry the logits of a trained model apart by rounding, relative to their size."""


@dataclass
class Subject:
    """A model, and how to ask it: logits (b, n, vocab) or (b, classes) for ids and mask (b, n)."""

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


def subject(opened: Any, seed: int) -> Subject:
    """Two texts by chance, the second shorter, of words that the model knows."""
    if opened.fitted is not None:
        raise UserError(f"{opened.settings.model_name!r} is fitted, not trained: it has no layers to check")
    draw = torch.Generator().manual_seed(seed)
    length = min(LENGTH, getattr(opened.settings.data, "block_size", LENGTH))
    low = min(7, opened.config["vocab_size"] - 1)
    ids = torch.randint(low, opened.config["vocab_size"], (2, length), generator=draw)
    mask = torch.ones_like(ids, dtype=torch.bool)
    mask[1, length - 5 :] = False
    task = opened.settings.task
    objective = getattr(opened, "objective", "")
    return Subject(
        copy.deepcopy(opened.model).eval(),
        ids,
        mask,
        LOGITS.get(task, _language),
        task,
        objective in CAUSAL or task == "translate",
        opened,
    )


CAUSAL = ("causal", "span")


def _classify(model: nn.Module, ids: Tensor, mask: Tensor) -> Tensor:
    places = torch.arange(ids.shape[1]).expand_as(ids)
    return model(ids, mask, places // 6).logits


def _language(model: nn.Module, ids: Tensor, mask: Tensor) -> Tensor:
    out = model(ids, mask=mask)
    return out[0] if isinstance(out, tuple) else out


def _translate(model: nn.Module, ids: Tensor, mask: Tensor) -> Tensor:
    source = source_of(ids)
    return model(source, ids, source_mask=torch.ones_like(source, dtype=torch.bool), target_mask=mask)


def source_of(ids: Tensor) -> Tensor:
    """One source for all, so that what is found is about the target alone."""
    return SOURCE[None].expand(len(ids), -1)


SOURCE = torch.tensor([9, 7, 8, 10, 7, 2])
LOGITS = {"classify": _classify, "language": _language, "translate": _translate}


def apart(a: Tensor, b: Tensor) -> float:
    """The greatest difference, relative to the size of the logits."""
    if a.shape != b.shape:
        return float("inf")
    return float((a - b).abs().max() / b.abs().max().clamp(min=1e-6)) if a.numel() else 0.0


def _real(s: Subject, out: Tensor) -> Tensor:
    return out[s.mask] if out.dim() == 3 else out


def no_leak(s: Subject) -> CheckResult:
    whole = torch.ones_like(s.mask)
    out, worst, sees = s(mask=whole), 0.0, 0.0
    for now in (0, s.ids.shape[1] // 2, s.ids.shape[1] - 2):
        later, own = s.ids.clone(), s.ids.clone()
        later[:, now + 1 :] = later[:, now + 1 :].flip(1).roll(1, 0)
        own[:, now] = own[:, now].roll(1, 0)
        worst = max(worst, float((s(later, whole)[:, : now + 1] - out[:, : now + 1]).abs().max()))
        sees = max(sees, float((s(own, whole)[:, now] - out[:, now]).abs().max()))
    return CheckResult(
        {"change when later words change": worst, "change when the word itself changes": sees},
        {"no later word is seen": worst == 0.0, "its own word is": sees > 0.0},
    )


def padding(s: Subject) -> CheckResult:
    out = _real(s, s())
    dirty = torch.where(s.mask, s.ids, s.ids.flip(1))
    changed = float((_real(s, s(dirty)) - out).abs().max())
    length = int(s.mask[1].sum())
    short = s(s.ids[1:, :length], s.mask[1:, :length])
    among = s()[1:, :length] if short.dim() == 3 else s()[1:]
    return CheckResult(
        {"change when the padding changes": changed, "with padding against without": apart(among, short)},
        {"padding is not seen": changed == 0.0, "leaving it out changes nothing": apart(among, short) < CLOSE},
    )


def batch(s: Subject) -> CheckResult:
    out = s()
    gaps = []
    for row in range(len(s.ids)):
        one = slice(row, row + 1)
        alone, among = s(s.ids[one], s.mask[one]), out[one]
        if alone.dim() == 3:
            alone, among = alone[s.mask[one]], among[s.mask[one]]
        gaps.append(apart(among, alone))
    return CheckResult({"alone against in a batch": gaps}, {"batch-mates are not seen": max(gaps) < CLOSE})


def cached(s: Subject) -> CheckResult:
    model: Any = s.model
    whole = torch.ones_like(s.mask)
    out, worst = s(mask=whole), 0.0
    with torch.no_grad():
        source = [model.read(model.encode(source_of(s.ids)))] if s.task == "translate" else []
    for chunks in ((1,) * s.ids.shape[1], (4, s.ids.shape[1] - 4)):
        past, parts = None, []
        with torch.no_grad():
            for part in s.ids.split(chunks, 1):
                logits, past = model.step(part, past, *source)
                parts.append(logits)
        worst = max(worst, apart(torch.cat(parts, 1), out))
    return CheckResult({"step by step against all at once": worst}, {"the KV cache is the full pass": worst < CLOSE})


def stepped(s: Subject) -> CheckResult:
    """A recurrent decoder, word by word from its state."""
    model: Any = s.model
    parts = []
    with torch.no_grad():
        source, state = model.read(model.encode(source_of(s.ids)))
        for at, words in enumerate(s.ids.unbind(1)):
            logits, state = model.step(words, source, state, at)
            parts.append(logits)
    far = apart(torch.stack(parts, 1), s(mask=torch.ones_like(s.mask)))
    return CheckResult({"step by step against all at once": far}, {"steps are the full pass": far < CLOSE})


def greedy(s: Subject) -> CheckResult:
    """Writing at temperature 0 gives at each step the most likely word of a full pass over what stands there."""
    from regard.decoding import Sampling, generate

    prompt = s.ids[0, :4].tolist()
    written = generate(s.model, [prompt], tokens=8, sampling=Sampling(temperature=0.0), stop=())[0][0].ids
    text, same = list(prompt), 0
    for word in written:
        ids = torch.tensor([text])
        logits = s(ids, torch.ones_like(ids, dtype=torch.bool))[0, -1]
        near = float(logits.max() - logits[word])
        same += near <= CLOSE * float(logits.abs().max())
        text.append(word)
    return CheckResult(
        {"words written": len(written), "most likely ones": same},
        {"each word is the most likely": same == len(written) and len(written) > 0},
    )


def beam_one(s: Subject) -> CheckResult:
    """A search with one beam says at each step the most likely word of a full pass over what stands there."""
    from regard.data.tokenizer import BOS, EOS
    from regard.decoding import Beam
    from regard.tasks.translate.run import NEVER

    said = s.run.interpreter().write([SOURCE.tolist()], how=Beam(1), limit=8)[0][0]
    words, text, same = [*said.ids, *([EOS] if said.ended else [])], [BOS], 0
    for word in words:
        ids = torch.tensor([text])
        logits = s(ids, torch.ones_like(ids, dtype=torch.bool))[0, -1]
        logits[NEVER] = -torch.inf
        same += float(logits.max() - logits[word]) <= CLOSE * float(logits[logits.isfinite()].abs().max())
        text.append(word)
    return CheckResult(
        {"words said": len(words), "most likely ones": same},
        {"beam 1 is greedy": same == len(words) and len(words) > 0},
    )


def permutation(s: Subject) -> CheckResult:
    """Words that trade places: a model with positions or an order of its own must tell."""
    ids = s.ids[:1]
    mask = torch.ones_like(ids, dtype=torch.bool)
    order = torch.randperm(ids.shape[1], generator=torch.Generator().manual_seed(3))
    out, turned = s(ids, mask), s(ids[:, order], mask)
    far = apart(turned, out[:, order] if out.dim() == 3 else out)
    return CheckResult(
        {"change when words trade places": far},
        {
            "the order of words is told" if _ordered(s.model) else "the order of words is not": (far > 1e-6)
            == _ordered(s.model)
        },
    )


def _ordered(model: nn.Module) -> bool:
    layers = [m for m in model.modules() if isinstance(m, MultiHeadAttention)]
    place = getattr(model, "positions", None)
    free = place is not None and place.kind == "none" and not any(one.mechanism.order_sensitive for one in layers)
    return not (free and layers)


def shift(s: Subject) -> CheckResult:
    """The same words some places on, with the attention's own positions: by distance alone nothing may change."""
    model: Any = s.model
    n = s.ids.shape[1]
    with torch.no_grad():
        here = model(s.ids, position_ids=range(n))
        there = model(s.ids, position_ids=range(23, 23 + n))
    far = apart(there, here)
    return CheckResult({"the same words 23 places on, difference": far}, {"only distances count": far < CLOSE})


def merged(s: Subject) -> CheckResult:
    """Every layer that can be merged, as one matrix of query and key, in place of the two."""
    other = copy.deepcopy(s.model)
    count = 0
    for parent in list(other.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, MultiHeadAttention) and child.mechanism.name in ("dot", "bare"):
                setattr(parent, name, merge_qk(child))
                count += 1
    far = apart(_real(s, s(model=other)), _real(s, s()))
    return CheckResult(
        {"layers merged": count, "difference": far}, {"merged is factored": far < 10 * CLOSE and count > 0}
    )


def saved(s: Subject) -> CheckResult:
    with tempfile.TemporaryDirectory() as folder:
        again = Run.load(s.run.save_pretrained(Path(folder) / "copy"))
    same = torch.equal(s(), s(model=again.model))
    return CheckResult({"the same bits": same}, {"saved and loaded": same})


def compiled(s: Subject) -> CheckResult:
    """Traced by torch.compile (aot_eager: the graph, without generated code)."""
    whole = torch.ones_like(s.mask)
    out = s(mask=whole)
    torch.compiler.reset()
    try:
        traced: Any = torch.compile(s.logits, backend="aot_eager")
        with torch.no_grad():
            far = apart(traced(s.model, s.ids, whole), out)
    except Exception as problem:
        said = str(problem).strip().splitlines()
        return CheckResult(
            {"could not be compiled": said[0][:200] if said else repr(problem)}, {"compiled is eager": None}
        )
    finally:
        torch.compiler.reset()
    return CheckResult({"difference": far}, {"compiled is eager": far < CLOSE})


def applying(s: Subject) -> Iterator[tuple[str, str, str, Callable[[Subject], CheckResult]]]:
    """Id, claim, equation and check of what applies to this model."""
    layers = [m for m in s.model.modules() if isinstance(m, MultiHeadAttention)]
    place = getattr(s.model, "positions", None)
    if s.causal:
        yield "no-leak", "No place sees a later word.", "∂ out[t] / ∂ w[t' > t] = 0", no_leak
    yield "padding", "What stands in the padding, and how much of it, changes nothing.", "f(x, pad) = f(x)", padding
    yield "batch", "What else is in the batch changes nothing.", "f([x; y])_x = f(x)", batch
    if "state" in inspect.signature(getattr(s.model, "step", print)).parameters:
        yield "steps", "Step by step equals all at once.", "step(w_t | state) = f(w_1..w_t)[t]", stepped
    elif s.causal and hasattr(s.model, "step"):
        yield (
            "kv-cache",
            "Step by step with a KV cache equals all at once.",
            "step(w_t | past) = f(w_1..w_t)[t]",
            cached,
        )
    if "generate" in s.run.verbs and s.causal:
        yield "greedy", "Writing at temperature 0 takes the most likely word each time.", "argmax P(w | past)", greedy
    if s.task == "translate":
        yield "beam-1", "A search with one beam is greedy.", "argmax P(w | source, past)", beam_one
    yield (
        "permutation",
        "The order of words is told by what has positions, and by nothing else.",
        "f(Px) = P f(x)",
        permutation,
    )
    by_distance = place is not None and (place.kind == "rotate" or (place.kind == "bias" and place.distance_only))
    if s.causal and by_distance and not any(one.mechanism.name.startswith("synthesizer") for one in layers):
        yield "shift", "The same words some places on give the same.", "f(x at t) = f(x at t + k)", shift
    mergeable = [m for m in layers if m.mechanism.name in ("dot", "bare") and m.mechanism.positions.kind != "rotate"]
    if mergeable and len(mergeable) == len([m for m in layers if m.mechanism.name in ("dot", "bare")]):
        yield "merged", "One matrix of query and key gives what two give.", "W = W_Qᵀ W_K / sqrt(d_k)", merged
    yield "saved", "Saved and loaded it gives the same bits.", "load(save(f)) = f", saved
    yield "compiled", "Compiled it gives what it gives eagerly.", "compile(f) = f", compiled


def check_run(folder: str | Path, seed: int = 0) -> list[ClaimResult]:
    """Every check that applies to the run in a folder."""
    s = subject(Run.load(folder), seed)

    def bound(check: Callable[[Subject], CheckResult]) -> Callable[[int], CheckResult]:
        return lambda _: check(s)

    return [check_claim(Claim(name, TOPIC, "exact", said, how, bound(check))) for name, said, how, check in applying(s)]
