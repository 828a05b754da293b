"""What a layer finds around it: what it reads beside its own input, and what layers lend one another."""

from __future__ import annotations

from dataclasses import dataclass, field

from calc.blocks.per_layer import LayerInputs
from calc.sizes import Size, equal
from calc.spec import AltUp, StreamMixing
from calc.spec.load import Load
from calc.trace.tensor import Tensor

Lender = Size | str | None
"""What tells layers apart that lend: the window of attention over keys, the position of attention over latents."""


@dataclass(frozen=True, slots=True)
class Halvings:
    """Vectors as they have been halved. name: of the block of layers at hand, in which tables of distances are shared.
    whole: the vectors ahead of the first halving, and their load; before: those ahead of the last one. earlier: the
    same of the block before."""

    name: str
    whole: tuple[Tensor, Load]
    before: tuple[Tensor, Load] | None = None
    earlier: Halvings | None = None


@dataclass(slots=True)
class Surroundings:
    """source: an encoder's result, and length: its vectors for each sequence. places, source_places: what attention
    adds to queries and keys to tell vectors apart, of the stack's own and of the source's. bias: the numbers of a table
    of distances that all layers of a stack share; distances: the vectors of another such table. inputs: of all layers,
    beside the stream. stream: what the block at hand reads, as it was ahead of its norm. streams: how many residual
    streams there are, and how they mix; None: one. altup: streams of which layers work on one. embedded: what entered
    the first layer. mask: numbers of what is added to the scores of all layers. held: numbers that are live while any
    of them runs, by names in modules, and by what is read behind the layers. lent: keys and values of the layers so
    far, by window, or latents and shared keys, by position. values: those that RWKV-7's first layer lends all others.
    sequences: how many the layers read. router: what the router of the layer before had ahead of its norm, where those
    carry it on. late: what experts of the layer before give, to be added behind this one.
    grid: rows and columns of a picture's patches, as the layers at hand read them; ends: what each stage of them so far
    has given, with its own. conditioning: what modulates all layers of a denoiser; n_text: vectors of text that stand
    ahead of its patches.
    stage: how vectors have been halved so far; None: nowhere in the stack are they.
    unpatched: the vectors of bytes ahead of patches, and their load; patches: the vectors of these that bytes read, and
    how many of each sequence. by_channel: what attention reads lies channel by channel, so that each projection copies
    what it reads of several sequences."""

    source: Tensor | None = None
    length: Size = 0
    source_places: Tensor | None = None
    places: Tensor | None = None
    bias: Tensor | None = None
    distances: Tensor | None = None
    inputs: LayerInputs | None = None
    stream: Tensor | None = None
    streams: tuple[Size, StreamMixing] | None = None
    lent: list[tuple[Lender, Tensor, Tensor]] = field(default_factory=list)
    mask: Size = 0
    held: tuple[Size, Size] = (0, 0)
    values: Tensor | None = None
    sequences: Size = 1
    router: Tensor | None = None
    embedded: Tensor | None = None
    altup: AltUp | None = None
    grid: tuple[Size, Size] = (0, 0)
    ends: list[tuple[Tensor, tuple[Size, Size]]] = field(default_factory=list)
    conditioning: Tensor | None = None
    late: Tensor | None = None
    n_text: Size = 0
    stage: Halvings | None = None
    unpatched: tuple[Tensor, Load] | None = None
    patches: tuple[Tensor, Size] | None = None
    by_channel: bool = False

    def lend(self, of: Lender, k: Tensor, v: Tensor) -> None:
        """Note the keys and values of a layer with that window, or its latents and shared keys of that position."""
        self.lent.append((of, k, v))

    def borrowed(self, of: Lender) -> tuple[Tensor, Tensor]:
        """Those of the last such layer."""
        return next((k, v) for other, k, v in reversed(self.lent) if _same(other, of))


def _same(a: Lender, b: Lender) -> bool:
    """Whether two windows are equal, or both none, or two positions the same."""
    if any(each is None or isinstance(each, str) for each in (a, b)):
        return type(a) is type(b) and a == b
    return equal(a, b)
