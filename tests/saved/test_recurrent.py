"""What mixers with a state keep, to the byte: one chunk and several, whole ones and a rest, heads alone, adapters."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from calc.architectures import from_config  # noqa: E402
from calc.errors import Refused  # noqa: E402
from calc.quantities.saved_tensors import saved_tensors  # noqa: E402
from calc.spec import (  # noqa: E402
    DeltaNet,
    GatedConvolution,
    Kda,
    LayerGroup,
    LinearAttention,
    Lora,
    Mamba,
    Mamba2,
    Mlp,
    ModelSpec,
    Node,
    Norm,
    RgLru,
    Rwkv4,
    Rwkv7,
)
from calc.spec.load import Load  # noqa: E402
from calc.trace.settings import Settings  # noqa: E402
from reference_models.adapters import adapt  # noqa: E402
from tests.architectures.cases_recurrent import RECURRENT  # noqa: E402
from tests.saved.test_readings import agree  # noqa: E402
from tests.saved.test_twins import CONFIGS, MODES, SEQ, Mode, check, measured, size, twin  # noqa: E402

DELTA: dict[str, Any] = {"d_key": 6, "d_value": 5}
ONCE = (
    Mamba(d_inner=20, d_state=5, dt_rank=3),
    Mamba(d_conv=1, bias=True, conv_bias=False, inner_norm=Norm(kind="layernorm")),
    LinearAttention(n_heads=4, causal=False),
    LinearAttention(n_heads=4, causal=False, norm=Norm(), fused=True, gate=True),
)
CHUNKED = (
    Mamba2(n_heads=4, d_head=6, d_state=5, n_groups=2),
    Mamba2(n_heads=1, d_head=6, d_state=5, norm=Norm(affine=False), dt_max=0.3),
    DeltaNet(n_key_heads=2, n_value_heads=4, **DELTA),
    DeltaNet(n_key_heads=1, n_value_heads=1, fused=True, double_rate=True, **DELTA),
    LinearAttention(n_heads=1, d_head=8),
    LinearAttention(n_heads=4, d_head=6, fused=True, feature_map="silu", decay=True, norm=Norm(), gate=True),
    Kda(n_heads=3, d_head=5),
    Mamba2(n_heads=4, d_head=6, d_state=5, norm=None),
    Mamba2(n_heads=4, d_head=6, d_state=5, n_groups=2, gate="after", scales=(0.5, 1.0, 1.0, 2.0, 1.0)),
)
MEAN = Rwkv4(d_inner=20)
RECURRENCE = RgLru(d_inner=20, n_blocks=5)
CONVOLVED = GatedConvolution(bias=True)
NEWEST = ("falcon_h1", "kimi_linear", "recurrent_gemma", "rwkv", "rwkv7", "zamba2")
MIXERS = (
    *ONCE,
    *(mixer.model_copy(update={"chunk": n}) for n in (5, 8) for mixer in CHUNKED),
    CONVOLVED,
    MEAN,
    RECURRENCE,
)


def of(mixer: Any) -> ModelSpec:
    """A small model of three layers."""
    return ModelSpec(d_model=16, vocab_size=31, layers=(LayerGroup(count=3, mixer=mixer),))


@pytest.mark.parametrize("mixer", MIXERS, ids=lambda mixer: f"{mixer.kind}-{getattr(mixer, 'chunk', '')}")
def test_every_mixer(mixer: Node) -> None:
    for mode in MODES:
        check(of(mixer), mode)


def rwkv7(chunk: int) -> ModelSpec:
    """The layer whose values all later ones take, and two of those."""
    sizes: dict[str, Any] = {"n_heads": 3, "d_head": 5, "decay_rank": 4, "rate_rank": 3, "gate_rank": 2, "chunk": chunk}
    channel, norm = Mlp(d_ff=20, activation="relu2", shift=True), Norm(kind="layernorm", bias=True)
    layers = tuple(
        LayerGroup(name=name, count=n, mixer=Rwkv7(value_rank=rank, **sizes), channel=channel, norm=norm)
        for name, n, rank in (("first", 1, None), ("later", 2, 4))
    )
    return ModelSpec(d_model=16, vocab_size=31, layers=layers)


@pytest.mark.parametrize("chunk", [1, 5, 8])
def test_values_that_the_first_layer_lends(chunk: int) -> None:
    for mode in MODES:
        check(rwkv7(chunk), mode)


@pytest.mark.parametrize("name", ["k_proj", "v_proj", "decay_down", "rate_up", "value_down", "gate_up", "up_proj"])
@pytest.mark.parametrize("mode", [Mode(), Mode("sdpa", "bf16"), Mode("sdpa", autocast=True)], ids=str)
def test_low_rank_updates_beside_lent_values(name: str, mode: Mode) -> None:
    lora = Lora(rank=2, targets=(name,))
    found = measured(adapt(twin(rwkv7(8), mode), lora), mode)
    adapted = rwkv7(8).model_copy(update={"adapter": lora})
    written = saved_tensors(adapted, Load(batch=mode.batch, seq=SEQ), mode.settings())
    assert found.total == sum(count * each.tensor.bytes for count, each in written.everything())


@pytest.mark.parametrize(
    ("mixer", "name"),
    [
        *((ONCE[0], name) for name in ("in_proj", "x_proj", "dt_proj", "out_proj")),
        *((CONVOLVED, name) for name in ("in_proj", "out_proj")),
        *((MEAN, name) for name in ("k_proj", "v_proj", "r_proj", "o_proj")),
        *((RECURRENCE, name) for name in ("x_proj", "y_proj", "o_proj")),
        *((MIXERS[4], name) for name in ("in_proj", "out_proj")),
        *((MIXERS[6], name) for name in ("qkv_proj", "z_proj", "a_proj", "b_proj", "out_proj")),
        *((MIXERS[8], name) for name in ("q_proj", "k_proj", "v_proj", "o_proj")),
        *((MIXERS[10], name) for name in ("v_proj", "b_proj", "f_a_proj", "g_b_proj", "o_proj")),
    ],
)
@pytest.mark.parametrize("mode", [Mode(), Mode("sdpa", "bf16"), Mode("sdpa", autocast=True)], ids=str)
def test_low_rank_updates_of_frozen_weights(mixer: Node, name: str, mode: Mode) -> None:
    """The first layer, whose input needs no gradient, and the others."""
    found = measured(adapt(twin(of(mixer), mode), Lora(rank=2, targets=(name,))), mode)
    adapted = of(mixer).model_copy(update={"adapter": Lora(rank=2, targets=(name,))})
    layers = saved_tensors(adapted, Load(batch=mode.batch, seq=SEQ), mode.settings()).layers.values()
    assert [found.within(f"layers.{i}") for i in range(2)] == [size(each.saved) for each in layers]


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["mamba", "mamba2", "qwen3_5_text", "qwen4_exp_text", "nemotron_h", "minimax", "lfm2", "deepseek_v4", *NEWEST],
)
@pytest.mark.parametrize("how", [Settings(), Settings("sdpa", autocast=True)], ids=lambda how: how.execution)
@pytest.mark.parametrize("seq", [24, 64, 77])
def test_three_readings_agree(name: str, how: Settings, seq: int) -> None:
    config = RECURRENT[name][0] if name in RECURRENT else CONFIGS[name]
    agree(from_config({"model_type": name, **config}), how, seq)


@pytest.mark.parametrize("mixer", [ONCE[0], ONCE[2]], ids=lambda mixer: mixer.kind)
def test_kernels_that_are_not_described_are_refused(mixer: Node) -> None:
    with pytest.raises(Refused, match="of which it is known what"):
        saved_tensors(of(mixer), Load(batch=1, seq=SEQ), Settings("compiled"))
