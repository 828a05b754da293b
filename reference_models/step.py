"""What one pass hands to every block beside the vectors themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import torch
from torch import Tensor

if TYPE_CHECKING:
    from reference_models.blocks.funnel_tables import Blocks

T = TypeVar("T")
Checkpointing = Literal["none", "selective", "full", "full-early-stop"]
Kernel = Literal["eager", "sdpa"]


@dataclass
class Step:
    """One pass over `seq` new tokens of each sequence, `start` of which were seen before: an int, or a tensor of
    one, where nothing may depend on its value but numbers.

    positions: [batch or 1, seq], the place of each new token in its sequence (padding does not count).
    keep: [batch, start + seq], False at padding; None where there is none.
    filled: how many of the last vectors stand for no token, but fill the text up (LED). uncut: the layers' result with
        them, where there are such.
    tokens: [batch, seq], the numbers of the tokens that the front read, where it reads tokens.
    source: [batch, n_source, d_source], an encoder's result; None in decoding, where its keys and values are cached.
    source_keep: [batch, n_source], as keep. token_types: [batch, seq], the segment of each token (BERT).
    added: [batch or 1, seq, d_model], what a front gives for the queries and keys of every layer (DETR); source_added:
        the same of the source. grid: rows and columns of a picture's patches; places [2, seq]: each one's row and
        column, below 0 for a learned vector.
    encoded: [batch, n_source, d_model], what the last dense layer behind an encoder gives, where there is one.
    boxes: [batch, seq, 4], the ends of the box around each token, and pictures [batch, channels, height, width], of the
        pages of texts (LayoutLMv3); page: of all vectors of a page, their places in the text or the picture [batch, n],
        and their boxes [batch, n, 4].
    restore: [batch, patches], where each patch of a picture came to stand when some were masked (ViT-MAE).
    shapes: [batch], how tiles make up each picture, and added_to_scores [batch, 1, seq, seq], of an encoder of tiles.
    masked: [batch, seq], True where a learned vector takes the place of what the front gives (wav2vec 2.0).
    relative: the stack's table of relative positions, where its layers share one (T5). distances: the vectors of
        distances [rows, d_model] that all layers read (DeBERTa).
    lent: by window, the latest keys and values (and the numbers of their tokens) that layers without any of their own
        use, or latents by position, under `values` the first layer's values that all others mix into theirs (RWKV-7),
        and under `late` what experts of the layer before give (LongCat-Flash); None where there are no such layers.
    chosen: by the number of a layer, the tokens that its indexer chose, [batch, 1, seq, tokens]; layers without one
        look them up, and do so again where they are recomputed.
        own_input: [batch, seq, d_per_layer], what this layer alone reads.
    narrow: what norms read of a stream in fp32, where the model is in another format; None: as it is.
    deep, image_at: what the vision tower adds behind the first layers, one tensor a layer, and at which tokens.
    tuned: [pairs], of what each frequency of rotary positions is multiplied with the logarithm (Mistral Large 4).
    embedded: [batch, seq, d_model], what entered the first layer, where layers read it too (Zamba2, DeBERTa-v2).
    stream: [batch, seq, d_model], what the block's input was before its norm. layer, n_layers: the number of the layer
        that runs, from 0, and how many there are.
    kernel: `eager` multiplies in the open, so that it can be counted and its weights shown; `sdpa` calls PyTorch's.
    checkpointing: which activations are computed again going back, as in `calc`.
    dropout: the probability with which training drops attention weights, and what blocks and embedding give where the
    description says so. made: what all layers share and one of them makes (angles).
    need_weights: whether attention maps are kept in `maps`. need_hidden: whether every layer's result is.
    maps: attention weights [batch, n_heads, seq, keys] in the order they were used. losses: what blocks add to the
    objective (load balancing). hidden: the stream before the first layer and after each.
    ends: what each stage of a picture's patches gave, with its rows and columns.
    targets: what a contrastive loss compares with (wav2vec 2.0).
    blocks: where a text stands among its halvings, and the tables of its layers (Funnel Transformer).
    unpatched: bytes' vectors [batch, seq, d_model] ahead of patches, and their step; patches: the vectors of these that
        bytes read [batch, n, d_model], and what is added to their scores [batch, 1, seq, n] (BLT).
    """

    positions: Tensor
    start: Any = 0
    keep: Tensor | None = None
    filled: int = 0
    tokens: Tensor | None = None
    source: Tensor | None = None
    source_keep: Tensor | None = None
    token_types: Tensor | None = None
    added: Tensor | None = None
    source_added: Tensor | None = None
    grid: tuple[int, int] | None = None
    places: Tensor | None = None
    encoded: Tensor | None = None
    restore: Tensor | None = None
    boxes: Tensor | None = None
    pictures: Tensor | None = None
    page: tuple[Tensor, Tensor] | None = None
    shapes: Tensor | None = None
    added_to_scores: Tensor | None = None
    masked: Tensor | None = None
    relative: Callable[..., Tensor] | None = None
    distances: Tensor | None = None
    lent: dict[Any, tuple[Tensor, ...]] | None = None
    narrow: torch.dtype | None = None
    chosen: dict[int, Tensor] = field(default_factory=dict)
    uncut: list[Tensor] = field(default_factory=list)
    own_input: Tensor | None = None
    deep: Sequence[Tensor] = ()
    image_at: Tensor | None = None
    embedded: Tensor | None = None
    tuned: Tensor | None = None
    stream: Tensor | None = None
    layer: int = 0
    n_layers: int = 1
    kernel: Kernel = "eager"
    checkpointing: Checkpointing = "none"
    dropout: float = 0.0
    made: dict[Any, Any] = field(default_factory=dict)
    need_weights: bool = False
    need_hidden: bool = False
    ends: list[tuple[Tensor, Any]] = field(default_factory=list)
    maps: list[Tensor] = field(default_factory=list)
    losses: list[Tensor] = field(default_factory=list)
    hidden: list[Tensor] = field(default_factory=list)
    targets: list[Tensor] = field(default_factory=list)
    blocks: Blocks | None = None
    unpatched: tuple[Tensor, Step] | None = None
    patches: tuple[Tensor, Tensor] | None = None

    def fresh(self) -> Step:
        """The same pass with nothing recorded: a block that runs twice must not record twice, nor read the second time
        what later layers have lent since."""
        lent = None if self.lent is None else dict(self.lent)
        return replace(self, maps=[], losses=[], hidden=[], lent=lent)

    def narrowed(self, x: Tensor) -> Tensor:
        """x of the stream as a norm reads it."""
        return x if self.narrow is None else x.to(self.narrow)

    def take(self, other: Step) -> None:
        """Add what `other` recorded, and lend what it lent."""
        if self.lent is not None:
            self.lent.update(other.lent or {})
        self.maps += other.maps
        self.losses += other.losses
        self.hidden += other.hidden

    def hides(self, seq: int, n_keys: int, *, causal: bool, window: int | None = None) -> bool:
        """Whether attention needs a mask of its own: tokens are hidden, and not just those ahead of a whole sequence.

        As in transformers 5.23 (masking_utils.py, _ignore_causal_mask_sdpa), where a window as long as the sequence
        counts as one that hides something.
        """
        shifted = causal and (isinstance(self.start, Tensor) or self.start > 0 or n_keys != seq)
        return self.keep is not None or shifted or (window is not None and seq >= window)

    def numbers(self, seq: int, device: torch.device) -> Tensor:
        """[seq]: the number of each new token in its sequence, padding included."""
        if isinstance(self.start, Tensor):
            return self.start + torch.arange(seq, device=device)
        return torch.arange(self.start, self.start + seq, device=device)

    def mask(
        self,
        seq: int,
        keys: Tensor,
        *,
        causal: bool,
        window: int | None = None,
        chunked: bool = False,
        further: bool = False,
    ) -> Tensor:
        """[batch or 1, 1, seq, keys], True where a new token may attend. keys: the number of each key's token.

        window: how far back a token sees, and without causal as far ahead, or where `further` one more; chunked: it
        sees its own chunk that long.
        """
        queries = self.numbers(seq, keys.device)[:, None]
        allowed = (keys >= 0).expand(seq, -1)
        if causal:
            allowed = allowed & (keys <= queries)
        if window is not None and chunked:
            allowed = allowed & (keys // window == queries // window)
        elif window is not None:
            allowed = allowed & (queries - keys < window) & (keys - queries < window + further)
        allowed = allowed[None, None]
        if self.keep is not None:
            inside = keys.clamp(0, self.keep.shape[-1] - 1)
            allowed = allowed & self.keep[:, inside][:, None, None]
        return allowed


def recomputed(function: Callable[..., T], *inputs: Tensor | None, early_stop: bool = False) -> T:
    """`function(*inputs)` whose inner tensors are not kept for backward but computed again there.

    early_stop: recomputation ends at the last tensor that backward needs; otherwise all of `function` runs again.
    """
    from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

    if torch.compiler.is_compiling():
        # The compiler recomputes what backward needs and no more, whatever is said here.
        return checkpoint(function, *inputs, use_reentrant=False)
    with set_checkpoint_early_stop(early_stop):
        return checkpoint(function, *inputs, use_reentrant=False)
