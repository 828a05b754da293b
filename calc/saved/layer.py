"""What one layer keeps: its blocks in the order they run, with norms and dropout where they stand."""

from __future__ import annotations

from dataclasses import dataclass

from calc.errors import Refused
from calc.load import Load
from calc.saved.attention import attention, cross_attention
from calc.saved.delta_net import delta_net
from calc.saved.gated_convolution import gated_convolution
from calc.saved.latent import latent_attention
from calc.saved.linear_attention import linear_attention
from calc.saved.mlp import mlp
from calc.saved.moe import moe
from calc.saved.norms import norm
from calc.saved.per_layer import Own, layer_input
from calc.saved.sounds import convolution_module
from calc.saved.state_space import mamba, mamba2
from calc.saved.tape import Tape, Tensor
from calc.sizes import Size
from calc.spec import Attention, DeltaNet, GatedConvolution, LayerGroup, LinearAttention, Mamba, Mamba2, Mla, Mlp, Moe

MIXERS = {
    Attention: attention,
    Mla: latent_attention,
    DeltaNet: delta_net,
    GatedConvolution: gated_convolution,
    LinearAttention: linear_attention,
    Mamba: mamba,
    Mamba2: mamba2,
}
"""Mixer -> (tape, its description, d_model, x, load) -> its result."""
TOLD = {Mamba2: {"gate": "before", "scales": None}, Mla: {"position": "rope"}, Mlp: {"gate_scale": 1.0, "shift": False}}
"""Fields that change what is kept, where that is written down for one value alone."""
CHANNELS = {
    Mlp: lambda tape, spec, d_model, x, load: mlp(tape, spec, d_model, x, load.tokens),
    Moe: lambda tape, spec, d_model, x, load: moe(tape, spec, d_model, x, load.tokens),
}
"""Channel mixer -> as MIXERS."""


@dataclass(frozen=True, slots=True)
class Source:
    """What cross-attention reads: an encoder's result, its width, and how many vectors it has for each sequence."""

    x: Tensor
    d_model: Size
    length: Size


def layer(
    tape: Tape,
    group: LayerGroup,
    d_model: Size,
    x: Tensor,
    load: Load,
    source: Source | None = None,
    own: Own | None = None,
) -> Tensor:
    """x [batch, seq, d_model] -> the same shape. own: what it reads beside x, where layers have such inputs.

    Errors: Refused for a block of which it is not written down what it keeps.
    """
    _check(group)
    blocks = [name for name in ("mixer", "cross", "convolution", "channel") if getattr(group, name) is not None]
    if group.macaron and group.channel is not None:
        blocks.insert(0, "macaron")

    def normed(name: str, y: Tensor) -> Tensor:
        return norm(tape, name, group.norm, y, load.tokens)

    def run(name: str, y: Tensor) -> Tensor:
        return _block(tape, group, name, d_model, y, load, source)

    placement = group.placement
    if placement.startswith("parallel"):
        first = normed("mixer_norm", x)
        second = first if placement == "parallel" else normed("channel_norm", x)
        return tape.like(x, run("mixer", first), run("channel", second))
    for i, name in enumerate(blocks):
        tape.residual = x
        before = placement in ("pre", "sandwich") and (group.first_norm or i > 0)
        out = run(name, normed(f"{name}_norm", x) if before else x)
        if group.block_scale:
            with tape.at(f"{name}_scale"):
                out = tape.weighed(out)
        if placement in ("output", "sandwich"):
            out = normed(f"{name}_post_norm", out)
        x = tape.like(x, out)
        if placement == "post":
            x = normed(f"{name}_norm", x)
    x = normed("out_norm", x) if group.out_norm else x
    if own is not None:
        x = layer_input(tape, own, d_model, x, load, group.norm)
    if group.out_scale:
        x = tape.times(x, Tensor(1, tape.settings.stream, False, "none"))
    return x


def _block(
    tape: Tape, group: LayerGroup, name: str, d_model: Size, x: Tensor, load: Load, source: Source | None
) -> Tensor:
    """One block and the dropout on its result."""
    node = getattr(group, "channel" if name == "macaron" else name)
    with tape.at(name), tape.region(name, x):
        if name == "cross" and source is not None:
            y = cross_attention(tape, node, d_model, source.d_model, x, source.x, load, source.length)
        elif name == "convolution":
            y = convolution_module(tape, node, d_model, x, load)
        else:
            y = (MIXERS if name == "mixer" else CHANNELS)[type(node)](tape, node, d_model, x, load)
        return tape.drop(y) if group.residual_dropout else y


def _check(group: LayerGroup) -> None:
    if group.shared_block is not None:
        raise Refused("model", "layers of which it is known what they keep", "a block that several layers share")
    known = {**MIXERS, **CHANNELS}
    for node in (group.mixer, group.channel):
        if node is not None and type(node) not in known:
            names = ", ".join(each.__name__ for each in known)
            raise Refused("model", f"blocks of which it is known what they keep ({names})", type(node).__name__)
        for name, told in TOLD.get(type(node), {}).items():
            if getattr(node, name) != told:
                raise Refused("model", f"blocks of which it is known what they keep ({name} = {told})", "another")
