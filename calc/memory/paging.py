"""How serving engines allocate the key-value cache: pages of fixed size, and which layers share them."""

from __future__ import annotations

from dataclasses import dataclass

from calc.errors import Refused
from calc.sizes import Size, ceil_div, minimum


@dataclass(frozen=True, slots=True)
class Paged:
    """Layers of one kind on one rank.

    token_bytes: of a token in one layer. layers: how many on this rank, of `whole` in the model. block: tokens of a
    page. window: of tokens that stay, None where all do. chunked: the window is a chunk.
    """

    token_bytes: Size
    layers: Size
    whole: Size
    block: Size
    window: Size | None = None
    chunked: bool = False

    def blocks(self, tokens: Size, batched: Size) -> Size:
        """Pages of one layer for a sequence of `tokens`, of which `batched` can be in one pass.

        A window keeps the W - 1 tokens before those of a pass, and may begin within a page.
        """
        if self.window is None:
            return ceil_div(tokens, self.block)
        if self.chunked:
            return ceil_div(minimum(self.window + batched, tokens), self.block)
        return ceil_div(minimum(self.window - 1 + batched, tokens), self.block) + 1


def allocated(kinds: list[Paged], tokens: Size, batched: Size) -> Size:
    """Bytes of one sequence on one rank.

    Layers that keep the same tokens each have pages of their own size. Otherwise all pages are made the size of the
    largest by taking more tokens into one, and layers are put into groups of one size, each with one table of pages:
    as many layers as the kind with the fewest has, or as the kind with the most where that is less than half more.
    Errors: Refused where pages cannot be made one size, and for several kinds of layers where sizes are no ints.
    """
    if len({(kind.block, kind.window, kind.chunked) for kind in kinds}) <= 1:
        return sum(kind.layers * kind.blocks(tokens, batched) * kind.block * kind.token_bytes for kind in kinds)
    if not all(isinstance(n, int) for kind in kinds for n in (kind.token_bytes, kind.whole, kind.block, kind.layers)):
        raise Refused(
            "engine",
            "whole numbers where layers of several kinds share pages, for which there is no formula",
            "symbols or arrays",
        )
    page = max(kind.block * kind.token_bytes for kind in kinds)
    counts = [kind.whole for kind in kinds]
    group = max(counts) if 2 * max(counts) < 3 * min(counts) else min(counts)
    pages, deep = 0, 0
    for kind in kinds:
        if page % (kind.block * kind.token_bytes):
            raise Refused("engine", f"pages that divide the largest ({page} bytes)", kind.block * kind.token_bytes)
        tables = ceil_div(kind.whole, group)
        larger = Paged(kind.token_bytes, kind.layers, kind.whole, page // kind.token_bytes, kind.window, kind.chunked)
        pages = pages + tables * larger.blocks(tokens, batched)
        # A stage of a pipeline has its share of every group; the fullest one decides how deep the pool is.
        deep = max(deep, ceil_div(kind.layers, tables))
    return deep * page * pages
