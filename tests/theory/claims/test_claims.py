"""Every exact statement holds, gives the same figures again, and stops holding where the mathematics is broken."""

from __future__ import annotations

import json

import pytest
import torch

from regard.attention import masks
from regard.attention.masks import Mask
from regard.attention.mechanisms import mechanism, qkv_projection
from regard.attention.mechanisms.qkv_projection import QKV
from regard.attention.positions import sinusoidal
from regard.errors import UserError
from regard.layers.multi_head_attention import MultiHeadAttention
from regard.theory import verify_claims
from regard.theory.claim import Claim, CheckResult, is_above, is_below, check_claim

EXACT = [claim for claim in verify_claims.CLAIMS if claim.kind == "exact"]


def row(id: str) -> verify_claims.ClaimResult:
    (one,) = verify_claims.verify(id=id)
    return one


@pytest.mark.parametrize("claim", EXACT, ids=lambda claim: claim.id)
def test_holds_and_again_the_same(claim):
    first, second = check_claim(claim), check_claim(claim)
    assert first.verdict == "holds", (first.figures, first.tests)
    assert first == second
    assert first.figures
    assert json.loads(json.dumps(first.as_dict()))["id"] == claim.id
    if claim.told:
        assert first.counter, "what is told wrongly wants its counter-example in figures"


@pytest.mark.parametrize("claim", EXACT, ids=lambda claim: claim.id)
def test_holds_at_another_seed(claim):
    again = check_claim(claim, 7)
    assert again.verdict == "holds", (again.figures, again.tests)


def test_ids_are_unique_and_rows_complete():
    ids = [claim.id for claim in verify_claims.CLAIMS]
    assert len(set(ids)) == len(ids)
    for claim in verify_claims.CLAIMS:
        assert claim.claim.endswith(".")
        assert claim.equation
        assert claim.kind in ("exact", "timed", "trained")


def test_a_wrong_sign_is_seen(monkeypatch):
    right = sinusoidal.shift
    monkeypatch.setattr(sinusoidal, "shift", lambda k, dim, base=10_000.0: right(-k, dim, base))
    assert row("sinusoidal-rotation").verdict == "fails"


def test_a_dropped_scale_is_seen(monkeypatch):
    monkeypatch.setattr(QKV, "scale", property(lambda self: 1.0))
    found = row("scaled-once")
    assert found.verdict == "fails"
    assert found.tests["the layer divides once"] is False
    assert row("three-projections").verdict == "fails"


def test_a_second_scale_is_seen(monkeypatch):
    monkeypatch.setattr(QKV, "scale", property(lambda self: 1 / self.key_width))
    assert row("scaled-once").tests["the layer divides once"] is False


def test_a_leaking_mask_is_seen(monkeypatch):
    right = Mask.allowed

    def leaky(self, q_pos, k_pos, device):
        """One place too far."""
        allowed = right(self, q_pos, k_pos, device)
        if not self.causal or allowed is None:
            return allowed
        seen = allowed.clone()
        seen[..., 1:] |= allowed[..., :-1]
        return seen

    monkeypatch.setattr(Mask, "allowed", leaky)
    found = row("causal-mask")
    assert found.verdict == "fails"
    assert found.tests["weight exactly 0"] is False


def test_a_leak_in_the_fused_path_alone_is_seen(monkeypatch):
    monkeypatch.setattr(Mask, "is_plain_causal", lambda self, q_pos, k_pos: False)
    monkeypatch.setattr(masks, "sees_all", lambda q_pos, k_pos: True)
    assert row("causal-mask").verdict == "fails"


def test_swapped_axes_are_seen(monkeypatch):
    def swapped(x, heads):
        b, n, width = x.shape
        return x.reshape(b, width // heads, n, heads).permute(0, 3, 2, 1)

    for module in (mechanism, qkv_projection, verify_claims.projections):
        monkeypatch.setattr(module, "split_heads", swapped)
    assert row("heads-axes").verdict == "fails"
    assert row("three-projections").verdict == "fails"


def test_a_wrong_count_is_seen(monkeypatch):
    right = MultiHeadAttention.cost

    def wrong(self, n, m=None):
        cost = right(self, n, m)
        return type(cost)(cost.params, cost.flops + 2 * n, cost.memory, cost.steps, cost.path)

    monkeypatch.setattr(MultiHeadAttention, "cost", wrong)
    assert row("multi-head-cost").verdict == "fails"


def test_a_wrong_rule_of_counting_is_seen(monkeypatch):
    from regard.theory.cost import operator_costs

    monkeypatch.setattr(operator_costs, "tree", lambda k: k)
    assert row("parallel-time").verdict == "fails"


def test_a_merge_that_forgets_the_bias_is_seen(monkeypatch):
    from regard.layers import merge_qk
    from regard.theory.claims import query_key_merging as claims

    def forgetful(layer):
        made = merge_qk.merge_qk(layer)
        with torch.no_grad():
            made.mechanism.q.bias.zero_()
        return made

    monkeypatch.setattr(claims, "merge_qk", forgetful)
    assert row("merged").tests["identical attention"] is False


@pytest.mark.parametrize(
    ("tests", "verdict"),
    [
        ({"a": True, "b": True}, "holds"),
        ({"a": True, "b": None}, "undecided"),
        ({"a": False, "b": None}, "fails"),
        ({}, "undecided"),
    ],
)
def test_undecided_is_never_holds(tests, verdict):
    assert CheckResult({}, tests).verdict == verdict


def test_a_check_that_breaks_down_is_undecided():
    def broken(seed: int) -> CheckResult:
        raise RuntimeError("no memory")

    found = check_claim(Claim("x", "x", "exact", "x.", "x", broken))
    assert found.verdict == "undecided"
    assert "no memory" in found.figures["broke"]


def test_intervals_decide_only_what_they_can():
    assert is_above(0.6, 0.8, 0.5) is True
    assert is_above(0.2, 0.4, 0.5) is False
    assert is_above(0.4, 0.6, 0.5) is None
    assert is_below(0.2, 0.4, 0.5) is True
    assert is_below(0.4, 0.6, 0.5) is None


def test_unknown_names_are_told():
    with pytest.raises(UserError, match="crossings"):
        verify_claims.chosen(id="crossing")
    with pytest.raises(UserError, match="order"):
        verify_claims.chosen(topic="ordr")
