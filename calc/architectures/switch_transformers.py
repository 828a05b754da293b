"""Switch Transformers (Fedus et al. 2021, arXiv:2101.03961): T5 in which some layers route each token to one expert."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from calc.architectures.common import activation, stack
from calc.architectures.config import Config
from calc.architectures.mixtral import jitter
from calc.architectures.t5 import encoder_alone, encoder_decoder, layer, relative_attention, rms, vocabulary_head
from calc.errors import Refused
from calc.spec import Attention, LayerGroup, Mlp, ModelSpec, Moe, Norm


def spec(cfg: Config) -> ModelSpec:
    """Of every few layers the second holds experts. What exceeds expert_capacity is dropped there, and counted here."""
    kind = cfg.architecture(
        {
            "SwitchTransformersForConditionalGeneration": "lm",
            "SwitchTransformersModel": "none",
            "SwitchTransformersEncoderModel": "encoder",
        },
        usual="SwitchTransformersForConditionalGeneration",
    )
    cfg.only("tie_word_embeddings", True, why="untied, this class keeps a third table that nothing reads")
    cfg.only("feed_forward_proj", "relu", "gelu", why="experts of this family have no gate")
    parts = _Parts(relative_attention(cfg, shared=True), rms(cfg), *_channels(cfg))
    n_layers = cfg.layers("num_layers")
    cfg.under_own_name("num_layers", "which layers are sparse")
    encoder = parts.stack(n_layers, _step(cfg, n_layers, "encoder"), cross=False)
    if kind == "encoder":
        cfg.only("is_decoder", False, None, why="this class would build a decoder's layers instead")
        return encoder_alone(cfg, encoder["layers"], schedule=encoder.get("schedule"))
    n_decoder = cfg.size("num_decoder_layers", absent=12)
    decoder = parts.stack(n_decoder, _step(cfg, n_decoder, "decoder"), cross=True)
    return encoder_decoder(
        cfg,
        encoder["layers"],
        decoder["layers"],
        vocabulary_head(cfg) if kind == "lm" else None,
        schedules=(encoder.get("schedule"), decoder.get("schedule")),
    )


@dataclass(frozen=True)
class _Parts:
    """What layers are made of."""

    attention: Attention
    norm: Norm
    dense: Mlp
    sparse: Moe

    def stack(self, n_layers: int, step: int, cross: bool) -> dict[str, Any]:
        """Layers of both kinds: the second of every `step` layers is sparse, or all where step is 1."""

        def make(kind: str) -> LayerGroup:
            made = layer(self.attention, self.dense, self.norm, 1, cross)
            return made if kind == "dense" else made.model_copy(update={"channel": self.sparse})

        kinds = ["sparse" if step == 1 or i % step == 1 else "dense" for i in range(n_layers)]
        return stack(kinds, make)


def _step(cfg: Config, n_layers: int, side: str) -> int:
    """Every how many layers of one side there are experts. Checkpoints write the step that follows beside them."""
    name = f"num_sparse_{side}_layers"
    n_sparse = cfg.size(name, absent=3)
    if n_sparse > n_layers:
        raise Refused(name, f"at most the {n_layers} layers", n_sparse)
    step = n_layers // n_sparse
    cfg.only(f"{side}_sparse_step", step, why=f"{name} of {n_layers} layers")
    return step


def _channels(cfg: Config) -> tuple[Mlp, Moe]:
    d_ff = cfg.size("d_ff")
    act = activation(cfg, "dense_act_fn", absent="relu")
    cfg.only("router_dtype", "float32", why="a router in another number format is not described")
    experts = Moe(
        n_experts=cfg.size("num_experts"),
        top_k=1,
        d_expert=d_ff,
        gated=False,
        router_bias=cfg.flag("router_bias", absent=False),
        wide_router=True,
        renormalize=False,
        activation=act,
        as_weight=True,
        jitter=jitter(cfg, absent=0.01),
    )
    return Mlp(d_ff=d_ff, activation=act, dropout=True, as_weight=True), experts
