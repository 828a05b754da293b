"""Checkpoints in formats of 8 and 4 bits with an exponent: fp8 whole or by block, MXFP8, MXFP4, NVFP4."""

from __future__ import annotations

from typing import Any

from calc.architectures.config import Config
from calc.architectures.quantization.common import whole
from calc.errors import Refused
from calc.spec.shipped import Packed, Rule, Shipped

MX = 32
"""Elements that share a scale of one byte (OCP Microscaling Formats 1.0, 2023, section 5)."""


def fp8(cfg: Config, rest: int) -> Shipped:
    """Scales in fp32, one a block or one a matrix (transformers 5.23, integrations/finegrained_fp8.py, FP8Linear). With
    an `expert_dtype` of fp4, routed experts have two elements a byte and a byte for 32 of them (DeepSeek-V4)."""
    block = cfg.numbers("weight_block_size", length=2, absent=(128, 128), null=None)
    if block is not None and 0 in block:
        raise Refused(f"{cfg.where}weight_block_size", "numbers above 0", 0)
    fixed = 4 if cfg.choice("activation_scheme", among={"dynamic": 0, "static": 1}, absent=0, null=0) else 0
    # A format of the scales that is one byte is what transformers computes with; published files hold fp32.
    shape: dict[str, Any] = {"block_rows": block and block[0], "block_columns": block and block[1]}
    packed = Packed(name="fp8", bits=8, scale_bits=32, fixed=fixed, **shape)
    key = "modules_to_not_convert" if "modules_to_not_convert" in cfg.raw else "ignored_layers"
    made = whole(cfg, "fp8", packed, rest, key=key)
    if cfg.choice("expert_dtype", among={"fp8": False, "fp4": True}, absent=False, null=False):
        four = Packed(name="fp4", bits=4, scale_bits=8, block_columns=MX)
        return made.model_copy(update={"rules": (Rule(names=(r"re:.*\.mlp\.experts\..*",), packed=four), *made.rules)})
    return made


def mxfp8(cfg: Config, rest: int) -> Shipped:
    """Rows in groups of 32 with a power of two each."""
    return whole(cfg, "mxfp8", Packed(name="mxfp8", bits=8, scale_bits=8, block_columns=MX), rest)


def fbgemm_fp8(cfg: Config, rest: int) -> Shipped:
    """A scale in fp32 a row (transformers 5.23, integrations/fbgemm_fp8.py)."""
    return whole(cfg, "fbgemm_fp8", Packed(name="fp8", bits=8, scale_bits=32), rest)


def mxfp4(cfg: Config, rest: int) -> Shipped:
    """Routed experts alone, two elements a byte and a byte for 32 of them (gpt-oss: OpenAI 2025, arXiv:2508.10925,
    section 2.1). The list of modules that are left as they are names everything else."""
    packed = Packed(name="mxfp4", bits=4, scale_bits=8, block_columns=MX)
    return Shipped.model_validate(
        {"method": "mxfp4", "rules": (Rule(packed=packed),), "reach": "experts", "rest": rest}
    )


def nvfp4(cfg: Config, rest: int) -> Shipped:
    """Two elements a byte, a scale in fp8 for 16 of them and one in fp32 for the matrix."""
    return whole(cfg, "nvfp4", Packed(name="nvfp4", bits=4, scale_bits=8, block_columns=16, fixed=4), rest)
