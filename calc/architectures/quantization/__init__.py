"""`quantization_config` of a config.json: how the checkpoint beside it is packed. One module a kind of methods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calc.architectures.config import Config
from calc.architectures.quantization import compressed_tensors, floats, integers
from calc.errors import Refused, show
from calc.spec.shipped import Shipped

METHODS: dict[str, Callable[[Config, int], Shipped]] = {
    "gptq": integers.gptq,
    "awq": integers.awq,
    "bitsandbytes": integers.bitsandbytes,
    "hqq": integers.hqq,
    "quanto": integers.quanto,
    "torchao": integers.torchao,
    "bitnet": integers.bitnet,
    "eetq": integers.eetq,
    "fp8": floats.fp8,
    "mxfp8": floats.mxfp8,
    "fbgemm_fp8": floats.fbgemm_fp8,
    "mxfp4": floats.mxfp4,
    "nvfp4": floats.nvfp4,
    "compressed-tensors": compressed_tensors.compressed_tensors,
}
"""`quant_method` -> what reads the rest."""
WIDTHS = {"bfloat16": 16, "float16": 16, "float32": 32}


def shipped(cfg: Config) -> Shipped | None:
    """How the checkpoint of this config is packed; None where it is not, or where that is not read, with a note.

    The section stands in the config or in that of its language model. Nothing else of a model depends on it.
    """
    for each in (cfg, cfg.section("text_config", absent=None, null=None)):
        raw: Any = None if each is None else each.raw.get("quantization_config")
        if each is None or raw is None:
            continue
        try:
            return _read(each, raw)
        except Refused as error:
            cfg.notes.append(f"what the checkpoint weighs is not known: {error}")
            return None
    return None


def _read(cfg: Config, raw: Any) -> Shipped:
    if not isinstance(raw, dict):
        raise Refused(f"{cfg.where}quantization_config", "an object", raw)
    # DeepSeek-V4 names the format of its experts beside the section.
    own = {key: cfg.raw[key] for key in ("expert_dtype",) if key in cfg.raw}
    section = Config(own | raw, f"{cfg.where}quantization_config.")
    # bitsandbytes' first configs name no method.
    method = raw.get("quant_method", "bitsandbytes" if "load_in_4bit" in raw or "load_in_8bit" in raw else None)
    if not isinstance(method, str) or method not in METHODS:
        raise Refused(f"{section.where}quant_method", f"one of {', '.join(METHODS)}", show(method))
    return METHODS[method](section, _rest(cfg))


def _rest(cfg: Config) -> int:
    """Bits of a number that is not packed, as the config's `dtype` says; 16 where it says nothing."""
    key = "dtype" if "dtype" in cfg.raw else "torch_dtype"
    return Config(cfg.raw, cfg.where).choice(key, among=WIDTHS, absent=16, null=16)
