"""Maps of one width of what every stage of a picture's patches gives."""

from __future__ import annotations

from typing import ClassVar

from calc.spec.fields import Dim, Node
from calc.spec.norm import Norm


class Pyramid(Node):
    """A feature pyramid (Lin et al. 2017, arXiv:1612.03144): a matrix with a bias makes a map of width d_out of the
    vectors behind each stage. top_down: numbers of the stages, from 0, to whose maps that of the stage behind it is
    added, each vector of which stands for 2 x 2 places."""

    symbols: ClassVar[dict[str, str]] = {"d_out": "d_map"}
    d_out: Dim
    top_down: tuple[int, ...] = ()


class Neck(Node):
    """One map of width d_out of what the last layer gives for a picture's patches: a matrix, a norm, a convolution of
    3 x 3 patches and a norm, without biases of their own (Segment Anything: Kirillov et al. 2023, arXiv:2304.02643)."""

    symbols: ClassVar[dict[str, str]] = {"d_out": "d_map"}
    d_out: Dim
    norm: Norm = Norm(kind="layernorm", bias=True, eps=1e-6)
