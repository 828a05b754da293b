"""What several families' importers share: names of activations, and layers of several kinds in one stack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from calc.architectures.config import REFUSE, Config
from calc.errors import Refused
from calc.spec import Activation, Attention, LayerGroup, Norm

LAYER_NORM = Norm(kind="layernorm", bias=True)
"""The LayerNorm of most families: weight and bias, epsilon 1e-5, where no key says otherwise."""

ACTIVATIONS: dict[str, Activation] = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_new",
    "gelu_fast": "gelu_fast",
    "gelu_pytorch_tanh": "gelu_tanh",
    "quick_gelu": "quick_gelu",
    "relu": "relu",
    "relu2": "relu2",
    "relu6": "relu6",
    "leaky_relu": "leaky_relu",
    "silu": "silu",
    "swish": "silu",
    "hardswish": "hardswish",
    "mish": "mish",
    "tanh": "tanh",
    "sigmoid": "sigmoid",
}
"""Hugging Face's name of an activation -> ours. One that is not here may carry parameters, and is refused."""

LAYER_TYPES = {"sliding_attention": "sliding", "full_attention": "full"}
"""A word in transformers' `layer_types` -> the name of our layer group."""

LAYERS_OF_THEIR_OWN = {"gemma4_text", "step3p5"}
"""Families that read `per_layer_config`, in which layers have sizes of their own."""

LINEAR_TYPES = {"linear_attention": "linear", "full_attention": "full"}
"""A word in `layer_types` of families with a recurrence in some layers -> the kind of that layer's mixer."""

MLP_TYPES = {"dense": "dense", "sparse": "moe"}
"""A word in transformers' `mlp_layer_types` -> the kind of that layer's channel mixer."""


def activation(cfg: Config, *names: str, absent: Activation, null: Any = REFUSE) -> Activation:
    """The activation function that the first of `names` gives; `absent` is our name of the family's default."""
    return cfg.choice(*names, among=ACTIVATIONS, absent=absent, null=null)


def without_further_tokens(cfg: Config, key: str) -> None:
    """Note that the modules that predict further tokens, whose number `key` gives, are left out."""
    count = cfg.count(key, absent=None, null=None)
    if count:
        cfg.notes.append(f"{cfg.where}{key} is {count}: left out, as no implementation describes these modules")


def layer_kinds(cfg: Config, rule: Sequence[str]) -> tuple[str, ...]:
    """`sliding` or `full` for each layer: what `layer_types` says, else `rule`, the family's own."""
    words = cfg.words("layer_types", among=tuple(LAYER_TYPES), length=len(rule), absent=None, null=None)
    return tuple(rule) if words is None else tuple(LAYER_TYPES[word] for word in words)


def linear_kinds(cfg: Config, n_layers: int) -> tuple[str, ...] | None:
    """`linear` or `full` for each layer as `layer_types` says; None where it is absent."""
    words = cfg.words("layer_types", among=tuple(LINEAR_TYPES), length=n_layers, absent=None, null=None)
    return None if words is None else tuple(LINEAR_TYPES[word] for word in words)


def mlp_kinds(cfg: Config, rule: Sequence[str]) -> list[str]:
    """`dense` or `moe` for each layer: what `mlp_layer_types` says, else `rule`, the family's own."""
    words = cfg.words("mlp_layer_types", among=tuple(MLP_TYPES), length=len(rule), absent=None, null=None)
    return list(rule) if words is None else [MLP_TYPES[word] for word in words]


def alternating(n_layers: int, period: int) -> list[str]:
    """`sliding` for all layers but every `period`-th, which is `full`."""
    return ["sliding" if (i + 1) % period else "full" for i in range(n_layers)]


def window_of(kind: str, window: int | None) -> int | None:
    """The window of a layer of this kind. A layer that slides must be told how far."""
    if not kind.startswith("sliding"):
        return None
    if window is None:
        raise Refused("sliding_window", "a window in use, since some layers slide", None)
    return window


def sliding_stack(
    kinds: Sequence[str],
    mixer: Attention,
    window: int | None,
    own: Callable[[str], dict[str, Any]] = lambda kind: {},
    **group: Any,
) -> dict[str, Any]:
    """`stack` of layers that differ in their attention alone: those of a sliding kind have the window.

    own(kind): further fields of Attention that layers of that kind have. group: fields of LayerGroup, for all of them.
    """

    def layer(kind: str) -> LayerGroup:
        attention = mixer.model_copy(update={"window": window_of(kind, window)} | own(kind))
        return LayerGroup(count=len(kinds), mixer=attention, **group)

    return stack(kinds, layer)


def crossed_stack(
    mixers: Sequence[str], channels: Sequence[str], make: Callable[[str, str], LayerGroup]
) -> dict[str, Any]:
    """`stack` of layers whose mixer is of one kind and whose channel mixer of another: layer i is
    `make(mixers[i], channels[i])`. No kind of mixer has an underscore."""
    kinds = [f"{mixer}_{channel}" for mixer, channel in zip(mixers, channels, strict=True)]
    return stack(kinds, lambda kind: make(*kind.split("_", 1)))


def layer_norm(cfg: Config, name: str = "layer_norm_epsilon", *, bias: bool = True) -> Norm:
    """LayerNorm whose epsilon stands under `name`; 1e-5 where it is absent."""
    return Norm(kind="layernorm", bias=bias, eps=cfg.number(name, absent=1e-5))


def one_window(cfg: Config, n_layers: int, window: int | None) -> None:
    """Refuse `layer_types` that contradict the one window (or none) which this family gives to all layers."""
    kind = "full" if window is None else "sliding"
    if set(layer_kinds(cfg, [kind] * n_layers)) != {kind}:
        raise Refused(f"{cfg.where}layer_types", f"{kind}_attention in every layer of this family", "others")


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


def d_head(cfg: Config, d_model: int, n_heads: int, *names: str, absent: Any = None, null: Any = None) -> int | None:
    """A head's width of its own, or None where it follows as d_model / n_heads, which must then divide."""
    own = cfg.size(*(names or ("head_dim",)), absent=absent, null=null)
    if own is None and d_model % n_heads:
        raise Refused(f"{cfg.where}num_attention_heads", f"a divisor of hidden_size = {d_model}", n_heads)
    return own


def no_own_d_head(cfg: Config) -> None:
    """Refuse a head_dim other than hidden_size / num_attention_heads, in a family whose heads know no other width."""
    d_model, n_heads = cfg.size("hidden_size"), cfg.size("num_attention_heads")
    own = cfg.multiple("hidden_size", d_model, "num_attention_heads", n_heads)
    cfg.only("head_dim", None, own, why="heads of this family have no width of their own")


def kv_heads(cfg: Config, n_heads: int, *names: str, absent: Any = None, null: Any = None) -> int | None:
    """Key and value heads; None where there are as many as query heads. They must divide `n_heads`."""
    names = names or ("num_key_value_heads",)
    n = cfg.size(*names, absent=absent, null=null)
    if n is not None and n_heads % n:
        raise Refused(cfg.where + names[0], f"a divisor of the {n_heads} query heads", n)
    return None if n == n_heads else n
