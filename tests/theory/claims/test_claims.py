"""Every exact claim holds, repeats its figures, and fails if the mathematics is broken."""

from __future__ import annotations

import json

import pytest
import torch

from regard.attention import masks
from regard.attention.masks import Mask
from regard.attention.mechanisms import mechanism, qkv_projection
from regard.attention.mechanisms.qkv_projection import QKVMechanism
from regard.attention.positions import sinusoidal
from regard.errors import UserError
from regard.layers.multi_head_attention import MultiHeadAttention
from regard.theory import verify_claims
from regard.theory.claim import CheckResult, Claim, ClaimResult, check_claim, is_above, is_below

EXACT = [claim for claim in verify_claims.CLAIMS if claim.kind == "exact"]


def verify_one(id: str) -> ClaimResult:
    (result,) = verify_claims.verify(id=id)
    return result


@pytest.mark.parametrize("claim", EXACT, ids=lambda claim: claim.id)
def test_holds_and_repeats_its_figures(claim):
    first, second = check_claim(claim), check_claim(claim)
    assert first.verdict == "holds", (first.figures, first.tests)
    assert first == second
    assert first.figures
    assert json.loads(json.dumps(first.as_dict()))["id"] == claim.id
    if claim.misstatement:
        assert first.counterexample, "a misstatement needs a counterexample in figures"


@pytest.mark.parametrize("claim", EXACT, ids=lambda claim: claim.id)
def test_holds_at_another_seed(claim):
    result = check_claim(claim, 7)
    assert result.verdict == "holds", (result.figures, result.tests)


def test_ids_are_unique_and_claims_are_complete():
    ids = [claim.id for claim in verify_claims.CLAIMS]
    assert len(set(ids)) == len(ids)
    for claim in verify_claims.CLAIMS:
        assert claim.statement.endswith(".")
        assert claim.equation
        assert claim.kind in ("exact", "timed", "trained")


def test_a_wrong_sign_is_detected(monkeypatch):
    original = sinusoidal.shift_matrix
    monkeypatch.setattr(sinusoidal, "shift_matrix", lambda k, dim, base=10_000.0: original(-k, dim, base))
    assert verify_one("sinusoidal-rotation").verdict == "fails"


def test_a_missing_scale_is_detected(monkeypatch):
    monkeypatch.setattr(QKVMechanism, "scale", property(lambda self: 1.0))
    result = verify_one("scaled-once")
    assert result.verdict == "fails"
    assert result.tests["the layer divides once"] is False
    assert verify_one("three-projections").verdict == "fails"


def test_a_second_scale_is_detected(monkeypatch):
    monkeypatch.setattr(QKVMechanism, "scale", property(lambda self: 1 / self.key_width))
    assert verify_one("scaled-once").tests["the layer divides once"] is False


def test_a_leaking_mask_is_detected(monkeypatch):
    original = Mask.allowed

    def leaky(self, q_pos, k_pos, device):
        """Allow one position too many."""
        allowed = original(self, q_pos, k_pos, device)
        if not self.causal or allowed is None:
            return allowed
        leaked = allowed.clone()
        leaked[..., 1:] |= allowed[..., :-1]
        return leaked

    monkeypatch.setattr(Mask, "allowed", leaky)
    result = verify_one("causal-mask")
    assert result.verdict == "fails"
    assert result.tests["weight exactly 0"] is False


def test_a_leak_in_the_fused_path_alone_is_detected(monkeypatch):
    monkeypatch.setattr(Mask, "is_plain_causal", lambda self, q_pos, k_pos: False)
    monkeypatch.setattr(masks, "all_keys_visible", lambda q_pos, k_pos: True)
    assert verify_one("causal-mask").verdict == "fails"


def test_swapped_axes_are_detected(monkeypatch):
    def swapped(x, heads):
        b, n, width = x.shape
        return x.reshape(b, width // heads, n, heads).permute(0, 3, 2, 1)

    for module in (mechanism, qkv_projection, verify_claims.projections):
        monkeypatch.setattr(module, "split_heads", swapped)
    assert verify_one("heads-axes").verdict == "fails"
    assert verify_one("three-projections").verdict == "fails"


def test_a_wrong_count_is_detected(monkeypatch):
    original = MultiHeadAttention.cost

    def wrong(self, n, m=None):
        cost = original(self, n, m)
        return type(cost)(cost.params, cost.flops + 2 * n, cost.memory, cost.steps, cost.path)

    monkeypatch.setattr(MultiHeadAttention, "cost", wrong)
    assert verify_one("multi-head-cost").verdict == "fails"


def test_a_wrong_counting_rule_is_detected(monkeypatch):
    from regard.theory.cost import operator_costs

    monkeypatch.setattr(operator_costs, "tree_depth", lambda k: k)
    assert verify_one("parallel-time").verdict == "fails"


def test_a_merge_that_forgets_the_bias_is_detected(monkeypatch):
    from regard.layers.merge_qk import merge_qk
    from regard.theory.claims import query_key_merging as claims

    def forgetful(layer):
        merged = merge_qk(layer)
        with torch.no_grad():
            merged.mechanism.q.bias.zero_()
        return merged

    monkeypatch.setattr(claims, "merge_qk", forgetful)
    assert verify_one("merged").tests["identical attention"] is False


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


def test_a_check_that_raises_is_undecided():
    def broken(seed: int) -> CheckResult:
        raise RuntimeError("no memory")

    result = check_claim(Claim("x", "x", "exact", "x.", "x", broken))
    assert result.verdict == "undecided"
    assert "no memory" in result.figures["error"]


def test_an_interval_that_contains_the_bound_is_undecided():
    assert is_above(0.6, 0.8, 0.5) is True
    assert is_above(0.2, 0.4, 0.5) is False
    assert is_above(0.4, 0.6, 0.5) is None
    assert is_below(0.2, 0.4, 0.5) is True
    assert is_below(0.4, 0.6, 0.5) is None


def test_unknown_names_raise_with_suggestions():
    with pytest.raises(UserError, match="crossings"):
        verify_claims.select_claims(id="crossing")
    with pytest.raises(UserError, match="order"):
        verify_claims.select_claims(topic="ordr")


def test_results_print_as_a_table_and_convert_to_a_frame():
    results = verify_claims.verify(topic="order")
    assert results.counts == {"holds": len(results), "fails": 0, "undecided": 0}
    assert "holds      causal-mask" in repr(results)
    assert repr(results).endswith(f"{len(results)} holds")
    assert results._repr_html_().count("<tr>") == 1 + len(results)
    frame = results.to_frame()
    assert list(frame.columns) == ["id", "topic", "kind", "verdict", "statement", "equation", "figures"]
    assert len(frame) == len(results)
