"""What several families' importers share: names of activations, and layers of several kinds in one stack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calc.architectures.config import REFUSE, Config
from calc.errors import Refused
from calc.spec.model import Activation, LayerGroup

ACTIVATIONS: dict[str, Activation] = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_new",
    "gelu_fast": "gelu_fast",
    "gelu_pytorch_tanh": "gelu_tanh",
    "quick_gelu": "quick_gelu",
    "relu": "relu",
    "relu2": "relu2",
    "silu": "silu",
    "swish": "silu",
}
"""Hugging Face's name of an activation -> ours. One that is not here may carry parameters, and is refused."""


def activation(cfg: Config, *names: str, absent: Activation, null: Any = REFUSE) -> Activation:
    """The activation function that the first of `names` gives; `absent` is our name of the family's default."""
    return cfg.choice(*names, among=ACTIVATIONS, absent=absent, null=null)


def stack(kinds: Sequence[str], make: Callable[[str], LayerGroup]) -> dict[str, Any]:
    """`layers` and `schedule` of a ModelSpec whose layer i is of kind `kinds[i]`.

    make(kind) describes one layer of that kind; its name and count are set here. Kinds whose layers come out alike
    are one group.
    """
    order: list[LayerGroup] = []
    group_of: dict[str, int] = {}
    for kind in dict.fromkeys(kinds):
        made = make(kind)
        same = next((i for i, other in enumerate(order) if other == made), None)
        if same is None:
            same = len(order)
            order.append(made)
        group_of[kind] = same
    names = [next(kind for kind, at in group_of.items() if at == i) for i in range(len(order))]
    members = [group_of[kind] for kind in kinds]
    if len(order) == 1:
        return {"layers": (order[0].model_copy(update={"name": "layers", "count": len(kinds)}),)}
    layers = tuple(g.model_copy(update={"name": names[i], "count": members.count(i)}) for i, g in enumerate(order))
    if members == sorted(members):
        return {"layers": layers}
    return {"layers": layers, "schedule": tuple(names[i] for i in members)}


def d_head(cfg: Config, d_model: int, n_heads: int, *names: str, absent: Any = None) -> int | None:
    """A head's width of its own, or None where it follows as d_model / n_heads, which must then divide."""
    own = cfg.size(*(names or ("head_dim",)), absent=absent, null=None)
    if own is None and d_model % n_heads:
        raise Refused(f"{cfg.where}num_attention_heads", f"a divisor of hidden_size = {d_model}", n_heads)
    return own


def kv_heads(cfg: Config, n_heads: int, *names: str, absent: Any = None) -> int | None:
    """Key and value heads; None where there are as many as query heads. They must divide `n_heads`."""
    names = names or ("num_key_value_heads",)
    n = cfg.size(*names, absent=absent, null=None)
    if n is not None and n_heads % n:
        raise Refused(cfg.where + names[0], f"a divisor of the {n_heads} query heads", n)
    return None if n == n_heads else n
