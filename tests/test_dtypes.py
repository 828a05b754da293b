"""Number formats: what they say, and the bytes of weights in them."""

from __future__ import annotations

import numpy
import pytest

import calc
from calc.dtypes import BY_NAME, Dtype, Quantized, weight_dtype
from calc.errors import Refused
from calc.quantities.parameters import weights
from calc.quantities.weights import quantizes
from calc.spec import Lora, Shorthand
from calc.spec.resizing import with_sizes

TINY = Shorthand(d_model=24, n_layers=3, n_heads=4, n_kv_heads=1, d_ff=50, vocab_size=31, max_seq_len=64).expand()
READ = {
    "int4:g128": Quantized("int4:g128", "int4", 128),
    "int8:row": Quantized("int8:row", "int8", None),
    "nf4:g64:scale=fp32:rest=fp16": Quantized("nf4:g64:scale=fp32:rest=fp16", "nf4", 64, "fp32", rest="fp16"),
    "int4:g32:zero:scale=fp8": Quantized("int4:g32:zero:scale=fp8", "int4", 32, "fp8", zero=True),
}


@pytest.mark.parametrize("name", READ)
def test_reading(name: str) -> None:
    assert weight_dtype(name) == READ[name]


def test_plain_formats_are_as_they_were() -> None:
    for name, kind in BY_NAME.items():
        assert weight_dtype(name) is kind
        assert isinstance(kind, Dtype)
    assert calc.estimate(TINY, "weights", dtype="bf16").value == 2 * calc.estimate(TINY, "params").value


@pytest.mark.parametrize(
    "name",
    [
        "int3:g8",
        "int4:g0",
        "int4:",
        "int4:128",
        "nf4:g64:zero",
        "int4:g8:scale=int8",
        "int4:g8:rest=int4",
        "nf4",
        4,
        None,
    ],
)
def test_refusals(name: object) -> None:
    with pytest.raises(Refused, match="dtype"):
        calc.estimate(TINY, "weights", dtype=name)


def test_caches_are_not_kept_in_them() -> None:
    with pytest.raises(Refused, match="dtype"):
        calc.estimate(TINY, "kv_cache", dtype="int4:g128")


@pytest.mark.parametrize(
    ("name", "bytes_of"),
    [
        ("int4:g16", lambda out, width: -(-out * width // 2) + 2 * out * -(-width // 16)),
        (
            "int4:g7:zero",
            lambda out, width: -(-out * width // 2) + -(-out * -(-width // 7) // 2) + 2 * out * -(-width // 7),
        ),
        ("int8:row:scale=fp32", lambda out, width: out * width + 4 * out),
    ],
)
def test_every_matrix_by_hand(name: str, bytes_of: object) -> None:
    d, kv, ff = 24, 6, 50
    matrices = [(d, d), (kv, d), (kv, d), (d, d), (ff, d), (d, ff)]
    rest = calc.estimate(TINY, "params").value - 3 * sum(out * width for out, width in matrices)
    assert calc.estimate(TINY, "weights", dtype=name).value == 3 * sum(bytes_of(*m) for m in matrices) + 2 * rest
    formula = calc.explain(TINY, "weights", dtype=name)
    assert formula.formula.subs(formula.values) == formula.estimate.value
    swept = calc.estimate(with_sizes(TINY, {"d_ff": numpy.array([50.0, 50.0])}), "weights", dtype=name).value
    assert list(swept) == [formula.estimate.value] * 2


def test_which_tensors_are_quantized() -> None:
    """Neither tables nor heads, norms, biases, routers or adapters."""
    spec = calc.load_model("mixtral-8x7b").model_copy(update={"adapter": Lora(rank=2)})
    found = {path.split(".")[-2] for path, weight, leaf in weights(spec) if quantizes(weight, leaf)}
    assert found == {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}


def test_llama_as_published() -> None:
    """GPTQ checkpoints of Llama 3 8B with groups of 128 take 5.7 GB, head and table in 16 bits."""
    value = calc.estimate(calc.load_model("llama-3-8b"), "weights", dtype="int4:g128:zero").value
    assert round(value / 1e9, 1) == 5.7
