"""Every backend that a GPU runs, in half formats, against the same in float64 there."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from harness.kernels import KERNELS, AttentionShape
from tests.harness.kernels.shapes import BOUNDS, errors

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    # What compilers and drivers of a GPU warn of is not ours.
    pytest.mark.filterwarnings("default"),
]

PLAIN = AttentionShape(batch=2, heads=8, kv_heads=2, seq=333, d_head=64, dtype="bf16", direction="backward")
SHAPES = {
    "groups": PLAIN,
    "causal": replace(PLAIN, causal=True),
    "heads": replace(PLAIN, kv_heads=8, d_head=128, d_value=128, causal=True),
    "cache": replace(PLAIN, seq=65, causal=True),
    "window": replace(PLAIN, causal=True, window=70),
    "padding": replace(PLAIN, lengths=(0, 200)),
    "bias": replace(PLAIN, causal=True, softcap=30.0, alibi=True),
    "decode": replace(PLAIN, seq=1, keys=5000, causal=True, direction="forward"),
    "empty": replace(PLAIN, seq=300, keys=200, causal=True),
    "latent": replace(PLAIN, seq=1, kv_heads=8, d_head=192, d_value=128, kv_rank=512, d_rope=64, direction="forward"),
}


@pytest.mark.parametrize("case", SHAPES)
@pytest.mark.parametrize("name", KERNELS)
def test_equal_to_the_reference_on_a_gpu(name: str, case: str) -> None:
    backend = KERNELS[name]
    shape = SHAPES[case]
    if backend.supports(shape, "cuda") == "has no backward pass":
        shape = replace(shape, direction="forward")
    if reason := backend.available("cuda") or backend.supports(shape, "cuda"):
        pytest.skip(reason)
    try:
        found = errors(name, shape, "cuda")
    except NotImplementedError as refusal:
        # What a kernel takes there depends on versions that nobody can ask without it.
        pytest.skip(str(refusal))
    assert max(found.values()) <= BOUNDS["bf16"], found
