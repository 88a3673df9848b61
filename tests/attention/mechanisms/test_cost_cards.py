"""FLOPs and parameters on the cards equal what torch counts, at sizes that share no factor."""

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from regard.layers import MultiHeadAttention

CASES = [
    ("additive", {"hidden": 5}),
    ("bilinear", {}),
    ("merged-qk", {}),
    ("bare", {"key_width": 7}),
    ("synthesizer-dense", {"length": 17, "hidden": 7}),
    ("synthesizer-random", {"length": 17}),
    ("synthesizer-factorized", {"length": 17, "rank": 2}),
    ("synthesizer-factorized-dense", {"length": 17, "hidden": 7}),
]


@pytest.mark.parametrize(("name", "options"), CASES)
def test_card_equals_what_is_counted(name, options):
    layer = MultiHeadAttention(33, 3, name, **options)
    x = torch.randn(1, 13, 33)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        layer(x)
    cost = layer.cost(13)
    assert cost.flops == counter.get_total_flops()
    assert cost.params == sum(p.numel() for p in layer.parameters())


@pytest.mark.parametrize("name", ["additive", "bilinear", "merged-qk", "bare"])
def test_card_of_another_memory(name):
    layer = MultiHeadAttention(33, 3, name, context_dim=19)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        layer(torch.randn(1, 5, 33), torch.randn(1, 7, 19))
    assert layer.cost(5, 7).flops == counter.get_total_flops()


def test_one_head_that_reads_the_memory_itself():
    layer = MultiHeadAttention(33, 1, "bilinear:values=false", context_dim=19, output_proj=False)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        layer(torch.randn(1, 5, 33), torch.randn(1, 7, 19))
    assert layer.cost(5, 7).flops == counter.get_total_flops()
