"""What an operator computes, in as many words as there are different speeds, and the shapes of its products."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

from calc.sizes import Size
from calc.spec.channels import Activation

Function = Literal[
    "matmul",
    "scores",
    "values",
    "batched_matmul",
    "convolution",
    "conv1d",
    "layernorm",
    "rmsnorm",
    "batchnorm",
    "l2norm",
    "add",
    "scale",
    Activation,
    "xielu",
    "swiglu",
    "swiglu_clamped",
    "swiglu_cut",
    "geglu",
    "geglu_new",
    "softmax",
    "softcap",
    "rope",
    "gather",
    "route",
    "dispatch",
    "combine",
    "scan",
    "pool",
    "copy",
    "other",
]
"""What is computed, as one kernel made for it would.

matmul: vectors times a weight, of one matrix or of each expert's. scores, values: queries against keys, and weights
against values. batched_matmul: any other product of activations. convolution: a kernel over places, all channels mixed;
conv1d: a filter of its own for each channel, over time. l2norm: a vector divided by its length.
add: the sum of two, as where a block joins the residual stream. scale: a product of two, or with a vector.
gelu_new, gelu_fast: the tanh form of GELU written out, which only eager execution tells from gelu_tanh. xielu: as
`primitives/xielu.py` has it. swiglu, geglu: the activation of one half times the other in one; geglu_new of that
written out, swiglu_clamped with both halves cut (gpt-oss), swiglu_cut with the activation's result cut in place of the
gate (Step 3.5). softmax: with the scaling, the mask and the bias ahead of it.
gather: rows of a table. route: weights of the experts and their choice. dispatch: tokens into the experts' order;
combine: back, weighed and added. scan: what walks over a state elementwise. pool: means over places. copy: nothing but
moving. other: what has no name here, elementwise.
"""


class Traits(NamedTuple):
    """What holds of a function wherever it is laid.

    alone: it has no products and is no pass from one end of a tensor to the other: a kernel of its own. in_core: it may
    stand between scores and values in one kernel for attention: a cap, a bias looked up, the softmax. needs_operands:
    going back reads what forward read, and not only the gradient that comes in. wide: it runs in the format of the
    residual stream, which autocast keeps wider than products. of_experts: engines' kernels for experts do it beside
    their products and activations. in_place: a compiled kernel writes its result over what it reads.
    """

    alone: bool = False
    in_core: bool = False
    needs_operands: bool = True
    wide: bool = False
    of_experts: bool = False
    in_place: bool = False


_TRAITS: dict[Function, Traits] = {
    "layernorm": Traits(wide=True),
    "rmsnorm": Traits(wide=True),
    "batchnorm": Traits(wide=True),
    "l2norm": Traits(wide=True),
    "add": Traits(wide=True, needs_operands=False),
    "scale": Traits(in_core=True),
    "softmax": Traits(in_core=True, wide=True),
    "softcap": Traits(in_core=True),
    "rope": Traits(needs_operands=False, in_place=True),
    "gather": Traits(in_core=True, wide=True),
    "route": Traits(alone=True),
    "dispatch": Traits(alone=True, needs_operands=False, of_experts=True),
    "combine": Traits(of_experts=True),
    "scan": Traits(alone=True),
    "pool": Traits(needs_operands=False),
    "copy": Traits(needs_operands=False),
}
TRAITS: dict[Function, Traits] = {function: _TRAITS.get(function, Traits()) for function in get_args(Function)}
"""Every function's; those that are not named above have none."""

ATTENTION_BACK = 2.5
"""FLOPs of attention's backward over its forward's, in one kernel: five products for two, one of them the scores once
more (Dao et al. 2022, arXiv:2205.14135, algorithm 4)."""

_GATED: dict[str, Function] = {"silu": "swiglu", "gelu_new": "geglu_new", "gelu_fast": "geglu_new"}


Clamped = Literal["gate", "activated"]
"""Which is cut beside the other half: the gate, or what its activation gives."""


def gated(activation: str, clamped: Clamped | None = None) -> Function:
    """The function of an activation times a gate, by the activation's name in `calc.spec`."""
    if clamped is None:
        return _GATED.get(activation, "geglu")
    return "swiglu_clamped" if clamped == "gate" else "swiglu_cut"


@dataclass(frozen=True, slots=True)
class Matmul:
    """`groups` products [m, k] x [k, n]; m may be a fraction where tokens do not divide among experts.

    groups: 1 for a dense matrix; of experts, the most that the tokens can visit, each with its share of the visits.
    weighed: whether [k, n] is a weight (False: a product of activations).
    """

    m: Size
    n: Size
    k: Size
    groups: Size = 1
    weighed: bool = True


@dataclass(frozen=True, slots=True)
class Attend:
    """Scores or weighted values: `groups` groups of heads that share keys and values, each of heads / kv_heads heads.

    groups: batch * n_kv_heads. heads: query heads of one group. queries: new tokens of a sequence. keys: cached and new
    ones that are multiplied. d_head: width of queries and keys; d_value: of values. causal: a query sees the keys up to
    its own place, the last query all of them. window: the most keys that a query sees, None for all; chunked: within
    its own chunk of that length. latent: values are the first d_value numbers of the keys and are not read again.
    """

    groups: Size
    heads: Size
    queries: Size
    keys: Size
    d_head: Size
    d_value: Size
    causal: bool = True
    window: Size | None = None
    chunked: bool = False
    latent: bool = False


@dataclass(frozen=True, slots=True)
class Recurrence:
    """A kernel that engines run of a layer with a recurrent state, in whose place the record has one op or several:
    the gated delta rule, or the short convolution in front of a rule or of Mamba-2's scan.

    heads: of values, or of the scan; key_heads: of queries and keys, or groups of B and C. d_key, d_value: their
    widths. whole: whether an op stands for all of it; False: it runs within another that does.
    """

    kind: Literal["delta_rule", "convolution", "scan_convolution"]
    heads: Size
    key_heads: Size
    d_key: Size
    d_value: Size
    whole: bool = True
