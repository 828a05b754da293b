"""What compares the vectors of two stacks."""

from __future__ import annotations

from calc.spec.fields import Dim, Node


class Contrast(Node):
    """Every text's vector times every picture's, and a learned scale (CLIP: Radford et al. 2021, section 2.3).

    d_contrast: the width to which both were projected. bias: a learned number is added to every product (SigLIP).
    """

    d_contrast: Dim
    bias: bool = False
