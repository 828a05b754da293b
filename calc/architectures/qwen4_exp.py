"""Qwen4's experimental preview (Qwen 2026): several residual streams that blocks read value by value, gated delta nets,
attention to blocks of tokens that an indexer chooses, experts in every layer, hashed n-grams of tokens added ahead of
some layers, and Qwen3.5's vision tower. Also the text part alone."""

from __future__ import annotations

from collections.abc import Sequence

from calc.architectures.common import activation, stack
from calc.architectures.config import REFUSE, Config
from calc.architectures.hashed_ngrams import head_rows, multipliers
from calc.architectures.llama import attention, decoder
from calc.architectures.qwen3_next import delta_net, offset_norm
from calc.architectures.qwen_vision import qwen_tower
from calc.architectures.vision import multimodal, text_section
from calc.errors import Refused
from calc.sizes import ceil_div
from calc.spec import Attention, BlockIndexer, DeltaNet, LayerGroup, ModelSpec, Moe, NGrams, QkNorm, StreamMixing

WORDS = {"linear_attention": "linear", "indexed_attention": "indexed", "full_attention": "indexed"}
"""A word of layer_types; published configs call indexed layers full ones, and the class takes them for indexed."""


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Qwen4ExpConfig; the outer model is not tied unless it says so."""
    if cfg.raw["model_type"] == "qwen4_exp_text":
        return text(cfg)
    inner = text(text_section(cfg, "qwen4_exp_text"))
    return multimodal(cfg, inner, qwen_tower(cfg, inner.d_model, "qwen4_exp", deepstack=False), tied=False)


def text(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Qwen4ExpTextConfig: 4 streams with gates of rank 320, every fourth layer indexed."""
    norm, kinds = offset_norm(cfg), layer_kinds(cfg)
    hashed = hashed_layers(cfg, kinds)
    mixers: dict[str, Attention | DeltaNet] = {}
    if "linear" in kinds:
        gate = cfg.choice("output_gate_type", among={"sigmoid": "sigmoid", "silu": "silu"}, absent="silu", null="silu")
        mixers["linear"] = delta_net(cfg, fused=False).model_copy(update={"gate": gate})
    if "indexed" in kinds:
        mixers["indexed"] = indexed_attention(cfg)
    experts = Moe(
        n_experts=cfg.size("num_experts"),
        top_k=cfg.size("num_experts_per_tok"),
        d_expert=cfg.size("moe_intermediate_size"),
        d_shared=cfg.size("shared_expert_intermediate_size"),
        shared_gate=True,
        renormalize=cfg.flag("norm_topk_prob", absent=True),
        activation=activation(cfg, "hidden_act", absent="silu"),
    )

    def layer(name: str) -> LayerGroup:
        kind, _, number = name.partition("_ngrams")
        ngrams = hashed_ngrams(cfg, int(number)) if number else None
        return LayerGroup(count=1, mixer=mixers[kind], channel=experts, norm=norm, ngrams=ngrams)

    names = [f"{kind}_ngrams{hashed.index(i)}" if i in hashed else kind for i, kind in enumerate(kinds)]
    streams = {
        "n_streams": cfg.size("hc_count", absent=4),
        "stream_mixing": StreamMixing(rank=cfg.size("hc_lowrank", absent=320), norm_eps=norm.eps),
    }
    if streams["n_streams"] == 1:
        raise Refused(f"{cfg.where}hc_count", "two streams at least", 1)
    if "indexed" in mixers or hashed:
        cfg.notes.append("numbers of tokens and places that transformers caches (int64) are not counted in the cache")
    made = decoder(cfg, stack(names, layer) | streams, max_seq_len=32768, norm=norm)
    # What reads the streams behind the last layer has normed them.
    return made.model_copy(update={"final_norm": None})


def layer_kinds(cfg: Config) -> tuple[str, ...]:
    """`linear` or `indexed` for each layer."""
    n_layers, period = cfg.layers("num_hidden_layers"), cfg.size("full_attention_interval", absent=4)
    words = cfg.words("layer_types", among=tuple(WORDS), length=n_layers, absent=None, null=None)
    if words is None:
        return tuple("linear" if (i + 1) % period else "indexed" for i in range(n_layers))
    return tuple(WORDS[word] for word in words)


def indexed_attention(cfg: Config) -> Attention:
    """Qwen3-Next's gated attention, all of each head rotated unless a share is given, to what an indexer chooses."""
    cfg.only("attn_output_gate", True, why="the query projection is always doubled for the gate")
    cfg.only("indexer_kv_heads", 1, why="queries of an indexer share one key")
    norm = offset_norm(cfg)
    indexer = BlockIndexer(
        n_heads=cfg.size("indexer_n_heads"),
        d_head=cfg.size("indexer_head_dim"),
        rate=cfg.size("indexer_compress_ratio"),
        budget=cfg.size("indexer_budget"),
        eps=norm.eps,
    )
    bias = cfg.flag("attention_bias", absent=False)
    return attention(
        cfg,
        kv_absent=2,
        kv_null=REFUSE,
        d_head_absent=256,
        qkv_bias=bias,
        out_bias=bias,
        qk_norm=QkNorm(norm=norm),
        gate=True,
        indexer=indexer,
    )


def hashed_layers(cfg: Config, kinds: Sequence[str]) -> list[int]:
    """The numbers of the layers, from 0, ahead of which n-grams are added."""
    found = sorted({each - 1 for each in cfg.numbers("ple_layer_ids", absent=(), null=())})
    if any(not 0 <= each < len(kinds) or kinds[each] != "linear" for each in found):
        expected = f"numbers of linear layers, from 1 to {len(kinds)}"
        raise Refused(f"{cfg.where}ple_layer_ids", expected, [each + 1 for each in found][:20])
    return found


def hashed_ngrams(cfg: Config, number: int) -> NGrams:
    """What the layer of this number, from 0, among those with n-grams looks up."""
    n, each = cfg.size("ngram_size", absent=3, limit=64), cfg.size("heads_per_ngram", absent=8, limit=64)
    n_heads, width = (n - 1) * each, cfg.size("hidden_size")
    if n == 1:
        raise Refused(f"{cfg.where}ngram_size", "two tokens at least", n)
    taps = cfg.size("ple_conv_kernel_size", absent=4)
    if taps == 1:
        raise Refused(f"{cfg.where}ple_conv_kernel_size", "two taps at least, of which a cache keeps all but one", taps)
    rows = head_rows(cfg.size("ngram_vocab_size_base", absent=20_000_000), number * n_heads, n_heads)
    parts = cfg.size("make_ngram_vocab_size_divisible_by", absent=128)
    ends = cfg.raw.get("eos_token_id")
    end = ends[0] if isinstance(ends, list) and ends else ends
    if type(end) is not int:
        raise Refused(f"{cfg.where}eos_token_id", "a token, which no n-gram crosses", end)
    return NGrams(
        rows=parts * ceil_div(sum(rows), parts),
        d_ngram=cfg.size("ple_embed_dim", absent=width, null=width),
        d_conv=taps,
        n=n,
        heads=rows,
        multipliers=multipliers(cfg.size("vocab_size"), n, number, cfg.count("seed", absent=1234)),
        end=end,
    )
