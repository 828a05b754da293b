"""Checkpoints in whole numbers: GPTQ, AWQ, bitsandbytes, HQQ, quanto, torchao, EETQ, BitNet."""

from __future__ import annotations

from typing import Any

from calc.architectures.config import Config
from calc.architectures.quantization.common import bits, group, names, whole
from calc.errors import Refused, show
from calc.spec.shipped import Packed, Shipped


def gptq(cfg: Config, rest: int) -> Shipped:
    """qweight and qzeros in words of 32 bits, scales in fp16, and a group's number for each input (AutoGPTQ's
    QuantLinear; Frantar et al. 2022, arXiv:2210.17323)."""
    if names(cfg, "modules_in_block_to_quantize") or cfg.raw.get("modules_in_block_to_quantize"):
        raise Refused(f"{cfg.where}modules_in_block_to_quantize", "null (all matrices of a layer)", "some")
    width = bits(cfg, "bits", 2, 3, 4, 8, absent=4)
    packed = Packed(
        name=f"int{width}",
        bits=width,
        word=32,
        crossing=True,
        block_columns=group(cfg, "group_size", absent=128),
        scale_bits=16,
        zeros="packed",
        column_bits=32,
    )
    return whole(cfg, "gptq", packed, rest, head=cfg.flag("lm_head", absent=False, null=False))


def awq(cfg: Config, rest: int) -> Shipped:
    """qweight and qzeros packed along the outputs, scales in fp16 (AutoAWQ's WQLinear_GEMM; Lin et al. 2023,
    arXiv:2306.00978)."""
    cfg.only("version", "gemm", "GEMM", why="the layout that AutoAWQ writes unless told otherwise")
    cfg.only("format", "gemm", None, why="as above")
    cfg.only("zero_point", True, why="its kernels read zero points")
    packed = Packed(
        name="int4",
        bits=bits(cfg, "bits", 4, absent=4),
        word=32,
        along="rows",
        block_columns=group(cfg, "group_size", absent=128),
        scale_bits=16,
        zeros="packed",
    )
    return whole(cfg, "awq", packed, rest)


def bitsandbytes(cfg: Config, rest: int) -> Shipped:
    """4 bits: 64 neighbours share a number, in fp32 or, quantized twice, in 8 bits of which 256 share one (Dettmers et
    al. 2023, arXiv:2305.14314, section 3), beside a table of 16 values, and of 256 for numbers quantized twice. 8 bits:
    a scale in fp32 a row, and a byte for the layout. The few bytes of JSON beside a matrix are not counted."""
    key = "llm_int8_skip_modules"
    if cfg.flag("load_in_4bit", absent=False):
        kind = cfg.choice("bnb_4bit_quant_type", among={"nf4": "nf4", "fp4": "fp4"}, absent="fp4")
        cfg.only("bnb_4bit_quant_storage", "uint8", why="elements packed in bytes")
        twice = cfg.flag("bnb_4bit_use_double_quant", absent=False)
        table = 4 * (16 + 256) if twice else 4 * 16
        scale_bits, nested = (8, 256) if twice else (32, None)
        packed = Packed(name=kind, bits=4, along="flat", flat=64, scale_bits=scale_bits, nested=nested, fixed=table)
        return whole(cfg, "bitsandbytes", packed, rest, key=key)
    if not cfg.flag("load_in_8bit", absent=False):
        raise Refused(f"{cfg.where}load_in_4bit", "true, or load_in_8bit", False)
    return whole(cfg, "bitsandbytes", Packed(name="int8", bits=8, scale_bits=32, fixed=1), rest, key=key)


def hqq(cfg: Config, rest: int) -> Shipped:
    """Groups along a row with a scale and a zero point in the model's format; 3-bit elements lie ten in a word of 32
    bits (Badri & Shaji 2023, Half-Quadratic Quantization; hqq/core/bitpack.py)."""
    section = cfg.section("quant_config")
    inner = section.section("weight_quant_params") if "weight_quant_params" in section.raw else section
    for nested in ("scale_quant_params", "zero_quant_params"):
        section.only(nested, None, why="scales that are quantized themselves are not described")
    width = bits(inner, "nbits", 1, 2, 3, 4, 8, absent=4)
    packed = Packed(
        name=f"int{width}",
        bits=width,
        word=32 if width == 3 else 8,
        along="flat",
        flat=inner.size("group_size", absent=64),
        scale_bits=rest,
        zeros="plain",
    )
    return whole(cfg, "hqq", packed, rest, key="skip_modules")


def quanto(cfg: Config, rest: int) -> Shipped:
    """8 bits: a scale a row. 4 and 2 bits: a scale and a shift for each group of 128 along a row (optimum-quanto,
    tensor/qtype.py and tensor/weights)."""
    cfg.only("activations", None, why="numbers for activations are not described")
    kind = cfg.choice("weights", among={"int8": 8, "float8": 8, "int4": 4, "int2": 2}, absent=8)
    if kind == 8:
        name = "fp8" if cfg.raw.get("weights") == "float8" else "int8"
        return whole(cfg, "quanto", Packed(name=name, bits=8, scale_bits=rest), rest)
    packed = Packed(name=f"int{kind}", bits=kind, along="flat", block_columns=128, scale_bits=rest, zeros="plain")
    return whole(cfg, "quanto", packed, rest)


TORCHAO: dict[str, tuple[str, int]] = {
    "Int4WeightOnlyConfig": ("int4", 128),
    "Int8WeightOnlyConfig": ("int8", 0),
    "Int8DynamicActivationInt8WeightConfig": ("int8", 0),
    "Float8WeightOnlyConfig": ("fp8", 0),
    "Float8DynamicActivationFloat8WeightConfig": ("fp8", 0),
}
"""A config of torchao -> the format, and the usual length of a group, 0 for a whole row."""


def torchao(cfg: Config, rest: int) -> Shipped:
    """4 bits: a scale and a zero point in bf16 a group. 8 bits: a scale a row, of fp8 in fp32 (torchao, quantization/
    quant_api.py and dtypes)."""
    cfg.only("include_input_output_embeddings", False, None, why="tables that are packed too are not described")
    kind: Any = cfg.section("quant_type").section("default")
    name, usual = kind.choice("_type", among=TORCHAO)
    data = kind.section("_data", absent=None, null=None) or Config({}, kind.where)
    data.only("granularity", None, why="one scale a row")
    if name == "int4":
        length = group(data, "group_size", absent=usual)
        packed = Packed(name=name, bits=4, block_columns=length, scale_bits=16, zeros="plain")
    else:
        if data.raw.get("group_size") is not None:
            raise Refused(f"{data.where}group_size", "null", show(data.raw["group_size"]))
        packed = Packed(name=name, bits=8, scale_bits=32 if name == "fp8" else rest)
    return whole(cfg, "torchao", packed, rest)


def bitnet(cfg: Config, rest: int) -> Shipped:
    """Four elements of -1, 0 and 1 a byte, down the rows, and one scale (Wang et al. 2023, arXiv:2310.11453;
    transformers 5.23, integrations/bitnet.py)."""
    cfg.only("linear_class", "autobitlinear", "bitlinear", None, why="the two classes that transformers has")
    if cfg.raw.get("quantization_mode") == "online":
        raise Refused(f"{cfg.where}quantization_mode", "offline, since weights are not packed online", "online")
    packed = Packed(name="ternary", bits=2, along="rows", block_rows=None, scale_bits=rest)
    return whole(cfg, "bitnet", packed, rest)


def eetq(cfg: Config, rest: int) -> Shipped:
    """8 bits and a scale in fp16 a row."""
    return whole(cfg, "eetq", Packed(name="int8", bits=8, scale_bits=16), rest)
