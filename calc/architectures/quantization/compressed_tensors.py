"""compressed-tensors (Neural Magic 2024): groups of modules, each with a format of its own."""

from __future__ import annotations

from typing import Any

from calc.architectures.config import Config
from calc.architectures.quantization.common import names
from calc.errors import Refused
from calc.spec.shipped import Packed, Rule, Shipped

FORMATS = ("pack-quantized", "int-quantized", "float-quantized", "naive-quantized", "nvfp4-pack-quantized")
FORMATS_MX = ("mxfp4-pack-quantized",)


def compressed_tensors(cfg: Config, rest: int) -> Shipped:
    """As compressed-tensors 0.10 writes them: scales in the model's format, one a matrix, a row, a group or a block."""
    cfg.only("quantization_status", "compressed", "frozen", None, why="weights that are packed")
    outer = cfg.choice("format", among={name: name for name in (*FORMATS, *FORMATS_MX, "mixed-precision")})
    if cfg.raw.get("sparsity_config"):
        raise Refused(f"{cfg.where}sparsity_config", "an empty object, since sparse matrices are not described", "one")
    groups: Any = cfg.raw.get("config_groups")
    if not isinstance(groups, dict) or not groups or len(groups) > 64:
        raise Refused(f"{cfg.where}config_groups", "an object of groups", groups)
    where = cfg.section("config_groups")
    rules = tuple(_rule(where.section(name), outer, rest) for name in groups)
    skips = names(cfg, "ignore")
    return Shipped.model_validate(
        {"method": "compressed-tensors", "rules": rules, "skips": skips, "rest": rest, "reach": "head"}
    )


def _rule(cfg: Config, outer: str, rest: int) -> Rule:
    targets = names(cfg, "targets")
    form: Any = cfg.raw.get("format") or outer
    if form not in (*FORMATS, *FORMATS_MX):
        raise Refused(f"{cfg.where}format", f"one of {', '.join((*FORMATS, *FORMATS_MX))}", form)
    read = cfg.raw.get("input_activations") is not None
    static = read and not _dynamic(cfg.section("input_activations"))
    packed = _packed(cfg.section("weights"), form, rest, read=read, static=static)
    # A class of modules: all of them.
    return Rule(names=() if "Linear" in targets or not targets else targets, packed=packed)


def _dynamic(inputs: Config) -> bool:
    """Whether scales of what is read are found on the way; `local` finds those of groups alone."""
    return inputs.raw.get("dynamic") is True


def _packed(weights: Config, form: str, rest: int, *, read: bool, static: bool) -> Packed:
    """static: a scale of what the matrix reads stands beside it. read: whether that is narrowed at all."""
    bits = weights.size("num_bits", limit=8)
    floating = weights.choice("type", among={"int": False, "float": True}, absent=False)
    name = f"fp{bits}" if floating else f"int{bits}"
    shape = _blocks(weights)
    if form == "nvfp4-pack-quantized":
        return Packed(name="nvfp4", bits=4, scale_bits=8, fixed=8 if read else 4, **shape)
    if form == "mxfp4-pack-quantized":
        return Packed(name="mxfp4", bits=4, scale_bits=8, **shape)
    fixed = rest // 8 if static else 0
    asymmetric = not weights.flag("symmetric", absent=True)
    if form == "pack-quantized":
        # The shape stands beside it, two numbers of 64 bits.
        zeros = "packed" if asymmetric else "none"
        ordered = 32 if weights.raw.get("actorder") in ("group", True) else 0
        more: dict[str, Any] = {"zeros": zeros, "column_bits": ordered, "fixed": fixed + 16}
        return Packed(name=name, bits=bits, word=32, scale_bits=rest, **shape, **more)
    if bits != 8:
        raise Refused(f"{weights.where}num_bits", f"8 in format {form}, whose elements are not packed", bits)
    if asymmetric:
        raise Refused(f"{weights.where}symmetric", f"true in format {form}", False)
    return Packed(name=name, bits=8, scale_bits=rest, fixed=fixed, **shape)


def _blocks(weights: Config) -> dict[str, Any]:
    """Which elements share a scale."""
    strategy = weights.choice(
        "strategy",
        among={word: word for word in ("tensor", "channel", "group", "tensor_group", "block")},
    )
    if strategy == "tensor":
        return {"block_rows": None}
    if strategy == "block":
        rows, columns = weights.numbers("block_structure", length=2)
        if 0 in (rows, columns):
            raise Refused(f"{weights.where}block_structure", "numbers above 0", 0)
        return {"block_rows": rows, "block_columns": columns}
    return {"block_columns": None if strategy == "channel" else weights.size("group_size")}
