"""What kernels made for recurrences keep, against sums of what their sources hand to `save_for_backward`: mamba-ssm
2.3.2 (with causal-conv1d), flash-linear-attention 0.5.2."""

from __future__ import annotations

import pytest

from calc.errors import Refused
from calc.quantities.saved_tensors import saved_tensors
from calc.spec import DeltaNet, GatedConvolution, Kda, LayerGroup, Mamba, Mamba2, ModelSpec, Node, Rwkv7
from calc.spec.load import Load
from calc.trace.settings import Settings

SEQ, WIDTH, TOKENS = 128, 64, 2 * 128
HEADS, KEY, VALUE, CHUNK = 4, 6, 5, 64


def kept(mixer: Node, execution: str = "compiled") -> int:
    """Bytes that a layer of that mixer alone keeps, its norm ahead of it left out."""
    spec = ModelSpec(d_model=WIDTH, vocab_size=31, layers=(LayerGroup(count=1, mixer=mixer),))  # type: ignore[arg-type]
    settings = Settings(execution)  # type: ignore[arg-type]
    found = saved_tensors(spec, Load(batch=2, seq=SEQ), settings).everything()
    inside = f".{mixer.kind}."  # type: ignore[attr-defined]
    return sum(int(count * saved.tensor.bytes) for count, saved in found if inside in f"{saved.op}.")


@pytest.mark.parametrize(("n_heads", "d_head", "d_state", "n_groups"), [(4, 6, 5, 2), (8, 16, 32, 1)])
def test_mamba2_keeps_its_projection_and_results_but_no_states(
    n_heads: int, d_head: int, d_state: int, n_groups: int
) -> None:
    inner = n_heads * d_head
    projection = 2 * inner + 2 * n_groups * d_state + n_heads  # zxbcdt
    # The input of the projection, zxbcdt, the scan's result, and the inputs of the norm and of the last projection.
    numbers = TOKENS * (WIDTH + projection + 3 * inner)
    decays = 2 * n_heads  # exp(A_log), which its own derivative reads, and A
    factors = TOKENS * n_groups
    mixer = Mamba2(n_heads=n_heads, d_head=d_head, d_state=d_state, n_groups=n_groups)
    assert kept(mixer) == 2 * numbers + 4 * (decays + factors)


def test_the_delta_rule_keeps_units_values_and_inverses() -> None:
    rows = TOKENS * HEADS
    mixed = TOKENS * (2 * 2 * KEY + HEADS * VALUE)
    # Inputs of the four projections, of the convolution, and of what makes rates and decays of projections.
    ahead = TOKENS * WIDTH + mixed + 2 * rows
    rule = rows * (2 * KEY + VALUE + 1 + CHUNK)  # q, k, v, beta, A
    wide = rows * (2 + 1) + HEADS  # q_rstd, k_rstd, g, exp(A_log)
    # The norm's input with a factor each head, the gate and what it multiplies, the last projection's input.
    behind = 4 * rows * VALUE
    found = kept(DeltaNet(n_key_heads=2, n_value_heads=HEADS, d_key=KEY, d_value=VALUE))
    assert found == 2 * (ahead + rule + behind) + 4 * (wide + rows)


def test_kimis_rule_keeps_decays_of_every_channel() -> None:
    rows, width = TOKENS * HEADS, TOKENS * HEADS * KEY
    # Two bottlenecks of a head's width, the convolution's input, and the projections of decays and rates.
    ahead = TOKENS * (WIDTH + 2 * KEY) + 3 * width + width + rows
    rule = 3 * width + rows + 2 * rows * CHUNK  # q, k, v, beta, Aqk and Akk
    wide = 2 * rows + 2 * width + HEADS  # q_rstd, k_rstd, g as it is read and its sums, exp(A_log)
    found = kept(Kda(n_heads=HEADS, d_head=KEY))
    assert found == 2 * (ahead + rule + 4 * width) + 4 * (wide + rows)


@pytest.mark.parametrize("mixer", [Mamba2(n_heads=4, d_head=6, d_state=5), Kda(n_heads=HEADS, d_head=KEY)])
def test_a_kernel_keeps_less_than_what_is_written_out(mixer: Node) -> None:
    assert kept(mixer) < kept(mixer, "sdpa") / 2


def test_a_gated_convolution_keeps_what_its_parts_read() -> None:
    # The input of the first projection, its three parts, the convolution's input and result, the last projection's.
    assert kept(GatedConvolution()) == 2 * TOKENS * (WIDTH + 3 * WIDTH + 3 * WIDTH)


@pytest.mark.parametrize("mixer", [Mamba(), Rwkv7(n_heads=4, d_head=16, decay_rank=4, rate_rank=4, gate_rank=4)])
def test_what_no_kernel_is_known_of_is_refused(mixer: Node) -> None:
    with pytest.raises(Refused, match="eager or sdpa"):
        kept(mixer)
