"""Funnel Transformer (Dai et al. 2020, arXiv:2006.03236): blocks of layers over ever fewer vectors of a text, and
layers over as many as there are tokens again, which the base model leaves out."""

from __future__ import annotations

from collections.abc import Iterator

from calc.architectures import bert
from calc.architectures.common import activation
from calc.architectures.config import Config
from calc.errors import Refused
from calc.spec import Activation, Embedding, FunnelAttention, Halved, Head, LayerGroup, Mlp, ModelSpec, Norm, Projection
from calc.spec.fields import MAX_LAYERS

CLASSES = {
    "FunnelForPreTraining": ("discriminator",),
    "FunnelForMaskedLM": ("lm",),
    "FunnelModel": (),
    "FunnelForTokenClassification": ("token_classifier",),
    "FunnelForQuestionAnswering": ("span",),
    "FunnelBaseModel": ("base",),
    "FunnelForSequenceClassification": ("base", "dense", "classifier"),
    "FunnelForMultipleChoice": ("base", "dense", "choice"),
}
"""What stands behind the layers of each class; `base`: there are none that read all vectors again."""


def spec(cfg: Config) -> ModelSpec:
    """Norms behind the blocks, neither positions nor segments ahead of them. Defaults as in transformers' FunnelConfig.

    A layer of a block that is repeated is passed several times in turn, of which the first may halve the vectors.
    """
    parts = cfg.architecture(CLASSES, usual="FunnelForPreTraining")
    for key in ("num_hidden_layers", "num_blocks"):
        if key in cfg.raw:
            raise Refused(f"{cfg.where}{key}", "block_sizes in its place, from which the class takes it", cfg.raw[key])
    cfg.notes.append("counted as it reads texts of one segment and one length, for which no mask is halved")
    d_model, act = cfg.size("d_model", absent=768), activation(cfg, "hidden_act", absent="gelu_new")
    if d_model % 2:
        raise Refused(f"{cfg.where}d_model", "an even width, of sines and cosines", d_model)
    norm = Norm(kind="layernorm", bias=True, eps=cfg.number("layer_norm_eps", absent=1e-9))
    layer = LayerGroup(
        count=1,
        mixer=_attention(cfg),
        channel=Mlp(d_ff=cfg.size("d_inner", absent=3072), bias=True, activation=act),
        norm=norm,
        placement="post",
        residual_dropout=True,
    )
    based = parts[:1] == ("base",)
    layers = tuple(_blocks(cfg, layer, based=based))
    if not based:
        decoder = {
            "name": "decoder",
            "count": cfg.size("num_decoder_layers", absent=2, limit=MAX_LAYERS),
            "upsampled": True,
        }
        layers += (layer.model_copy(update=decoder),)
    tied = cfg.flag("tie_word_embeddings", absent=True)
    return ModelSpec(
        d_model=d_model,
        vocab_size=cfg.size("vocab_size", absent=30522),
        embedding=Embedding(norm=norm),
        layers=layers,
        final_norm=None,
        heads=_heads(cfg, parts, act),
        head=Head(tied=tied, bias=True, wide_loss=False) if parts == ("lm",) else None,
    )


def _attention(cfg: Config) -> FunnelAttention:
    return FunnelAttention(
        n_heads=cfg.size("n_head", absent=12),
        d_head=cfg.size("d_head", absent=64),
        factorized=cfg.choice("attention_type", among={"factorized": True, "relative_shift": False}, absent=False),
        first_apart=cfg.flag("separate_cls", absent=True),
    )


def _blocks(cfg: Config, layer: LayerGroup, *, based: bool) -> Iterator[LayerGroup]:
    """The groups of all blocks. Only layers that are passed once stand together in one."""
    sizes, repeats = _sizes(cfg, based=based)
    halved = Halved(
        how=cfg.choice("pooling_type", among={"mean": "mean", "max": "max"}, absent="mean"),
        first_apart=cfg.flag("separate_cls", absent=True),
        cut=cfg.flag("truncate_seq", absent=True),
    )
    queries_alone = cfg.flag("pool_q_only", absent=True)
    unhalved = layer.mixer.model_copy(update={"unhalved": True}) if layer.mixer is not None else None
    for number, (size, times) in enumerate(zip(sizes, repeats, strict=True), start=1):
        name = f"block{number}"
        first = {"halved": halved} if number > 1 else {}
        apart = first | {"mixer": unhalved} if first and queries_alone else first
        if times == 1:
            if apart is not first:
                yield layer.model_copy(update=apart | {"name": f"{name}_first"})
                size, first = size - 1, {}
            if size:
                yield layer.model_copy(update=first | {"name": name, "count": size})
            continue
        for i in range(size):
            own = {"name": f"{name}_{i + 1}", "shared": True}
            if i == 0 and apart is not first:
                yield layer.model_copy(update=own | apart)
                yield layer.model_copy(update=own | {"name": f"{name}_1_again", "count": times - 1, "again": True})
            else:
                yield layer.model_copy(update=own | {"count": times} | (first if i == 0 else {}))


def _sizes(cfg: Config, *, based: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Layers of each block, and how often each is passed."""
    sizes = cfg.numbers("block_sizes", absent=(4, 4, 4))
    if not 0 < len(sizes) <= 16 or 0 in sizes or sum(sizes) > MAX_LAYERS:
        raise Refused(f"{cfg.where}block_sizes", "layers in each of up to 16 blocks", list(sizes)[:20])
    once = (1,) * len(sizes)
    repeats = cfg.numbers("block_repeats", absent=once, null=once)
    if len(repeats) != len(sizes) or 0 in repeats or sum(repeats) > MAX_LAYERS:
        raise Refused(f"{cfg.where}block_repeats", f"a number for each of {len(sizes)} blocks", list(repeats)[:20])
    if repeats[0] > 1 and not based:
        expected = "1 of the first block, behind so many passes of which stands what the decoder reads"
        raise Refused(f"{cfg.where}block_repeats", expected, list(repeats))
    if any(times > 1 for times in repeats) and sum(sizes) > 256:
        raise Refused(f"{cfg.where}block_sizes", "up to 256 layers where some are repeated", sum(sizes))
    return sizes, repeats


def _heads(cfg: Config, parts: tuple[str, ...], act: Activation) -> tuple[Projection, ...]:
    if parts == ("discriminator",):
        return Projection(name="dense", activation=act), Projection(name="replaced", d_out=1, reads="dense")
    return bert.heads(cfg, parts)
