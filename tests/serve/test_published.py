"""A checkpoint's own format is named where another is served, and what is named weighs what the checkpoint does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from calc.architectures.models import load_model, preset_names
from calc.quantities.shipped import shipped_bytes
from calc.serve.layout import layout_of
from calc.serve.published import published_format, unlike_checkpoint
from calc.serve.service import service_of

LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm", "zero_point": True}
GPTQ = {"quant_method": "gptq", "bits": 8, "group_size": 32}
FOUR = {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}


def config(folder: Path, **quantization: object) -> str:
    file = folder / "config.json"
    file.write_text(json.dumps(LLAMA | {"quantization_config": quantization}))
    return str(file)


@pytest.mark.parametrize(("quantization", "dtype"), [(AWQ, "int4:g128"), (GPTQ, "int8:g32"), (FOUR, None)])
def test_the_format_of_a_config_is_named(tmp_path: Path, quantization: dict[str, object], dtype: str | None) -> None:
    spec = load_model(config(tmp_path, **quantization))
    said = unlike_checkpoint(spec, ["bf16"])
    assert said is not None
    assert f"({quantization['quant_method']}), and not in bf16 as asked: " in said
    assert said.endswith(f": it is --dtype {dtype} here" if dtype else ": --dtype has no name for it")
    if dtype:
        assert unlike_checkpoint(spec, ["bf16", dtype]) is None


@pytest.mark.parametrize("name", [name for name in preset_names() if load_model(name).shipped])
def test_the_format_that_is_named_weighs_what_the_checkpoint_does(name: str) -> None:
    """Within a tenth: what is left in 16 bits, and heads for several tokens ahead, are not the same to the byte."""
    spec = load_model(name)
    assert spec.shipped is not None
    dtype = published_format(spec.shipped)
    if dtype is None:
        assert spec.shipped.rules[0].packed.name not in ("fp8", "mxfp4")
        return
    held = service_of(spec, "b300", layout_of(spec), dtype=dtype).rank.held
    assert held == pytest.approx(sum(shipped_bytes(spec).values()), rel=0.1)


def test_files_that_are_made_of_any_checkpoint_and_plain_ones_are_not_noted() -> None:
    assert unlike_checkpoint(load_model("gpt-oss-20b"), ["gguf-mxfp4"]) is None
    assert unlike_checkpoint(load_model("llama-3-8b"), ["fp8"]) is None
