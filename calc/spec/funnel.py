"""Texts in blocks of ever fewer vectors: what halves them between two blocks, and attention by distance within them.

Source: Dai et al. 2020 (arXiv:2006.03236, section 2 and appendix A.2); transformers 5.23,
models/funnel/modeling_funnel.py.
"""

from __future__ import annotations

from typing import Literal

from calc.sizes import Size, ceil_div
from calc.spec.fields import Dim, Node


class Halved(Node):
    """Ahead of layers that read half as many vectors: of two neighbours their mean, or the larger of their values.

    first_apart: the first vector stands alone, and the others are paired behind it. cut: then the last one is left out,
    so that an even number of vectors stays one.
    """

    how: Literal["mean", "max"] = "mean"
    first_apart: bool = True
    cut: bool = True

    def laid(self, seq: Size) -> Size:
        """The vectors of which two neighbours are paired, of `seq` that there are: the first one twice, as it stands
        alone."""
        return seq + 1 if self.first_apart and not self.cut else seq

    def count(self, seq: Size) -> Size:
        """The vectors that are left of `seq`."""
        return ceil_div(self.laid(seq), 2)


class FunnelAttention(Node):
    """Scores of contents, of distances and of segments, each with a learned vector a head that is added to queries.

    factorized: queries pass the matrix of distances, and sines and cosines of both places are multiplied with what it
    gives; False: each distance's sinusoid passes it once for all texts, and each pair's score is looked up.
    first_apart: pairs with the first vector have scores of contents alone. unhalved: keys and values are those of the
    vectors ahead of the halving that stands ahead of the layer.
    """

    kind: Literal["funnel_attention"] = "funnel_attention"
    n_heads: Dim
    d_head: Dim
    factorized: bool = False
    first_apart: bool = True
    unhalved: bool = False

    @property
    def causal(self) -> bool:
        """Tokens see those to come."""
        return False
