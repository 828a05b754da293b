"""What makes one vector of all that a tower gives."""

from __future__ import annotations

from calc.spec.attention import Attention
from calc.spec.channels import Mlp
from calc.spec.fields import Node
from calc.spec.norm import Norm


class AttentionPool(Node):
    """A learned vector asks all of a picture's for one, by attention; a norm and an MLP, added, stand behind it.

    Lee et al. 2019 (arXiv:1810.00825), section 3.2, as in SigLIP: what attention gives is not added to the vector.
    """

    attention: Attention
    channel: Mlp
    norm: Norm = Norm()
