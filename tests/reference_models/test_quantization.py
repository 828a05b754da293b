"""Quantized layers: their bytes, how near they come, and GPTQ against plain rounding."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

import calc  # noqa: E402
from calc.quantities.flops import forward, training  # noqa: E402
from calc.spec import (  # noqa: E402
    Bottleneck,
    CompressedAttention,
    Compressor,
    EntryIndexer,
    Lora,
    Mlp,
    ModelSpec,
    Moe,
    Shorthand,
)
from calc.spec.load import Load  # noqa: E402
from harness.counter import count  # noqa: E402
from reference_models import build  # noqa: E402
from reference_models.adapters import adapt, merge  # noqa: E402
from reference_models.blocks.quantized import Grid, QuantizedLinear, pack, unpack  # noqa: E402
from reference_models.quantization import gptq, quantize, round_to_nearest, weight_bytes  # noqa: E402

GRIDS = {
    "int8:row": Grid(8, None),
    "int8:g16": Grid(8, 16),
    "int4:g16": Grid(4, 16),
    "int4:g20:zero": Grid(4, 20, zero=True),
    "int8:g32:zero:scale=fp32": Grid(8, 32, zero=True, scale=torch.float32),
}
"""As `calc` writes them, and as the modules take them."""
SPEC = Shorthand(d_model=36, n_layers=2, n_heads=4, n_kv_heads=1, d_ff=50, vocab_size=31, max_seq_len=64).expand()


def sparse() -> ModelSpec:
    """A mixture of experts behind the attention of `SPEC`."""
    moe = Moe(n_experts=3, top_k=2, d_expert=21, d_shared=11)
    return SPEC.model_copy(update={"layers": (SPEC.layers[0].model_copy(update={"channel": moe}),)})


def compressed() -> ModelSpec:
    """Attention whose results are projected in groups, and whose entries an indexer chooses."""
    indexer = EntryIndexer(n_heads=3, d_head=16, top_k=2)
    mixer = CompressedAttention(
        n_heads=4,
        d_head=10,
        q_rank=14,
        window=3,
        n_out_groups=2,
        out_rank=9,
        compressor=Compressor(rate=2, indexer=indexer),
    )
    return SPEC.model_copy(update={"layers": (SPEC.layers[0].model_copy(update={"mixer": mixer}),)})


@pytest.mark.parametrize("name", GRIDS)
@pytest.mark.parametrize("spec", [SPEC, sparse(), compressed()], ids=["dense", "sparse", "compressed"])
def test_bytes_are_the_predicted_ones(name: str, spec: ModelSpec) -> None:
    model = quantize(build(spec, dtype=torch.bfloat16), GRIDS[name])
    assert weight_bytes(model) == calc.estimate(spec, "weights", dtype=name).value
    assert model(torch.randint(31, (1, 5))).logits.isfinite().all()


@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)
def test_rounding_is_off_by_half_a_step_at_most(grid: Grid) -> None:
    torch.manual_seed(0)
    linear = nn.Linear(50, 7, dtype=torch.float64)
    made = round_to_nearest(linear, grid)
    of = torch.arange(50) // (grid.group or 50)
    step = made.scales.double()[:, of]
    # A scale rounded down to 16 bits may cut the largest weight of a group off, by a little.
    assert ((made.matrix(torch.float64) - linear.weight).abs() <= step * (0.5 + 2**-11 * 2**grid.bits)).all()
    x = torch.randn(3, 50, dtype=torch.float64)
    assert torch.equal(made(x), nn.functional.linear(x, made.matrix(torch.float64), linear.bias))


def test_codes_survive_packing() -> None:
    for bits, n in ((4, 7), (4, 8), (8, 5)):
        codes = torch.randint(2**bits, (n,))
        packed = pack(codes, bits)
        assert len(packed) == -(-n * bits // 8)
        assert torch.equal(unpack(packed, bits, n).long(), codes)


def correlated(n: int, width: int) -> Tensor:
    """Inputs whose values go together, as those of real layers do."""
    mix = torch.randn(width // 4, width, dtype=torch.float64)
    return torch.randn(n, width // 4, dtype=torch.float64) @ mix + 0.1 * torch.randn(n, width, dtype=torch.float64)


@pytest.mark.parametrize("grid", GRIDS.values(), ids=GRIDS)
@pytest.mark.parametrize("seed", range(3))
def test_gptq_is_nearer_than_rounding(grid: Grid, seed: int) -> None:
    """On the calibration set and on inputs of the same kind that it has not seen."""
    torch.manual_seed(seed)
    linear, x = nn.Linear(64, 24, dtype=torch.float64), correlated(512, 64)
    seen, unseen = x[:384], x[384:]
    made = gptq(linear, seen.T @ seen, grid), round_to_nearest(linear, grid)
    for inputs in (seen, unseen):
        careful, plain = ((each(inputs) - linear(inputs)).square().mean() for each in made)
        assert careful < 0.7 * plain


def test_gptq_without_correlation_is_rounding() -> None:
    """Inputs that have nothing to do with one another, some of them always 0, leave nothing to make up for."""
    torch.manual_seed(0)
    linear, grid = nn.Linear(32, 8), Grid(4, 16)
    gram = torch.eye(32)
    gram[5, 5] = 0
    assert torch.equal(gptq(linear, gram, grid).codes, round_to_nearest(linear, grid).codes)
    assert torch.equal(gptq(linear, 0 * gram, grid).codes, round_to_nearest(linear, grid).codes)


def test_a_whole_model_calibrated() -> None:
    torch.manual_seed(0)
    spec = SPEC.model_copy(update={"layers": (SPEC.layers[0].model_copy(update={"channel": Mlp(gated=True)}),)})
    model, tokens = build(spec, dtype=torch.float64), torch.randint(31, (8, 32))
    state, before = model.state_dict(), model(tokens).logits
    errors = []
    for calibration in ({"inputs": tokens}, None):
        fresh = build(spec, dtype=torch.float64)
        fresh.load_state_dict(state)
        quantize(fresh, Grid(4, 18), calibration)
        assert isinstance(fresh.layers[0].attention.q_proj, QuantizedLinear)
        errors.append((fresh(tokens).logits - before).square().mean())
    assert errors[0] < errors[1]


UPDATES = Lora(rank=3, targets=("q_proj", "v_proj", "down_proj"), alpha=6.0)


@pytest.mark.parametrize("name", GRIDS)
@pytest.mark.parametrize("spec", [SPEC, sparse()], ids=["dense", "sparse"])
def test_low_rank_updates_of_codes(name: str, spec: ModelSpec) -> None:
    """QLoRA: bytes, what is trained, and FLOPs are those that are predicted; only A and B get a gradient."""
    described = spec.model_copy(update={"adapter": UPDATES})
    model = adapt(quantize(build(spec, dtype=torch.bfloat16), GRIDS[name]), UPDATES)
    assert weight_bytes(model) == calc.estimate(described, "weights", dtype=name).value
    trained = [name for name, weight in model.named_parameters() if weight.requires_grad]
    assert trained
    assert all(".lora_" in name for name in trained)
    parameters = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    assert parameters == calc.estimate(described, "params.trainable").value
    tokens, load = torch.randint(31, (2, 7)), Load(batch=2, seq=7)
    assert count(lambda: model(tokens)) == forward(described, load).total
    assert count(lambda: model(tokens).logits.sum().backward()) == training(described, load).total
    assert all(weight.requires_grad for weight in model.parameters() if weight.grad is not None)


def test_updates_of_codes_are_merged_into_plain_matrices_alone() -> None:
    torch.manual_seed(0)
    model, tokens = quantize(build(SPEC, dtype=torch.float64), Grid(4, 18)), torch.randint(31, (2, 9))
    before = model(tokens).logits
    adapt(model, UPDATES)
    assert torch.equal(model(tokens).logits, before)
    for name, weight in model.named_parameters():
        if ".lora_" in name:
            nn.init.normal_(weight, std=0.1)
    trained = model(tokens).logits
    assert not torch.allclose(trained, before)
    with pytest.raises(ValueError, match="dequantize=True"):
        merge(model)
    torch.testing.assert_close(model(tokens).logits, trained, rtol=0, atol=0)
    torch.testing.assert_close(merge(model, dequantize=True)(tokens).logits, trained)
    assert isinstance(model.layers[0].attention.q_proj, nn.Linear)
    assert isinstance(model.layers[0].attention.k_proj, QuantizedLinear)


@pytest.mark.parametrize("adapter", [UPDATES, Bottleneck(width=3)])
def test_adapters_are_not_quantized(adapter: Lora | Bottleneck) -> None:
    with pytest.raises(ValueError, match="without adapters"):
        quantize(adapt(build(SPEC), adapter), Grid())
