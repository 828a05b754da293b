"""What a convention is: one documented formula for the FLOPs of a model, and whose it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from calc.errors import Refused
from calc.quantities.flops import Flops
from calc.sizes import Size
from calc.spec import Attention, Embedding, Mlp, ModelSpec, Moe
from calc.spec.run import Checkpointing, Phase, Run


def no_caveats(spec: ModelSpec) -> tuple[str, ...]:
    """For a convention that sees every part of every model."""
    return ()


class DecoderLayers(NamedTuple):
    """`count` equal layers of a plain decoder."""

    count: Size
    attention: Attention
    channel: Mlp | Moe


class Decoder(NamedTuple):
    """What formulas of few letters read of a model: only a plain decoder has it."""

    vocab_size: Size
    n_positions: Size
    tied: bool
    layers: tuple[DecoderLayers, ...]


def decoder(spec: ModelSpec) -> Decoder:
    """`spec` as a decoder whose layers are all attention and a feed-forward block.

    Errors: Refused for any other model: the formula has no letters for what it holds besides.
    """
    if spec.towers or spec.heads or spec.head is None or not isinstance(spec.embedding, Embedding):
        raise Refused("convention", "a decoder alone", f"{spec.name}, which has more or other parts")
    if spec.adapter is not None:
        raise Refused(
            "convention", "torch, causal-half or causal-exact beside an adapter", f"the adapter of {spec.name}"
        )
    layers: list[DecoderLayers] = []
    for group in spec.layers:
        mixer, channel = group.mixer, group.channel
        shared = group.shared or group.shared_block is not None or group.laurel is not None or spec.altup is not None
        shared = shared or any(each is not None for each in (group.patched, group.unpatched, group.shortened))
        if not isinstance(mixer, Attention) or not mixer.causal or not isinstance(channel, Mlp | Moe) or shared:
            raise Refused("convention", "layers of causal attention and a feed-forward block", f"others in {spec.name}")
        layers.append(DecoderLayers(group.count, mixer, channel))
    rows = 0 if spec.embedding.n_positions is None else spec.embedding.n_positions
    return Decoder(spec.vocab_size, rows, spec.head.tied, tuple(layers))


@dataclass(frozen=True, slots=True)
class Convention:
    """One way of counting.

    title: one line. source: paper, equation or section, year.
    formulas: what is counted of a plain decoder -> the expression for the whole batch, in the names of `calc.symbols`
        and of a Query, of `letters`, and of the formulas before it. Counted are phases, `training (MODE)` with such
        checkpointing, and `params`: what the convention calls N, every parameter where it gives no formula.
    letters: a further name in them -> what it stands for.
    counts: what it reads and what it leaves out.
    count: FLOPs of the whole batch; it is only called for a phase in `phases` and, in training, a mode in
        `checkpointing` (`calc.conventions.flops` sees to that).
    params: the terms of what the convention calls N, where that is not simply every parameter of the model; else None.
        Called for plain decoders only (`calc.conventions.params` sees to that).
    any_model: whether it counts every model; else only a plain decoder, see `decoder`.
    caveats, params_caveats: what of this model `count`, and `params`, do not see, one sentence each. Sizes are compared
        where they are ints; of symbols and arrays nothing is said.
    """

    name: str
    title: str
    formulas: Mapping[str, str]
    source: str
    counts: str
    count: Callable[[ModelSpec, Run], Flops]
    phases: tuple[Phase, ...]
    checkpointing: tuple[Checkpointing, ...] = ("none",)
    params: Callable[[ModelSpec], Mapping[str, Size]] | None = None
    any_model: bool = False
    caveats: Callable[[ModelSpec], tuple[str, ...]] = no_caveats
    params_caveats: Callable[[ModelSpec], tuple[str, ...]] = no_caveats
    letters: Mapping[str, str] = field(default_factory=dict)

    @property
    def formula(self) -> str:
        """All formulas on one line, with what their letters stand for."""
        definitions = [f"{name} = {text}" for name, text in self.formulas.items()]
        return "; ".join([*definitions, *(f"{name}: {meaning}" for name, meaning in self.letters.items())])
