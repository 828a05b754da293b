"""DeepSeek-V4 (DeepSeek-AI 2026): attention over a window and compressed entries, several residual streams, experts in
every layer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from calc.architectures.common import stack
from calc.architectures.config import Config
from calc.architectures.deepseek_v3 import routed_experts
from calc.architectures.llama import decoder, rms_norm
from calc.architectures.rope import rope
from calc.errors import Refused
from calc.spec import (
    CompressedAttention,
    Compressor,
    EntryIndexer,
    GateClamp,
    LayerGroup,
    ModelSpec,
    Moe,
    Rope,
    StreamMixing,
)

WORDS = {
    "sliding_attention": "sliding",
    "compressed_sparse_attention": "sparse",
    "heavily_compressed_attention": "heavy",
}
OF_RATIO = {0: "sliding", 4: "sparse", 128: "heavy"}


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' DeepseekV4Config: window 128, 4 streams, entries of 4 tokens in sparse layers and of
    128 in heavy ones, an indexer of 64 heads, 128 wide, that chooses 512.

    The first three layers choose experts by a table of tokens (`tid2eid`, a buffer), which costs as much as choosing by
    scores. The module that predicts a further token is left out: its residual streams are not described.
    """
    n_layers = cfg.layers("num_hidden_layers")
    cfg.only("num_key_value_heads", 1, why="one key, which is the value too, serves all heads")
    cfg.only("mlp_bias", False, why="no block of this family has biases")
    cfg.only("attention_bias", False, why="no block of this family has biases")
    cfg.notes.append("window: keys and values are one tensor, counted in the cache as two (transformers shows two)")
    norm = rms_norm(cfg, wide=True)
    turning = {kind: _rope(cfg, kind) for kind in WORDS.values()}
    mixer = CompressedAttention(
        n_heads=cfg.size("num_attention_heads"),
        d_head=cfg.size("head_dim", absent=512),
        q_rank=cfg.size("q_lora_rank"),
        window=cfg.size("sliding_window", absent=128),
        n_out_groups=cfg.size("o_groups", absent=8),
        out_rank=cfg.size("o_lora_rank", absent=1024),
        norm=norm,
    )
    compressors = {"sliding": None, "sparse": _compressor(cfg, "sparse"), "heavy": _compressor(cfg, "heavy")}
    experts = _experts(cfg)
    by_token = experts.model_copy(update={"correction": False, "by_token": True})

    def layer(name: str) -> LayerGroup:
        kind, _, hashed = name.partition("_")
        own = mixer.model_copy(update={"compressor": compressors[kind], "rope": turning[kind]})
        return LayerGroup(count=1, mixer=own, channel=by_token if hashed else experts, norm=norm)

    mixing = StreamMixing(
        rounds=cfg.size("hc_sinkhorn_iters", absent=20),
        eps=cfg.number("hc_eps", absent=1e-6),
        norm_eps=norm.eps,
    )
    streams = {"n_streams": cfg.size("hc_mult", absent=4), "stream_mixing": mixing}
    kinds = zip(layer_kinds(cfg, n_layers), _by_token(cfg, n_layers), strict=True)
    layers = stack([f"{kind}_by_token" if hashed else kind for kind, hashed in kinds], layer)
    return decoder(cfg, layers | streams, max_seq_len=1048576, norm=norm)


def layer_kinds(cfg: Config, n_layers: int) -> Sequence[str]:
    """What layer_types says, else compress_ratios (which goes on past the last layer in published configs), else two
    heavy layers and then heavy and sparse ones in turns."""
    if cfg.raw.get("layer_types") is not None:
        return [WORDS[w] for w in cfg.words("layer_types", among=tuple(WORDS), length=n_layers)]
    ratios = cfg.numbers("compress_ratios", absent=None, null=None)
    if ratios is None:
        return ["heavy" if i < 2 or i % 2 == 0 else "sparse" for i in range(n_layers)]
    if len(ratios) < n_layers or not set(ratios) <= set(OF_RATIO):
        raise Refused(f"{cfg.where}compress_ratios", f"0, 4 or 128 for each of {n_layers} layers", list(ratios))
    return [OF_RATIO[ratio] for ratio in ratios[:n_layers]]


def _by_token(cfg: Config, n_layers: int) -> list[bool]:
    """Of each layer whether a table chooses its experts: as mlp_layer_types says, else the first num_hash_layers."""
    if cfg.raw.get("mlp_layer_types") is not None:
        words = cfg.words("mlp_layer_types", among=("hash_moe", "moe"), length=n_layers)
        return [word == "hash_moe" for word in words]
    first = cfg.count("num_hash_layers", absent=3, null=3)
    return [i < first for i in range(n_layers)]


def _experts(cfg: Config) -> Moe:
    """All layers have them; weights of a token's experts always sum to one before they are scaled."""
    cfg.only("n_shared_experts", 1, why="implementations differ in what several would be")
    cfg.only("norm_topk_prob", True, why="transformers divides by their sum whatever it says")
    cfg.only("hidden_act", "silu", why="of a gate that is cut no other activation is described")
    clamp = GateClamp(limit=cfg.number("swiglu_limit", absent=10.0), alpha=1.0, shift=0.0)
    return routed_experts(cfg, shared=1, scoring=_scoring(cfg), groups=None, scale=1.5, renormalize=True, clamp=clamp)


def _compressor(cfg: Config, kind: str) -> Compressor:
    word = next(word for word, known in WORDS.items() if known == kind)
    rates = cfg.section("compress_rates", absent=None, null=None)
    short, usual = ("compress_rate_csa", 4) if kind == "sparse" else ("compress_rate_hca", 128)
    rate = usual if rates is None else rates.size(word)
    rate = cfg.size(short, absent=rate, null=rate)
    if kind == "heavy":
        return Compressor(rate=rate)
    indexer = EntryIndexer(
        n_heads=cfg.size("index_n_heads", absent=64),
        d_head=cfg.size("index_head_dim", absent=128),
        top_k=cfg.size("index_topk", absent=512),
    )
    return Compressor(rate=rate, overlap=True, indexer=indexer)


def _scoring(cfg: Config) -> str:
    among = {"sqrtsoftplus": "sqrt_softplus", "softmax": "softmax", "sigmoid": "sigmoid"}
    return cfg.choice("scoring_func", among=among, absent="sqrt_softplus")


def _rope(cfg: Config, kind: str) -> Rope:
    """Layers that compress turn by compress_rope_theta and may be scaled; others by rope_theta, never scaled.

    `rope_parameters` has a set for each (`main`, `compress`), which then says all, or is one: of it only the scaling is
    read, and YaRN's factor on cosines and sines is 1 unless it is given.
    """
    label, d_head = "main" if kind == "sliding" else "compress", cfg.size("head_dim", absent=512)
    sets = cfg.raw.get("rope_parameters")
    if isinstance(sets, dict) and isinstance(sets.get("main"), dict) and isinstance(sets.get("compress"), dict):
        return rope(cfg, fraction=1.0, layers=label, interleaved=True)
    rotary = cfg.size("qk_rope_head_dim", absent=None, null=None)
    fraction = 0.125 if rotary is None else rotary / d_head
    fraction = cfg.number("partial_rotary_factor", absent=fraction, null=fraction)
    turning = rope(cfg, fraction=fraction, interleaved=True).model_copy(update={"fraction": fraction})
    if label == "main":
        return turning.model_copy(update={"theta": cfg.number("rope_theta", absent=10_000.0), "scaling": None})
    scaling = turning.scaling
    if scaling is not None and scaling.kind == "yarn" and "attention_factor" not in _flat(cfg):
        scaling = scaling.model_copy(update={"attention_factor": 1.0})
    theta = cfg.number("compress_rope_theta", absent=160_000.0)
    return turning.model_copy(update={"theta": theta, "scaling": scaling})


def _flat(cfg: Config) -> dict[str, Any]:
    """The one set of rotary positions that the config gives, under either name."""
    return cfg.raw.get("rope_parameters") or cfg.raw.get("rope_scaling") or {}
