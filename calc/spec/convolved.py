"""What compressed convolutional attention makes of a token's projections (ZAYA1)."""

from __future__ import annotations

from calc.spec.fields import Dim, Node


class Convolved(Node):
    """Queries and keys pass two causal convolutions, and half of all values are those of the token before.

    Side by side they pass a filter of `d_conv` taps for each channel, then a matrix for each of `d_head_conv` tokens
    within each head, both with biases. The mean of a query and its key as they were projected is added to the query,
    and of a group's queries the mean of these to the key; each head is then brought to the length sqrt(d_head), keys
    times a learned number a head. Values are projected by two matrices of half their width, of which the second reads
    the token before; the first token of a sequence finds zeros there, which are multiplied too. Source: Figliolia et
    al. 2025 (arXiv:2510.04476); transformers 5.23, models/zaya/modeling_zaya.py, ZayaCCAProjection and ZayaQKNorm.
    """

    d_conv: Dim = 2
    d_head_conv: Dim = 2
