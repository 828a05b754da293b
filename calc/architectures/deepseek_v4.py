"""DeepSeek-V4 (DeepSeek-AI 2026): attention over a window and compressed entries, several residual streams, experts in
every layer."""

from __future__ import annotations

from collections.abc import Sequence

from calc.architectures.common import stack
from calc.architectures.config import Config
from calc.architectures.deepseek_v3 import routed_experts
from calc.architectures.llama import decoder, rms_norm
from calc.architectures.rope import rope
from calc.errors import Refused
from calc.spec import CompressedAttention, Compressor, EntryIndexer, LayerGroup, ModelSpec, Rope

WORDS = {
    "sliding_attention": "sliding",
    "compressed_sparse_attention": "sparse",
    "heavily_compressed_attention": "heavy",
}
OF_RATIO = {0: "sliding", 4: "sparse", 128: "heavy"}


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' DeepseekV4Config: window 128, 4 streams, entries of 4 tokens in sparse layers and of
    128 in heavy ones, an indexer of 64 heads, 128 wide, that chooses 512.

    The first layers choose experts by a table of tokens (`tid2eid`, a buffer), which costs as much as choosing by
    scores. The module that predicts a further token is left out: its residual streams are not described.
    """
    cfg.only("num_key_value_heads", 1, why="one key, which is the value too, serves all heads")
    cfg.only("mlp_bias", False, why="no block of this family has biases")
    cfg.only("attention_bias", False, why="no block of this family has biases")
    cfg.notes.append("window: keys and values are one tensor, counted in the cache as two (transformers shows two)")
    norm = rms_norm(cfg)
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
    experts = routed_experts(cfg, shared=1, scoring=_scoring(cfg), groups=None, scale=1.5)
    cfg.only("n_shared_experts", 1, why="implementations differ in what several would be")

    def layer(kind: str) -> LayerGroup:
        own = mixer.model_copy(update={"compressor": compressors[kind], "rope": turning[kind]})
        return LayerGroup(count=1, mixer=own, channel=experts, norm=norm)

    streams = {"n_streams": cfg.size("hc_mult", absent=4)}
    layers = stack(layer_kinds(cfg, cfg.layers("num_hidden_layers")), layer)
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
    """Layers that compress turn by compress_rope_theta, others by rope_theta and without scaling."""
    d_head = cfg.size("head_dim", absent=512)
    rotary = cfg.size("qk_rope_head_dim", absent=64)
    turning = rope(cfg, fraction=rotary / d_head, layers="main" if kind == "sliding" else "compress", interleaved=True)
    if kind == "sliding":
        return turning.model_copy(update={"scaling": None})
    return turning.model_copy(update={"theta": cfg.number("compress_rope_theta", absent=160_000.0)})
