"""Gemma 3n's language model (Google, 2025): Gemma 3's layers on one of several streams, with learned augmented
residuals, inputs of their own for every layer, and layers that reuse earlier keys and values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from calc.architectures.common import activation, alternating, layer_kinds, stack
from calc.architectures.config import REFUSE, Config
from calc.architectures.llama import attention, decoder, rms_norm
from calc.architectures.rope import rope
from calc.errors import Refused
from calc.spec import AltUp, Attention, LayerGroup, Mlp, ModelSpec, Norm, PerLayerInputs, QkNorm, Rope


class _Layer(NamedTuple):
    """What tells one layer from another. kind: sliding or full. borrows: whether its keys are an earlier layer's."""

    kind: str
    borrows: bool
    d_ff: int
    sparsity: float


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' Gemma3nTextConfig: 8 heads of width 256, 2 key-value heads, window 512, every fifth
    layer full, the last 15 without keys of their own, four streams, tied. The bounds that training keeps the mixtures
    of streams in (altup_coef_clip) are no part of the model."""
    cfg.only("altup_correct_scale", True, why="what layers read without a factor is not described")
    norm = rms_norm(cfg, wide=True)
    turned = rope(cfg, theta=1_000_000.0, layers="full_attention")
    mixer = normed_attention(cfg, norm, turned, heads_absent=8, kv_absent=2)
    cfg.multiple("hidden_size", cfg.size("hidden_size"), "num_attention_heads", mixer.n_heads)
    sliding = rope(cfg, layers="sliding_attention", theta_key="rope_local_base_freq", scaled=False)
    window, rank = cfg.size("sliding_window", absent=512), cfg.size("laurel_rank", absent=64)
    act = activation(cfg, "hidden_activation", absent="gelu_tanh")
    layers = _layers(cfg)
    distinct = list(dict.fromkeys(layers))

    def group(name: str) -> LayerGroup:
        kind, borrows, d_ff, sparsity = distinct[int(name.rpartition("_")[2])]
        own = {"kv": "earlier" if borrows else "own"}
        own |= {"window": window, "rope": sliding} if kind == "sliding" else {}
        return LayerGroup(
            count=len(layers),
            mixer=mixer.model_copy(update=own),
            channel=Mlp(d_ff=d_ff, gated=True, activation=act, sparsity=sparsity),
            norm=norm,
            placement="sandwich",
            laurel=rank,
        )

    per_layer = PerLayerInputs(
        vocab_size=cfg.size("vocab_size_per_layer_input", absent=262144),
        d_per_layer=cfg.size("hidden_size_per_layer_input", absent=256),
        activation=act,
    )
    names = [f"{layer.kind}{'_reuse' * layer.borrows}_{distinct.index(layer)}" for layer in layers]
    return decoder(
        cfg,
        stack(names, group) | {"per_layer": per_layer, "altup": _altup(cfg)},
        max_seq_len=32768,
        vocab_absent=262400,
        tied=True,
        norm=norm,
        embed_scale=cfg.size("hidden_size") ** 0.5,
        logit_softcap=cfg.number("final_logit_softcapping", absent=30.0, null=None),
    )


def normed_attention(cfg: Config, norm: Norm, turned: Rope, **absent: int) -> Attention:
    """Attention whose queries, keys and values have norms, so that scores need no scale. absent: as of `attention`."""
    bias = cfg.flag("attention_bias", absent=False)
    return attention(
        cfg,
        kv_null=REFUSE,
        d_head_absent=256,
        qkv_bias=bias,
        out_bias=bias,
        qk_norm=QkNorm(norm=norm),
        v_norm=Norm(affine=False, eps=norm.eps),
        scale=1.0,
        rope=turned,
        **absent,
    )


def first_reuse(cfg: Config, kinds: Sequence[str], absent: int) -> int:
    """The first of the last layers, which reuse keys and values of the last layer of their kind ahead of them."""
    reused = cfg.count("num_kv_shared_layers", absent=absent)
    first = len(kinds) - reused
    if reused and (first < 1 or set(kinds[:first]) != set(kinds)):
        expected = "fewer layers, so that a layer of each kind before them has keys and values of its own"
        raise Refused(f"{cfg.where}num_kv_shared_layers", expected, reused)
    return first


def _altup(cfg: Config) -> AltUp:
    n, active = cfg.size("altup_num_inputs", absent=4), cfg.count("altup_active_idx", absent=0)
    if n < 2 or active >= n:
        raise Refused(f"{cfg.where}altup_num_inputs", f"two streams at least, one of them altup_active_idx {active}", n)
    return AltUp(n=n, active=active)


def _layers(cfg: Config) -> list[_Layer]:
    """Every layer in order."""
    n_layers = cfg.layers("num_hidden_layers")
    kinds = layer_kinds(cfg, alternating(n_layers, 5))
    first = first_reuse(cfg, kinds, absent=15)
    widths = cfg.raw.get("intermediate_size")
    if isinstance(widths, list):
        widths = cfg.numbers("intermediate_size", length=n_layers)
    else:
        widths = (cfg.size("intermediate_size", absent=16384),) * n_layers
    each = zip(kinds, widths, _sparsities(cfg, n_layers), strict=True)
    return [_Layer(kind, i >= first, d_ff, sparse) for i, (kind, d_ff, sparse) in enumerate(each)]


def _sparsities(cfg: Config, n_layers: int) -> list[float]:
    """The share of each layer's gates that is cut; where the key is absent, 0.95 in the first ten of more layers."""
    given = cfg.raw.get("activation_sparsity_pattern")
    if given is None:
        sparse = 10 if n_layers > 10 else 0
        return [0.95] * sparse + [0.0] * (n_layers - sparse)
    shares = isinstance(given, list) and all(type(each) in (int, float) and 0 <= each < 1 for each in given)
    if not shares or len(given) != n_layers:
        raise Refused(f"{cfg.where}activation_sparsity_pattern", f"{n_layers} shares from 0 to below 1", given)
    return [float(each) for each in given]
