"""Every kind of case really runs on a CPU, its check passes, and a wrong result does not pass it."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

import torch.nn.functional as F  # noqa: E402, N812

from harness.cases import make  # noqa: E402
from harness.cases.passes import FUNCTIONS  # noqa: E402
from harness.profiling import passes  # noqa: E402
from reference_models.blocks.mlp import FeedForward  # noqa: E402
from reference_models.blocks.positions import turn as right_turn  # noqa: E402

TINY: dict[str, Any] = {"model": "tiny-gqa", "dtype": "fp32"}
CASES: list[tuple[str, dict[str, Any]]] = [
    *(("matmul", {"m": 33, "n": 65, "k": 40, "dtype": "fp32", "layout": each}) for each in ("nt", "nn", "tn")),
    ("matmul", {"m": 33, "n": 65, "k": 40, "dtype": "bf16", "batch": 3}),
    ("scaled_matmul", {"m": 33, "n": 64, "k": 48}),
    *(
        ("grouped_matmul", {"rows": 37, "experts": 5, "n": 32, "k": 48, "dtype": "bf16", "routing": each})
        for each in ("balanced", "uniform")
    ),
    *(("pass", {"function": each, "elements": 2**14, "dtype": "fp32"}) for each in FUNCTIONS),
    *(
        ("pass", {"function": each, "elements": 2**14, "dtype": "bf16", "direction": "backward"})
        for each in ("layernorm", "rmsnorm", "gelu", "swiglu", "rope", "softmax", "cross_entropy")
    ),
    *(
        ("attention", {"backend": each, "seq": 37, "heads": 4, "kv_heads": 2, "d_head": 16, "dtype": "fp32"})
        for each in ("reference", "tiled", "sdpa_math", "sdpa_flash", "linear")
    ),
    ("attention", {"backend": "sdpa_flash", "seq": 37, "heads": 2, "d_head": 16, "direction": "backward"}),
    ("decode_attention", {"backend": "sdpa_math", "context": 37, "heads": 4, "kv_heads": 2, "d_head": 16, "batch": 2}),
    ("layer", {**TINY, "seq": 20}),
    ("layer", {**TINY, "seq": 20, "direction": "backward", "execution": "eager"}),
    *(("forward", {"model": f"tiny-{each}", "seq": 20, "batch": 2}) for each in ("mla", "moe", "bert", "translator")),
    ("forward", {"model": "tiny-vit", "seq": 1, "batch": 2, "dtype": "fp32", "execution": "eager"}),
    ("prefill", {**TINY, "seq": 20, "batch": 2}),
    ("decode", {**TINY, "context": 20, "batch": 2}),
    ("decode", {"model": "tiny-mla", "context": 20, "dtype": "bf16", "execution": "eager"}),
    ("training", {**TINY, "seq": 20, "batch": 2}),
    ("training", {"model": "tiny-gpt", "seq": 20, "batch": 2, "dtype": "bf16-mixed", "checkpointing": "full"}),
    ("training", {"model": "tiny-vit", "seq": 1, "batch": 2, "dtype": "fp32", "execution": "eager"}),
    ("training", {"model": "tiny-translator", "seq": 20, "batch": 2, "dtype": "bf16"}),
]


@pytest.mark.parametrize(("kind", "params"), CASES, ids=lambda each: each if isinstance(each, str) else None)
def test_the_check_passes(kind: str, params: dict[str, Any]) -> None:
    ready = make(kind, params).ready("cpu")
    assert ready.check is not None
    assert ready.check() <= ready.tolerance
    ready.run()


def test_a_wrong_product_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = torch.Tensor.__matmul__

    def wrong(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        out = right(a, b)
        return out if a.dtype == torch.float64 else torch.cat([out[..., :-1], out[..., :1]], -1)

    monkeypatch.setattr(torch.Tensor, "__matmul__", wrong)
    ready = make("matmul", {"m": 8, "n": 9, "k": 10, "dtype": "fp32"}).ready("cpu")
    assert ready.check is not None
    assert ready.check() > ready.tolerance


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_wrong_pass_is_found(direction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(x: Any, shape: Any, weight: Any, bias: Any, eps: float) -> Any:
        return (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 0.1) * weight + bias

    monkeypatch.setattr(F, "layer_norm", wrong)
    params = {"function": "layernorm", "elements": 2**13, "dtype": "fp32", "direction": direction}
    ready = make("pass", params).ready("cpu")
    assert checked(ready) > ready.tolerance


@pytest.mark.parametrize("direction", ["forward", "backward"])
@pytest.mark.parametrize(
    ("function", "wrong"),
    [
        ("rope", lambda x, cos, sin, interleaved: right_turn(x, cos, -sin, interleaved=interleaved)),
        ("softmax", lambda mask, dtype: torch.zeros((), dtype=dtype)),
        ("cross_entropy", lambda logits, targets: F.cross_entropy(logits.flatten(0, -2), targets.flatten().flip(0))),
    ],
)
def test_passes_are_held_against_formulas(
    function: str, wrong: Any, direction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = {"rope": "turn", "softmax": "added_mask"}.get(function, function)
    monkeypatch.setattr(passes, called, wrong)
    params = {"function": function, "elements": 2**15, "dtype": "fp32", "direction": direction}
    ready = make("pass", params).ready("cpu")
    assert checked(ready) > ready.tolerance


def checked(ready: Any) -> float:
    return ready.check()


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        ("attention", {"seq": 24}),
        ("attention", {"seq": 24, "direction": "backward"}),
        ("decode_attention", {"context": 24}),
    ],
)
def test_wrong_attention_is_found(kind: str, params: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    right = F.scaled_dot_product_attention
    monkeypatch.setattr(F, "scaled_dot_product_attention", lambda q, k, v, **more: right(q, k, v * 1.01, **more))
    ready = make(kind, {"backend": "sdpa_math", "heads": 2, "d_head": 8, "dtype": "fp32", **params}).ready("cpu")
    assert checked(ready) > ready.tolerance


@pytest.mark.parametrize(
    ("kind", "params"),
    [("layer", {"seq": 12}), ("forward", {"seq": 12}), ("prefill", {"seq": 12}), ("decode", {"context": 12})],
)
def test_a_wrong_model_is_found(kind: str, params: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A block that rounds too coarsely where the check, in float64, does not."""
    right = FeedForward.forward

    def wrong(self: FeedForward, x: torch.Tensor, step: Any = None) -> torch.Tensor:
        out = right(self, x, step)
        return out if out.dtype == torch.float64 else (out * 8).round() / 8

    monkeypatch.setattr(FeedForward, "forward", wrong)
    ready = make(kind, {**TINY, **params}).ready("cpu")
    assert checked(ready) > ready.tolerance


@pytest.mark.parametrize("dtype", ["fp32", "bf16", "bf16-mixed"])
def test_a_step_that_moves_no_weight_is_found(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.optim.AdamW, "step", lambda self: None)
    ready = make("training", {**TINY, "seq": 12, "dtype": dtype}).ready("cpu")
    assert checked(ready) == float("inf")


# The compiler itself still uses it (torch 2.13).
@pytest.mark.filterwarnings("ignore:.torch.jit.script_method. is deprecated:DeprecationWarning")
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "params"),
    [
        ("training", {"model": "tiny-gpt", "seq": 16}),
        ("prefill", {"model": "tiny-gqa", "seq": 16}),
        ("layer", {"model": "tiny-gqa", "seq": 16, "direction": "backward"}),
    ],
)
def test_what_is_compiled_gives_the_same(kind: str, params: dict[str, Any]) -> None:
    ready = make(kind, {**params, "dtype": "fp32", "execution": "compiled"}).ready("cpu")
    assert checked(ready) <= ready.tolerance
    ready.run()


@pytest.mark.parametrize("kind", ["forward", "training", "layer"])
def test_without_a_compiler_nothing_is_compiled(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(NotImplementedError, match="no C\\+\\+ compiler"):
        make(kind, {**TINY, "seq": 12, "execution": "compiled"}).ready("cpu")


def test_a_step_with_a_wrong_loss_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    right = F.cross_entropy
    monkeypatch.setattr(F, "cross_entropy", lambda *args, **more: 3 * right(*args, **more))
    assert checked(make("training", {**TINY, "seq": 12}).ready("cpu")) == float("inf")


def test_decoding_does_the_same_work_every_time() -> None:
    ready = make("decode", {**TINY, "context": 20}).ready("cpu")
    first = ready.run().clone()
    assert torch.equal(first, ready.run())


def test_cold_products_take_turns_among_operands(monkeypatch: pytest.MonkeyPatch) -> None:
    ready = make("matmul", {"m": 64, "n": 64, "k": 64, "dtype": "fp32", "cache": "cold"}).ready("cpu")
    assert not torch.equal(ready.run(), ready.run())


@pytest.mark.parametrize("kind", ["forward", "training"])
def test_a_model_is_taken_apart(kind: str) -> None:
    ready = make(kind, {**TINY, "seq": 64, "batch": 2}).ready("cpu")
    assert ready.components is not None
    found = ready.components()
    usual = {"attention", "mlp", "norm", "lm_head", "embedding", "other"}
    assert usual <= set(found) <= usual | {"loss", "optimizer"}
    assert ("optimizer" in found and "loss" in found) == (kind == "training")
    assert all(seconds > 0 for seconds in found.values())
