"""Every backend that a CPU runs, against the same in float64; what the others say of themselves."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import assume, example, given, settings
from torch.nn.attention import SDPBackend, sdpa_kernel

from calc.errors import Refused
from harness.kernels import KERNELS, REFERENCES, AttentionShape
from harness.kernels.base import has_empty_rows, needs
from harness.kernels.inputs import random_inputs, visible
from harness.kernels.sdpa import SdpaFlash
from tests.harness.kernels.shapes import bound, errors, shapes
from tests.test_imports import HEAVY, loaded_by

ON_CPU = ("reference", "tiled", "sdpa_math", "sdpa_flash", "linear_reference", "linear")
PLAIN = AttentionShape(batch=2, heads=4, kv_heads=2, seq=33, d_head=16, dtype="fp32", direction="backward")


def hold(name: str, shape: AttentionShape) -> None:
    found = errors(name, shape)
    assert max(found.values()) <= bound(name, shape.dtype), found


@pytest.mark.parametrize("name", ON_CPU)
@settings(max_examples=40, deadline=None)
@given(shape=shapes())
@example(shape=PLAIN)
@example(shape=replace(PLAIN, causal=True, dtype="bf16"))
@example(shape=replace(PLAIN, seq=9, keys=5, causal=True))
@example(shape=replace(PLAIN, lengths=(0, 20), causal=True))
@example(shape=replace(PLAIN, window=5, lengths=(4, 33)))
def test_equal_to_the_reference(name: str, shape: AttentionShape) -> None:
    backend = KERNELS[name]
    if backend.supports(shape):
        # Most of what is drawn needs more than some backends have: then the plain part of it.
        shape = replace(shape, softcap=None, alibi=False, d_value=shape.d_head)
    if backend.supports(shape):
        shape = replace(shape, window=None, lengths=None, causal=shape.causal and shape.offset >= 0)
    assert backend.supports(shape) is None
    hold(name, shape)


@pytest.mark.parametrize("name", ["mla_naive", "mla_absorbed"])
@settings(max_examples=40, deadline=None)
@given(shape=shapes(softcap=None, alibi=False, kv_rank=12, d_rope=2, kv_heads=None))
@example(shape=AttentionShape(heads=4, seq=1, keys=70, d_head=24, d_value=16, kv_rank=64, d_rope=8, dtype="fp32"))
@example(shape=AttentionShape(heads=1, seq=2, keys=33, d_head=3, d_value=3, kv_rank=12, d_rope=2, dtype="bf16"))
@example(shape=AttentionShape(heads=1, seq=1, keys=7, d_head=8, d_value=8, kv_rank=4, d_rope=2, dtype="bf16"))
def test_both_forms_of_latent_attention(name: str, shape: AttentionShape) -> None:
    hold(name, shape)


@pytest.mark.slow
@pytest.mark.parametrize(
    "changes",
    [
        {"causal": True},
        {"seq": 9, "keys": 40, "causal": True, "window": 6},
        {"window": 5, "lengths": (0, 20)},
        {"softcap": 3.0, "alibi": True, "causal": True},
        {"seq": 9, "keys": 5, "causal": True, "dtype": "bf16"},
        {"seq": 1, "keys": 40, "causal": True, "d_value": 8, "dtype": "bf16"},
    ],
    ids=lambda changes: ",".join(changes),
)
def test_flex_attention_forward(changes: dict) -> None:
    sizes = {"batch": 2, "heads": 4, "kv_heads": 2, "seq": 33, "d_head": 16, "dtype": "fp32"}
    hold("flex", AttentionShape(**sizes | changes))


@settings(max_examples=100, deadline=None)
@given(shape=shapes())
def test_a_query_that_sees_nothing_gives_zeros_and_no_gradient(shape: AttentionShape) -> None:
    shape = replace(shape, direction="backward", dtype="fp32")
    seen = visible(shape, torch.device("cpu"))
    empty = torch.zeros(1, 1, shape.seq, dtype=torch.bool) if seen is None else ~seen.any(-1)
    assert has_empty_rows(shape) == bool(empty.any())
    empty = empty.expand(shape.batch, shape.heads, shape.seq)
    for name in ("reference", "tiled"):
        q, k, v = random_inputs(shape, "cpu", 0)
        out = KERNELS[name].forward(q, k, v, shape)
        (gradient,) = torch.autograd.grad(out.sum(), q)
        assert not out[empty].any()
        assert not gradient[empty].any()


def test_a_new_token_sees_all_that_is_cached() -> None:
    """Bottom-right alignment: decoding token by token gives the rows of one causal pass."""
    whole = AttentionShape(heads=4, kv_heads=2, seq=9, d_head=8, causal=True, window=4, dtype="fp64")
    q, k, v = random_inputs(whole, "cpu", 3)
    rows = KERNELS["reference"].forward(q, k, v, whole)
    for i in range(9):
        step = replace(whole, seq=1, keys=i + 1)
        assert step.phase == ("decode")
        one = KERNELS["reference"].forward(q[:, :, i : i + 1], k[:, :, : i + 1], v[:, :, : i + 1], step)
        torch.testing.assert_close(one[:, :, 0], rows[:, :, i])


def test_the_reference_is_the_formula() -> None:
    """Against PyTorch's own softmax attention and a loop over pairs that knows nothing of masks as tensors."""
    shape = AttentionShape(
        heads=2, kv_heads=1, seq=4, keys=6, d_head=3, d_value=2, causal=True, window=3, softcap=2.0, alibi=True,
        dtype="fp64",
    )  # fmt: skip
    q, k, v = random_inputs(shape, "cpu", 1)
    out = KERNELS["reference"].forward(q, k, v, shape)
    for head, slope in enumerate((2**-4, 2**-8)):
        for i in range(4):
            weights = torch.zeros(6, dtype=torch.float64)
            for j in range(6):
                if i + 2 - 3 < j <= i + 2:
                    score = float(q[0, head, i] @ k[0, 0, j]) / 3**0.5
                    capped = 2 * torch.tanh(torch.tensor(score / 2, dtype=torch.float64))
                    weights[j] = torch.exp(capped - slope * (i + 2 - j))
            torch.testing.assert_close(out[0, head, i], weights / weights.sum() @ v[0, 0])


def test_the_registry_loads_no_torch_and_tells_why_not() -> None:
    loaded = loaded_by(
        "import harness.kernels as k; k.KERNELS['flex'].supports(k.AttentionShape(direction='backward'))"
    )
    assert not (set(HEAVY) | {"triton"}) & set(loaded)
    for name, backend in KERNELS.items():
        assert backend.name == name
        assert REFERENCES[backend.function] in KERNELS
        assert backend.title
        assert (type(backend).__doc__ or "").strip()


@pytest.mark.parametrize("name", ["sdpa_efficient", "sdpa_cudnn", "flash_attn", "flash_attn_3"])
def test_gpu_backends_say_that_a_cpu_is_none(name: str) -> None:
    assert KERNELS[name].available("cpu") == "runs on cuda only"
    with pytest.raises(Refused, match=f"{name}: expected a backend .* runs on cuda only"):
        KERNELS[name].check(PLAIN, "cpu")
    if not torch.cuda.is_available():
        assert KERNELS[name].available("cuda") == "no CUDA device"


def test_unsupported_shapes_are_told_apart() -> None:
    assert KERNELS["flex"].supports(PLAIN, "cpu") == "has no backward pass on a CPU"
    assert KERNELS["flex"].supports(PLAIN, "cuda") is None
    assert KERNELS["flash_attn"].supports(replace(PLAIN, dtype="fp32"), "cuda") == "has no fp32"
    bf16 = replace(PLAIN, dtype="bf16")
    assert KERNELS["flash_attn"].supports(bf16, "cuda") is None
    assert KERNELS["flash_attn"].supports(replace(bf16, lengths=(1, 2)), "cuda") == "has no padding"
    assert KERNELS["sdpa_flash"].supports(replace(bf16, window=5), "cuda") == "takes no mask of its own on CUDA"
    assert KERNELS["sdpa_flash"].supports(replace(bf16, window=5), "cpu") is None
    assert KERNELS["sdpa_efficient"].supports(bf16, "cuda").startswith("has no key heads")
    assert KERNELS["triton"].supports(bf16, "cuda") is None
    assert KERNELS["triton_paged"].supports(replace(bf16, seq=4), "cuda") == "has no backward pass"
    assert "bf16" in KERNELS["triton"].supports(replace(bf16, direction="forward"), "cpu")
    assert KERNELS["triton_decode"].supports(replace(PLAIN, direction="forward", seq=40)).startswith("holds at most 64")
    assert KERNELS["mla_naive"].supports(PLAIN) == "needs latent attention: kv_rank and d_rope"
    assert needs(PLAIN) == {"groups", "backward"}


def test_flash_on_a_gpu_continues_a_cache_with_a_mask_of_its_own() -> None:
    """The bias that it is given there stands for the same mask, which PyTorch's other kernels can be given too."""
    from torch.nn.functional import scaled_dot_product_attention

    shape = AttentionShape(heads=4, kv_heads=2, seq=5, keys=9, d_head=8, causal=True, dtype="fp32")
    flash = KERNELS["sdpa_flash"]
    assert isinstance(flash, SdpaFlash)
    half = replace(shape, dtype="bf16")
    assert flash.supports(half, "cuda") is None
    assert KERNELS["sdpa_cudnn"].supports(half, "cuda") == "has no causal mask of queries that continue a cache"
    bias, causal = flash.mask(shape, torch.device("cuda"))
    assert not causal
    q, k, v = random_inputs(shape, "cpu", 0)
    with sdpa_kernel(SDPBackend.MATH):
        out = scaled_dot_product_attention(q, k, v, attn_mask=bias, enable_gqa=True)
    torch.testing.assert_close(out, KERNELS["reference"].forward(q, k, v, shape))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "d_value"), [("sdpa_flash", 8), ("sdpa_efficient", 16)])
def test_a_kernel_that_pytorch_refuses_is_unsupported_and_no_crash(name: str, d_value: int) -> None:
    shape = replace(PLAIN, kv_heads=4, d_value=d_value, direction="forward")
    with pytest.raises(NotImplementedError, match=f"{name}: PyTorch has no such kernel"):
        KERNELS[name].forward(*random_inputs(shape, "cpu", 0), shape)


def test_flex_masks_have_blocks_of_the_size_that_chooses_its_kernel() -> None:
    from harness.kernels.flex import _BLOCK, _block_mask, _too_many_rows

    cached = AttentionShape(heads=8, kv_heads=2, seq=65, keys=333, d_head=64, causal=True)
    assert _block_mask(cached, torch.device("cpu")).BLOCK_SIZE == (_BLOCK, _BLOCK)
    assert _too_many_rows(cached)
    assert not _too_many_rows(replace(cached, seq=1))
    assert not _too_many_rows(replace(cached, seq=128))


@settings(max_examples=40, deadline=None)
@given(shape=shapes(causal=False, softcap=None, alibi=False, window=None, lengths=None, direction="backward"))
def test_linear_attention_does_not_depend_on_the_order_of_keys(shape: AttentionShape) -> None:
    """Without a mask, keys and their values may change places together; the state form must not care."""
    assume(shape.keys > 1)
    q, k, v = (x.detach().double() for x in random_inputs(shape, "cpu", 0))
    wide = replace(shape, dtype="fp64", direction="forward")
    order = torch.randperm(shape.keys, generator=torch.Generator().manual_seed(0))
    straight = KERNELS["linear"].forward(q, k, v, wide)
    torch.testing.assert_close(KERNELS["linear"].forward(q, k[:, :, order], v[:, :, order], wide), straight)
