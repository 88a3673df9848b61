"""The kernels are what torch would do: on sizes that are prime, with nothing to see, with fewer words than wanted."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard import kernels

pytestmark = pytest.mark.skipif(kernels.kernels is None, reason="regard was installed without a C compiler")
few = st.integers(1, 7)


def attended(q: Tensor, keys: Tensor, values: Tensor, allowed: Tensor) -> Tensor:
    """allowed (b, w, k); a query that may see nothing reads zero."""
    logits = (q.double() @ keys.double().transpose(-2, -1)).masked_fill(~allowed[:, None], -torch.inf)
    weights = logits.softmax(-1).nan_to_num()
    return (weights @ values.double()).transpose(1, 2).reshape(len(q) * q.shape[2], -1).float()


@given(few, few, few, st.integers(1, 41), st.one_of(st.integers(1, 37), st.integers(38, 150)), st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_attention_to_a_range_of_keys(b: int, h: int, w: int, k: int, d: int, seed: int):
    draw = torch.Generator().manual_seed(seed)
    q = torch.randn(b, w, 3, h, d, generator=draw).permute(2, 0, 3, 1, 4)[0]  # as a product leaves it
    both = torch.randn(2, b, h, k + 5, d, generator=draw)
    keys, values = both.narrow(3, 0, k).unbind(0)
    first = torch.randint(0, k, (b,), generator=draw, dtype=torch.int32)
    last = torch.maximum(first, torch.randint(0, k + 1, (b,), generator=draw, dtype=torch.int32))
    places = torch.arange(k)
    seen = ((places >= first[:, None]) & (places < last[:, None]))[:, None].expand(b, w, k)
    found = kernels.attend(q, keys, values, None, first, last)
    torch.testing.assert_close(found, attended(q, keys, values, seen), atol=2e-5, rtol=1e-4)
    torch.testing.assert_close(
        kernels.attend(q, keys, values),
        attended(q, keys, values, torch.ones(b, w, k, dtype=torch.bool)),
        atol=2e-5,
        rtol=1e-4,
    )


@given(few, few, few, st.integers(1, 41), st.one_of(st.integers(1, 37), st.integers(38, 150)), st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_new_positions_are_written_and_seen_along_a_path(b: int, h: int, w: int, past: int, d: int, seed: int):
    draw = torch.Generator().manual_seed(seed)
    qkv = torch.randn(b * w, 3 * h * d, generator=draw)
    both = torch.randn(2, b, h, past + w + 3, d, generator=draw)
    before, n = both.clone(), min(past, 4) + 1
    path = torch.stack([torch.randperm(past, generator=draw)[: n - 1] for _ in range(b * w)]).view(b, w, -1)
    path = torch.cat((path, (past + torch.arange(w)).expand(b, w)[..., None]), 2).int()
    found = kernels.append_and_attend(qkv, both, past, path)
    q, new_keys, new_values = qkv.view(b, w, 3, h, d).permute(2, 0, 3, 1, 4)
    assert torch.equal(both[:, :, :, :past], before[:, :, :, :past])
    assert torch.equal(both[0, :, :, past : past + w], new_keys)
    assert torch.equal(both[1, :, :, past : past + w], new_values)
    assert torch.equal(both[:, :, :, past + w :], before[:, :, :, past + w :])
    seen = torch.zeros(b, w, both.shape[3], dtype=torch.bool).scatter_(2, path.long(), True)
    torch.testing.assert_close(found, attended(q, both[0], both[1], seen), atol=2e-5, rtol=1e-4)


@pytest.fixture(params=[8, 16])
def lanes(request: pytest.FixtureRequest):
    """Products with registers of this many floats."""
    if kernels.kernels.lanes(request.param) != request.param:  # type: ignore[union-attr]
        kernels.kernels.lanes(16)  # type: ignore[union-attr]
        pytest.skip(f"this processor has no registers of {request.param} floats")
    yield request.param
    kernels.kernels.lanes(16)  # type: ignore[union-attr]


@given(
    st.integers(1, 45), st.integers(1, 70), st.integers(1, 67) | st.just(1024), st.booleans(), st.booleans(),
    st.sampled_from([torch.float32, torch.float16]), st.integers(1, 3), st.integers(0, 10_000),
)  # fmt: skip
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_kernel_linear(
    lanes: int,
    rows: int,
    out: int,
    inside: int,
    biased: bool,
    relu: bool,
    kept: torch.dtype,
    threads: int,
    seed: int,
):
    draw = torch.Generator().manual_seed(seed)
    x, weight = torch.randn(rows, inside, generator=draw), torch.randn(out, inside, generator=draw)
    bias = torch.randn(out, generator=draw) if biased else None
    rounded = weight.to(kept).double()
    wanted = torch.nn.functional.linear(x.double(), rounded, None if bias is None else bias.double()).float()
    was = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        product = kernels.KernelLinear(weight, bias, relu, kept)
        found, alone = product(x), product(x[rows // 2 : rows // 2 + 1])
    finally:
        torch.set_num_threads(was)
    assert torch.equal(alone[0], found[rows // 2])  # to the bit, whatever stands beside it
    torch.testing.assert_close(found, wanted.relu() if relu else wanted, atol=1e-4, rtol=1e-4)


eight = pytest.mark.skipif(
    not kernels.can_multiply_int8(torch.zeros(1)), reason="no kernel for eight bits on this processor"
)


@eight
@given(
    st.integers(1, 45), st.integers(1, 70), st.integers(1, 67) | st.just(4096), st.booleans(), st.booleans(),
    st.integers(1, 3), st.integers(0, 10_000),
)  # fmt: skip
@settings(max_examples=150, deadline=None)
def test_int8_kernel_linear(rows: int, out: int, inside: int, biased: bool, relu: bool, threads: int, seed: int):
    draw = torch.Generator().manual_seed(seed)
    x, weight = torch.randn(rows, inside, generator=draw), torch.randn(out, inside, generator=draw)
    bias = torch.randn(out, generator=draw) if biased else None

    def rounded(given: Tensor) -> Tensor:
        step = given.abs().amax(1, keepdim=True) / 127
        return (given / step).round().double() * step.double()

    wanted = torch.nn.functional.linear(rounded(x), rounded(weight), None if bias is None else bias.double()).float()
    was = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        found = kernels.Int8KernelLinear(weight, bias, relu)(x)
        alone = kernels.Int8KernelLinear(weight, bias, relu)(x[-1:])
    finally:
        torch.set_num_threads(was)
    # A number in the middle of two steps may go either way.
    slack = 1.5 * (x.abs().amax() * weight.abs().amax() / 127).item()
    torch.testing.assert_close(found, wanted.relu() if relu else wanted, atol=slack, rtol=1e-4)
    assert torch.equal(alone, found[-1:])


@eight
def test_int8_with_zeros_and_nan():
    product = kernels.Int8KernelLinear(torch.zeros(3, 5), torch.tensor([0.0, 1.0, -torch.inf]))
    assert product(torch.ones(2, 5)).tolist() == [[0.0, 1.0, -torch.inf]] * 2
    assert product(torch.zeros(1, 5)).tolist() == [[0.0, 1.0, -torch.inf]]
    bad = kernels.Int8KernelLinear(torch.ones(3, 2), None)(
        torch.tensor([[float("nan"), 1.0], [1.0, float("inf")], [1.0, 2.0]])
    )
    assert bad.isnan().all(1).tolist() == [True, True, False]


@pytest.mark.parametrize(("rows", "wide"), [(1, 1), (3, 37), (80, 256), (131, 257)])
@pytest.mark.parametrize("added", [True, False])
def test_add_norm(rows: int, wide: int, added: bool):
    x, y = torch.randn(rows, wide), 3 + torch.randn(rows, wide)
    weight, bias = torch.randn(wide), torch.randn(wide)
    whole, normed = kernels.add_norm(x, y if added else None, weight, bias, 1e-5)
    wanted = x + y if added else x
    assert torch.equal(whole, wanted)
    torch.testing.assert_close(normed, torch.layer_norm(wanted, (wide,), weight, bias, 1e-5), atol=1e-5, rtol=1e-4)


@given(few, few, st.integers(1, 300) | st.just(2503), st.integers(1, 12), st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_top_candidates(b: int, w: int, vocab: int, k: int, seed: int):
    random = np.random.default_rng(seed)
    logits = torch.from_numpy(random.normal(0, 3, (b, w, vocab)).astype(np.float32))
    logits[..., random.integers(vocab)] = -torch.inf
    scores = random.normal(0, 2, (b, w)).astype(np.float32)
    scores[random.random((b, w)) < 0.2] = -np.inf
    values, parents, words = kernels.top_candidates(logits, scores, k)
    chances = logits.double().log_softmax(-1).nan_to_num(nan=-torch.inf, neginf=-torch.inf).numpy() + scores[..., None]
    for i in range(b):
        wanted = np.sort(chances[i].reshape(-1))[::-1][:k]
        wanted = np.concatenate((wanted, np.full(k - len(wanted), -np.inf)))
        np.testing.assert_allclose(values[i], wanted, atol=2e-5)
        real = np.isfinite(values[i])
        np.testing.assert_allclose(values[i][real], chances[i][parents[i], words[i]][real], atol=2e-5)
        assert len({*zip(parents[i][real], words[i][real], strict=True)}) == real.sum()


def test_large_and_small_scores():
    q, keys = torch.full((1, 1, 1, 2), 300.0), torch.tensor([[[[1.0, 0], [-1, 0], [0.99, 0]]]])
    values = torch.eye(3)[None, None, :, :2].contiguous()
    found = kernels.attend(q, keys, values)
    torch.testing.assert_close(found, ((q @ keys.mT).softmax(-1) @ values).view(1, 2))


def test_wrong_arguments_raise():
    with pytest.raises(TypeError, match="takes 24 numbers, and was given 2"):
        kernels.kernels.attend(1, 2)  # type: ignore[union-attr]
    with pytest.raises(TypeError):
        kernels.kernels.product(*"abcdefghijklmno")  # type: ignore[union-attr]


def test_torch_fallback_gives_the_same(monkeypatch: pytest.MonkeyPatch):
    from regard.decoding import BatchTranslator, BeamSearch, TextGenerator
    from regard.models import gpt, transformer

    torch.manual_seed(0)
    text = gpt.GPT(67, gpt.GPTConfig(44, 2, 4)).eval()
    pair = transformer.Transformer(67, transformer.TransformerConfig(44, 29, 2, 2, 4)).eval()
    with torch.no_grad():
        for p in [*text.parameters(), *pair.parameters()]:
            p.add_(0.2 * torch.randn_like(p))

    def said() -> tuple[object, object]:
        written = TextGenerator(text).generate([[7, 8, 9], [10]], max_new_tokens=20, stop_ids=())
        spoken = BatchTranslator(pair).translate([[7, 8, 9, 3], [10, 3]], strategy=BeamSearch(4), max_length=30)
        return [one[0].ids for one in written], [one[0].ids for one in spoken]

    with_kernels = said()
    monkeypatch.setenv(kernels.TORCH_ONLY, "1")
    assert not kernels.can_use_kernels(torch.zeros(1))
    assert said() == with_kernels


def test_other_types_raise_or_use_torch():
    from regard.decoding.optimized_blocks import build_norm

    with pytest.raises(TypeError, match="need float32, got"):
        kernels.KernelLinear(torch.zeros(2, 3).double(), None)
    with pytest.raises(TypeError, match="need float32, got"):
        kernels.KernelLinear(torch.zeros(2, 3), None)(torch.zeros(1, 3).double())
    norm = torch.nn.LayerNorm(4)
    x = torch.randn(2, 4, dtype=torch.bfloat16)
    whole, _ = build_norm(torch.nn.LayerNorm(4).bfloat16())(x, x)
    assert torch.equal(whole, x + x)
    assert build_norm(norm)(x.float(), None)[1].dtype == torch.float32


def test_nan_stays_nan():
    bad = torch.tensor([[float("nan"), 1.0]])
    assert kernels.KernelLinear(torch.ones(3, 2), None, True)(bad).isnan().all()
    assert kernels.attend(bad[None, None], torch.ones(1, 1, 5, 2), torch.ones(1, 1, 5, 2)).isnan().all()
    assert kernels.add_norm(bad, None, torch.ones(2), torch.zeros(2), 1e-5)[1].isnan().all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_default_dtype_does_not_matter(dtype: torch.dtype):
    from regard.decoding import TextGenerator
    from regard.models import gpt

    torch.manual_seed(0)
    model = gpt.GPT(67, gpt.GPTConfig(44, 2, 4)).eval()
    wanted = TextGenerator(model).generate([[7, 8, 9]], max_new_tokens=12, stop_ids=())[0][0].ids
    torch.set_default_dtype(dtype)
    try:
        assert TextGenerator(model).generate([[7, 8, 9]], max_new_tokens=12, stop_ids=())[0][0].ids == wanted
    finally:
        torch.set_default_dtype(torch.float32)


def test_autocast_does_not_change_the_text():
    from regard.decoding import BatchTranslator, BeamSearch, TextGenerator
    from regard.models import gpt, transformer

    torch.manual_seed(0)
    text = gpt.GPT(67, gpt.GPTConfig(44, 2, 4)).eval()
    pair = transformer.Transformer(67, transformer.TransformerConfig(44, 29, 2, 2, 4)).eval()

    def said() -> tuple[list[int], list[int]]:
        written = TextGenerator(text).generate([[7, 8, 9]], max_new_tokens=12, stop_ids=())[0][0].ids
        return written, BatchTranslator(pair).translate([[7, 8, 3]], strategy=BeamSearch(3), max_length=9)[0][0].ids

    wanted = said()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert said() == wanted


def test_kernels_of_another_version_are_not_used():
    program = """
import sys, types, warnings
sys.modules["regard.kernels.kernels"] = types.ModuleType("regard.kernels.kernels")
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    from regard import kernels
assert kernels.kernels is None
assert "install regard again" in str(told[-1].message)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
