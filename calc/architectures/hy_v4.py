"""Hy4 (Tencent 2026): latent attention to an indexer's tokens, with sinks and a gate for each value, residual streams
that do not mix, experts behind a dense first layer."""

from __future__ import annotations

from calc.architectures.common import crossed_stack, mlp_kinds, without_further_tokens
from calc.architectures.config import Config
from calc.architectures.deepseek_v3 import expert_groups, routed_experts
from calc.architectures.deepseek_v32 import indexed_attention
from calc.architectures.llama import decoder, dense_or_moe, rms_norm
from calc.errors import Refused
from calc.spec import GateClamp, LayerGroup, ModelSpec, Moe, Norm, StreamMixing


def spec(cfg: Config) -> ModelSpec:
    """Defaults as in transformers' HYV4Config: an indexer of 16 heads, 128 wide, in the first layer, the second and
    every fourth behind that, whose tokens the layers between read too; 4 streams.

    The modules that predict further tokens are left out: their residual streams are not described.
    """
    n_layers, norm = cfg.layers("num_hidden_layers"), rms_norm(cfg, 1e-5)
    index = {"last": True, "norm": Norm(kind="layernorm", bias=True, eps=norm.eps)}
    own = {"gate": True, "sinks": True, "softmax": "model"}
    mixer = indexed_attention(cfg, n_heads=16, interleaved=False, pairs=False, index=index, **own)
    mixers = {"full": mixer, "shared": mixer.model_copy(update={"indexer": None})}
    without_further_tokens(cfg, "num_nextn_predict_layers")
    cfg.notes.append("transformers keeps the head in fp32: its bytes are counted in the model's format")
    kinds = mlp_kinds(cfg, ["moe" if i else "dense" for i in range(n_layers)])
    channels = dense_or_moe(cfg, kinds, _experts(cfg))

    def layer(own: str, kind: str) -> LayerGroup:
        return LayerGroup(count=1, mixer=mixers[own], channel=channels[kind], norm=norm)

    mixing = StreamMixing(
        independent=True,
        magnitude=cfg.number("hc_magnitude", absent=2.0),
        eps=cfg.number("hc_eps", absent=1e-6),
        norm_eps=norm.eps,
    )
    streams = {"n_streams": cfg.size("hc_mult", absent=4), "stream_mixing": mixing}
    layers = crossed_stack(_indexers(cfg, n_layers), kinds, layer)
    return decoder(cfg, layers | streams, max_seq_len=262144, norm=norm)


def _indexers(cfg: Config, n_layers: int) -> list[str]:
    """`full` for each layer with an indexer of its own, `shared` for the others."""
    usual = ["full" if i == 0 or i % 4 == 1 else "shared" for i in range(n_layers)]
    words = cfg.words("indexer_types", among=("full", "shared"), length=n_layers, absent=usual, null=usual)
    if words[0] != "full":
        raise Refused(f"{cfg.where}indexer_types", "an indexer in the first layer, which others reuse", "none")
    return list(words)


def _experts(cfg: Config) -> Moe:
    """Their gates are cut, those of the shared expert are not."""
    cfg.only("hidden_act", "silu", why="of a gate that is cut no other activation is described")
    clamp = GateClamp(limit=cfg.number("swiglu_limit", absent=10.0), alpha=1.0, shift=0.0)
    return routed_experts(cfg, shared=1, groups=expert_groups(cfg), scale=2.827, clamp=clamp, shared_clamp=False)
