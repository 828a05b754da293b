"""Maps of one width of what every stage of a picture's patches gives."""

from __future__ import annotations

from typing import ClassVar

from calc.spec.fields import Dim, Node


class Pyramid(Node):
    """A feature pyramid (Lin et al. 2017, arXiv:1612.03144): a matrix with a bias makes a map of width d_out of the
    vectors behind each stage. top_down: numbers of the stages, from 0, to whose maps that of the stage behind it is
    added, each vector of which stands for 2 x 2 places."""

    symbols: ClassVar[dict[str, str]] = {"d_out": "d_map"}
    d_out: Dim
    top_down: tuple[int, ...] = ()
