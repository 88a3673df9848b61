"""Look at attention while a model runs, without slowing it when nobody looks.

    with record(model) as seen:
        model(ids)
    seen["layers.0.attention.attend"]      # the weights there, (b, h, q, k)

Each `Attend` gets a hook that recomputes the weights from what it was given, by the same pure `weights()` that
defines them. The model itself has no branch for this and keeps its fused kernels. Dropout is off while recording.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatch

import torch
from torch import Tensor, nn

from regard.attention.masks import Mask
from regard.attention.scores import Attend, Scores
from regard.attention.token_positions import At, Places
from regard.errors import UserError, nearest
from regard.inspect.edit import edited


@dataclass(frozen=True)
class Call:
    """One act of attention: where, the weights (b, h, q, k), where queries and keys stood, what was hidden."""

    site: str
    weights: Tensor
    places: Places
    mask: Mask | None
    order: int


@dataclass
class Recording:
    """All calls, in the order they happened."""

    calls: list[Call] = field(default_factory=list)
    passed: list[str] = field(default_factory=list)
    """Sites where a map would have had more cells than asked for."""

    @property
    def sites(self) -> list[str]:
        """Where attention happened, in the order of the first call."""
        return list(dict.fromkeys(call.site for call in self.calls))

    def at(self, site: str) -> list[Call]:
        """The calls of one site: several where it is called for each step or each group of sentences."""
        if site not in self.sites:
            raise UserError(f"no attention was recorded at {site!r}; {nearest(site, self.sites)}")
        return [call for call in self.calls if call.site == site]

    def __getitem__(self, site: str) -> Tensor:
        """The weights of a site that was called once."""
        calls = self.at(site)
        if len(calls) != 1:
            raise UserError(f"{site!r} was called {len(calls)} times; use .at({site!r}) and choose")
        return calls[0].weights

    def __len__(self) -> int:
        return len(self.calls)


def attends(model: nn.Module, sites: str | Iterable[str] | None = None) -> dict[str, Attend]:
    """Every place of a model where attention happens, by name; `sites` are names or patterns such as "layers.*"."""
    found = {name: module for name, module in model.named_modules() if isinstance(module, Attend)}
    if sites is None:
        return found
    patterns = [sites] if isinstance(sites, str) else list(sites)
    for pattern in patterns:
        if not any(fnmatch(name, pattern) for name in found):
            raise UserError(f"the model has no attention at {pattern!r}; {nearest(pattern, found)}")
    return {name: module for name, module in found.items() if any(fnmatch(name, p) for p in patterns)}


@contextmanager
def record(
    model: nn.Module,
    sites: str | Iterable[str] | None = None,
    *,
    heads: list[int] | None = None,
    dtype: torch.dtype | None = None,
    most: int | None = None,
) -> Iterator[Recording]:
    """Record the weights at the given sites (all by default), of the given heads, kept in the given precision. Maps of
    more than `most` cells (queries times keys, of one head) are passed over, their weights never computed."""
    chosen = attends(model, sites)
    if not chosen:
        raise UserError(f"{type(model).__name__} has no attention to record")
    recording = Recording()

    def listen(site: str, module: Attend):
        def hook(_: nn.Module, args: tuple, kwargs: dict, output: Tensor) -> None:
            scores, _value, mask = given(*args, **kwargs)
            if most is not None and count(scores.places.q_at) * count(scores.places.k_at) > most:
                if site not in recording.passed:
                    recording.passed.append(site)
                return
            with torch.no_grad():
                weights = edited(module, scores.weights(mask), scores)
                if heads is not None:
                    weights = weights[:, heads]
                weights = weights.detach().to(dtype or weights.dtype)
            recording.calls.append(Call(site, weights, scores.places, mask, len(recording)))

        return module.register_forward_hook(hook, with_kwargs=True)

    training = {module: module.training for module in model.modules()}
    handles = [listen(site, module) for site, module in chosen.items()]
    model.eval()
    try:
        # Hooks added after a compiled call are skipped in silence, so compiled models run eagerly while recorded.
        with torch.compiler.set_stance("force_eager"):
            yield recording
    finally:
        for handle in handles:
            handle.remove()
        for module, was in training.items():
            module.training = was
    if not recording.calls and not recording.passed:
        raise UserError("nothing was recorded: call the model inside `with record(model)`")


def given(scores: Scores, value: Tensor, mask: Mask | None = None) -> tuple[Scores, Tensor, Mask | None]:
    """The arguments of Attend.forward by their places, however they were passed."""
    return scores, value, mask


def count(at: At) -> int:
    """How many places."""
    return at.shape[-1] if isinstance(at, Tensor) else len(at)
