"""What one pass hands to every block beside the vectors themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

import torch
from torch import Tensor

T = TypeVar("T")
Checkpointing = Literal["none", "selective", "full", "full-early-stop"]
Kernel = Literal["eager", "sdpa"]


@dataclass
class Step:
    """One pass over `seq` new tokens of each sequence, `start` of which were seen before.

    positions: [batch or 1, seq], the place of each new token in its sequence (padding does not count).
    keep: [batch, start + seq], False at padding; None where there is none.
    source: [batch, n_source, d_source], an encoder's result; None in decoding, where its keys and values are cached.
    source_keep: [batch, n_source], as keep. token_types: [batch, seq], the segment of each token (BERT).
    masked: [batch, seq], True where a learned vector takes the place of what the front gives (wav2vec 2.0).
    relative: the stack's table of relative positions, where its layers share one (T5).
    lent: by window, the latest keys and values (and the numbers of their tokens) that layers without any of their own
        use; None where there are no such layers. own_input: [batch, seq, d_per_layer], what this layer alone reads.
    deep, image_at: what the vision tower adds behind the first layers, one tensor a layer, and at which tokens.
    stream: [batch, seq, d_model], what the block's input was before its norm.
    kernel: `eager` multiplies in the open, so that it can be counted and its weights shown; `sdpa` calls PyTorch's.
    checkpointing: which activations are computed again going back, as in `calc`.
    need_weights: whether attention maps are kept in `maps`. need_hidden: whether every layer's result is.
    maps: attention weights [batch, n_heads, seq, keys] in the order they were used. losses: what blocks add to the
    objective (load balancing). hidden: the stream before the first layer and after each.
    targets: what a contrastive loss compares with (wav2vec 2.0).
    """

    positions: Tensor
    start: int = 0
    keep: Tensor | None = None
    source: Tensor | None = None
    source_keep: Tensor | None = None
    token_types: Tensor | None = None
    masked: Tensor | None = None
    relative: Callable[..., Tensor] | None = None
    lent: dict[int | None, tuple[Tensor, Tensor, Tensor]] | None = None
    own_input: Tensor | None = None
    deep: Sequence[Tensor] = ()
    image_at: Tensor | None = None
    stream: Tensor | None = None
    kernel: Kernel = "eager"
    checkpointing: Checkpointing = "none"
    need_weights: bool = False
    need_hidden: bool = False
    maps: list[Tensor] = field(default_factory=list)
    losses: list[Tensor] = field(default_factory=list)
    hidden: list[Tensor] = field(default_factory=list)
    targets: list[Tensor] = field(default_factory=list)

    def fresh(self) -> Step:
        """The same pass with nothing recorded: a block that runs twice must not record twice."""
        return replace(self, maps=[], losses=[], hidden=[])

    def take(self, other: Step) -> None:
        """Add what `other` recorded."""
        self.maps += other.maps
        self.losses += other.losses
        self.hidden += other.hidden

    def mask(self, seq: int, keys: Tensor, *, causal: bool, window: int | None = None, chunked: bool = False) -> Tensor:
        """[batch or 1, 1, seq, keys], True where a new token may attend. keys: the number of each key's token.

        window: how far back a token sees, and without causal as far ahead; chunked: it sees its own chunk that long.
        """
        queries = torch.arange(self.start, self.start + seq, device=keys.device)[:, None]
        allowed = (keys >= 0).expand(seq, -1)
        if causal:
            allowed = allowed & (keys <= queries)
        if window is not None and chunked:
            allowed = allowed & (keys // window == queries // window)
        elif window is not None:
            allowed = allowed & ((keys - queries).abs() < window)
        allowed = allowed[None, None]
        if self.keep is not None:
            inside = keys.clamp(0, self.keep.shape[-1] - 1)
            allowed = allowed & self.keep[:, inside][:, None, None]
        return allowed


def recomputed(function: Callable[..., T], *inputs: Tensor, early_stop: bool = False) -> T:
    """`function(*inputs)` whose inner tensors are not kept for backward but computed again there.

    early_stop: recomputation ends at the last tensor that backward needs; otherwise all of `function` runs again.
    """
    from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

    with set_checkpoint_early_stop(early_stop):
        return checkpoint(function, *inputs, use_reentrant=False)
