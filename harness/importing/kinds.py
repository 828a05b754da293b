"""The kinds of measured tables that can be imported, told apart by their columns: one function each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from calc.errors import Refused
from calc.time.models.decoding import DecodeModel
from calc.time.models.experts import ExpertsModel
from calc.time.models.flash import AttentionModel
from calc.time.models.gemm import GemmModel
from calc.time.models.learned import Learned
from calc.time.models.scans import ConvolutionModel, DeltaRuleModel
from harness.importing.reading import numbers

if TYPE_CHECKING:
    DataFrame = Any

FORMATS = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "fp8": "fp8",
    "int8": "int8",
    "sq": "int8",
    "fp8_block": "fp8_block",
    "nvfp4": "nvfp4",
    "int8_wo": "int8_weights",
    "int4_wo": "int4_weights",
    "w4a16_mxfp4": "mxfp4_weights",
    "w4a8_mxfp4_mxfp8": "mxfp4_mxfp8",
}
"""Number formats as tables name them -> as Envelope does (sq: SmoothQuant, int8 by int8; _wo: weights only)."""

COMMON = ("framework", "version", "kernel_source")
LATENCY = ("latency_ms", "latency")
"""Columns of milliseconds, of which a table has one."""
HEADS = ("batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim", "step", "window_size")
LATENT = ("batch_size", "isl", "num_heads", "step")
ROUTED = ("num_tokens", "hidden_size", "inter_size", "topk", "num_experts", "moe_tp_size", "moe_ep_size")
CONVOLVED = ("phase", "batch_size", "seq_len")

CACHE = "kv_cache_dtype"
D_LATENT, D_ROPE, D_NOPE = 512, 64, 128
"""Widths of DeepSeek's latent attention (arXiv:2405.04434, section 2.1; V3 has the same), which tables do not repeat:
of the latent, of the part of keys with positions, and of what each head makes of the latent."""
MOST = 2.0**31


class Kind(NamedTuple):
    """One kind of table.

    field: of the profile that the models go to. formats: columns of number formats; the second of attention's cache.
    sizes: columns that tell what was measured. shape: those rows as the model's columns. model: its class. use: what
    rows are of beside their format, behind it in a model's name.
    """

    field: str
    formats: Sequence[str]
    sizes: Sequence[str]
    shape: Callable[[DataFrame, str], dict[str, Any]]
    model: type[Learned]
    use: Callable[[DataFrame], Sequence[str]] | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """All that a table of this kind has, beside its latency."""
        return (*COMMON, *self.formats[:1], *self.sizes)


def _column(frame: DataFrame, where: str, **names: str) -> dict[str, Any]:
    """Columns of the table, by the names of the model's."""
    return {ours: numbers(frame, theirs, where, most=MOST) for ours, theirs in names.items()}


def _gemm(frame: DataFrame, where: str) -> dict[str, Any]:
    """[m, k] x [k, n], one product a launch."""
    import numpy as np

    return _column(frame, where, m="m", n="n", k="k") | {"batch": np.ones(len(frame))}


def _latent_products(frame: DataFrame, where: str) -> dict[str, Any]:
    """A product a head: ahead of absorbed attention from a head's width to the latent's, behind it back."""
    import numpy as np

    ahead = frame["op_name"].str.contains("pre").to_numpy()
    widths = {"n": np.where(ahead, D_LATENT, D_NOPE) * 1.0, "k": np.where(ahead, D_NOPE, D_LATENT) * 1.0}
    return _column(frame, where, m="num_tokens", batch="num_heads") | widths


def _heads(frame: DataFrame, where: str) -> dict[str, Any]:
    import numpy as np

    shape = _column(frame, where, batch="batch_size", heads="num_heads", kv_heads="num_key_value_heads")
    shape["window"] = numbers(frame, "window_size", where, least=0, most=MOST)
    width = numbers(frame, "head_dim", where, most=2.0**20)
    shape["kv_heads"] = np.minimum(shape["kv_heads"], shape["heads"])
    return shape | {"d_head": width, "d_value": width}


def _lengths(frame: DataFrame, where: str) -> dict[str, Any]:
    """`isl` new tokens of each sequence after `step` cached ones, causal."""
    import numpy as np

    seq, cached = numbers(frame, "isl", where, most=MOST), numbers(frame, "step", where, least=0, most=MOST)
    return {"seq": seq, "keys": seq + cached, "causal": np.ones(len(frame))}


def _prefill(frame: DataFrame, where: str) -> dict[str, Any]:
    return _heads(frame, where) | _lengths(frame, where)


def _decode(frame: DataFrame, where: str) -> dict[str, Any]:
    """One new token of each sequence after `step` cached ones."""
    import numpy as np

    return _heads(frame, where) | {"context": _lengths(frame, where)["keys"], "latent": np.zeros(len(frame))}


def _latent(frame: DataFrame, where: str, **widths: float) -> dict[str, Any]:
    import numpy as np

    given = {"window": 0.0, **widths}
    shape = _column(frame, where, batch="batch_size", heads="num_heads")
    return shape | {name: np.full(len(frame), float(value)) for name, value in given.items()}


def _latent_prefill(frame: DataFrame, where: str) -> dict[str, Any]:
    """Latent attention of a prompt, expanded: every head has keys and values of its own."""
    shape = _latent(frame, where, d_head=D_NOPE + D_ROPE, d_value=D_NOPE)
    return shape | {"kv_heads": shape["heads"]} | _lengths(frame, where)


def _latent_decode(frame: DataFrame, where: str) -> dict[str, Any]:
    """Absorbed: all heads read the latent, whose first part is the values too."""
    shape = _latent(frame, where, d_head=D_LATENT + D_ROPE, d_value=D_LATENT, kv_heads=1, latent=1)
    return shape | {"context": _lengths(frame, where)["keys"]}


def _experts(frame: DataFrame, where: str) -> dict[str, Any]:
    shape = _column(
        frame,
        where,
        tokens="num_tokens",
        hidden="hidden_size",
        inter="inter_size",
        experts="num_experts",
        top_k="topk",
        tp="moe_tp_size",
        ep="moe_ep_size",
    )
    skew = frame["distribution"].str.replace("power_law_", "").replace("balanced", "0")
    shape["skew"] = numbers(frame.assign(distribution=skew), "distribution", where, 0.0, 8.0)
    gated = ~frame["kernel_source"].str.contains("nongated").to_numpy()
    return shape | {"gated": gated.astype(float)}


def _delta_net(frame: DataFrame, where: str) -> dict[str, Any]:
    heads = {"heads": "num_v_heads", "key_heads": "num_k_heads", "d_key": "head_k_dim", "d_value": "head_v_dim"}
    return _column(frame, where, batch="batch_size", seq="seq_len", **heads)


def _mamba(frame: DataFrame, where: str) -> dict[str, Any]:
    """The convolution in front of Mamba-2: heads beside the groups of B and C."""
    heads = {"heads": "nheads", "key_heads": "n_groups", "d_key": "d_state", "d_value": "head_dim"}
    return _column(frame, where, batch="batch_size", seq="seq_len", **heads)


def _phase(frame: DataFrame) -> Sequence[str]:
    return ["decode" if phase == "generation" else "" for phase in frame["phase"]]


def _mamba_phase(frame: DataFrame) -> Sequence[str]:
    return [f"mamba.{phase}" if phase else "mamba" for phase in _phase(frame)]


def _always(word: str) -> Callable[[DataFrame], Sequence[str]]:
    return lambda frame: [word] * len(frame)


KINDS = {
    "gemm": Kind("gemm", ("gemm_dtype",), ("m", "n", "k"), _gemm, GemmModel),
    "latent products": Kind(
        "gemm", ("bmm_dtype",), ("op_name", "num_tokens", "num_heads"), _latent_products, GemmModel, _always("latent")
    ),
    "prefill attention": Kind("attention", ("attn_dtype", CACHE), HEADS, _prefill, AttentionModel),
    "decode attention": Kind("decode", ("attn_dtype", CACHE), HEADS, _decode, DecodeModel),
    "latent prefill": Kind(
        "attention", ("mla_dtype", CACHE), LATENT, _latent_prefill, AttentionModel, _always("latent")
    ),
    "latent decode": Kind("decode", ("mla_dtype", CACHE), LATENT, _latent_decode, DecodeModel, _always("latent")),
    "experts": Kind("experts", ("moe_dtype",), (*ROUTED, "distribution"), _experts, ExpertsModel),
    "delta rule": Kind("delta_rule", (), (*CONVOLVED, "num_v_heads"), _delta_net, DeltaRuleModel, _phase),
    "convolution": Kind("convolution", (), (*CONVOLVED, "num_v_heads"), _delta_net, ConvolutionModel, _phase),
    "state space": Kind("convolution", (), (*CONVOLVED, "nheads"), _mamba, ConvolutionModel, _mamba_phase),
}
"""What a table holds -> how it is read. Kinds with the same columns are told apart by `_alike`."""


def parts_of(frame: DataFrame, where: str) -> list[tuple[Kind, DataFrame]]:
    """A table's rows by kind: those of gated delta nets hold two. Errors: Refused, naming the columns of the nearest
    kind that are not there."""
    name = kind_of(frame, where)
    if name != "delta rule":
        return [(KINDS[name], frame)]
    convolution = frame["kernel_source"].str.contains("conv")
    found = [(KINDS["delta rule"], frame[~convolution]), (KINDS["convolution"], frame[convolution])]
    return [(kind, rows) for kind, rows in found if len(rows)]


def kind_of(frame: DataFrame, where: str) -> str:
    """The kind of table. Errors: Refused, naming the columns of the nearest kind that are not there."""
    missing = {name: [column for column in kind.columns if column not in frame.columns] for name, kind in KINDS.items()}
    name = min(missing, key=lambda name: len(missing[name]))
    if missing[name]:
        wanted = f"columns of a table of gemm, attention, experts, mixers or collectives; of {name}"
        raise Refused(where, wanted, f"none called {', '.join(missing[name])}")
    return _alike(name, frame)


def _alike(name: str, frame: DataFrame) -> str:
    """Both kinds of attention have the same columns: decode says so, or has one new token in every row."""
    if not name.endswith(("attention", "prefill")):
        return name
    ops = "".join(sorted(set(frame["op_name"]))) if "op_name" in frame.columns else ""
    decode = "generation" in ops if ops else set(frame["isl"]) == {"1"}
    latent = "mla_dtype" in frame.columns
    return ("latent " if latent else "") + ("decode" if decode else "prefill") + ("" if latent else " attention")


def names_of(kind: Kind, frame: DataFrame, where: str) -> list[str]:
    """What each row's model is called: FORMAT, where attention keeps keys and values in another one FORMAT.CACHE_cache,
    and what it is used for behind it. Errors: Refused for formats that are not known."""
    formats = _known(frame, kind.formats[0], where) if kind.formats else ["bf16"] * len(frame)
    if len(kind.formats) > 1 and kind.formats[1] in frame.columns:
        caches = _known(frame, kind.formats[1], where)
        formats = [one if one == cache else f"{one}.{cache}_cache" for one, cache in zip(formats, caches, strict=True)]
    uses = kind.use(frame) if kind.use else [""] * len(frame)
    return [f"{one}.{use}" if use else one for one, use in zip(formats, uses, strict=True)]


def _known(frame: DataFrame, column: str, where: str) -> list[str]:
    found = sorted(set(frame[column]))
    if strange := [name for name in found if name.lower() not in FORMATS]:
        raise Refused(f"{where}: {column}", f"one of {', '.join(FORMATS)} in all rows", strange[0][:60])
    return [FORMATS[name.lower()] for name in frame[column]]


def milliseconds(frame: DataFrame, where: str) -> Any:
    """The column of times. Errors: Refused where there is none."""
    column = next((name for name in LATENCY if name in frame.columns), None)
    if column is None:
        raise Refused(where, f"a column called {' or '.join(LATENCY)}", "none")
    return numbers(frame, column, where, 1e-9, 1e9)
