"""FLOPs as sums over the tree of ops: forward, training with recomputation, decode of one token."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from calc.blocks.build import build
from calc.errors import Refused
from calc.sizes import Size, quotient
from calc.spec import Attention, Mlp, ModelSpec
from calc.spec.load import Load
from calc.spec.run import CHECKPOINTING, Checkpointing
from calc.spec.traced import Traced
from calc.trace.functions import Matmul
from calc.trace.gradients import backward
from calc.trace.op import Op
from calc.trace.part import Leaf, leaves


@dataclass(frozen=True, slots=True)
class Flops:
    """FLOPs of a pass over the whole batch; `total` is the sum of the three.

    linear: products with weights, logits included. attention: scores and weighted values. other: all else.
    """

    linear: Size
    attention: Size
    other: Size = 0

    @property
    def total(self) -> Size:
        return self.linear + self.attention + self.other

    def per_token(self, tokens: Size) -> Size:
        """The total over the new tokens of the batch (`Run.tokens`); an int where it divides."""
        return quotient(self.total, tokens)

    def scaled(self, factor: Size) -> Flops:
        """Every term times `factor`."""
        return Flops(self.linear * factor, self.attention * factor, self.other * factor)


def forward(spec: ModelSpec, load: Load) -> Flops:
    """One forward pass: every matrix multiplication that runs, a multiply-accumulate as 2, logits at all positions."""
    return _sum(list(leaves(build(spec, load))))


def prefill(spec: ModelSpec, load: Load) -> Flops:
    """As forward, with logits of each sequence's last position alone, from which the first new token is drawn."""
    return _sum(list(leaves(build(spec, load))), lambda leaf: of_last(leaf, load))


def of_last(leaf: Leaf, load: Load) -> Size:
    """FLOPs of one call of an op when a prompt is read: those of a head are of one vector a sequence."""
    op = leaf.op
    if leaf.in_head and isinstance(op.shape, Matmul):
        return quotient(op.flops * load.batch, op.shape.m)
    return op.flops


def training(spec: ModelSpec, load: Load, checkpointing: Checkpointing = "none") -> Flops:
    """Forward, backward and recomputation of one step.

    Each product of the forward pass needs two more going back: one for the gradient of its weights (or of its second
    operand), one for that of its input; only those that something trained needs. Checkpointing runs
    some products once more:
    `selective` attention scores and values (Korthikanti et al. 2022), `full` all of each layer, `full-early-stop` each
    layer up to the last op whose tensors backward needs, as non-reentrant torch.utils.checkpoint does, `selective-op`
    of what that runs again every second product with a weight, the first of them kept, and no attention, whose result
    is kept too (torchtitan's selective_ac_option "op").
    Errors: Refused for another word, and under selective-op as `plain_products`.
    """
    if checkpointing == "selective-op":
        plain_products(spec)
    everything = list(leaves(build(spec, load)))
    once, back = _sum(everything), _sum(everything, lambda leaf: backward(leaf.op))
    again = _sum(recomputed(everything, checkpointing))
    return Flops(once.linear + back.linear + again.linear, once.attention + back.attention + again.attention)


def recomputed(everything: list[Leaf], checkpointing: Checkpointing) -> list[Leaf]:
    """The ops whose products run once more under `checkpointing`; see `training`."""
    if checkpointing == "none":
        return []
    if checkpointing == "selective":
        return [leaf for leaf in everything if leaf.op.kind == "attention" and leaf.op.live and leaf.layer]
    passed = {leaf.layer for leaf in everything if _asks(leaf.op)}
    in_layers = [leaf for leaf in everything if leaf.layer is not None and leaf.layer in passed]
    if checkpointing == "full":
        return in_layers
    if checkpointing not in ("full-early-stop", "selective-op"):
        raise Refused("checkpointing", f"one of {', '.join(CHECKPOINTING)}", checkpointing)
    last = {leaf.layer: i for i, leaf in enumerate(in_layers) if _asks(leaf.op)}
    needed = [
        leaf
        for i, leaf in enumerate(in_layers)
        if i < last[leaf.layer] or (i == last[leaf.layer] and leaf.op.kind not in ("linear", "attention"))
    ]
    return needed if checkpointing == "full-early-stop" else _every_second(needed)


def _asks(op: Op) -> bool:
    """Whether backward asks for what an op reads or makes: a sum keeps nothing, nor does what is multiplied with a
    number, and a layer that does no more than that is not run again."""
    return op.live and op.function != "add" and not op.passes_on


def _every_second(some: list[Leaf]) -> list[Leaf]:
    """Of each layer the second, fourth, … product with a weight, in the order they run."""
    made: dict[str | None, list[Leaf]] = {}
    for leaf in some:
        if leaf.op.kind == "linear":
            made.setdefault(leaf.layer, []).append(leaf)
    return [leaf for products in made.values() for leaf in products[1::2]]


def of_prompt(leaf: Leaf, seq: int) -> float:
    """The part of a leaf's work that reading a prompt of `seq` tokens takes: logits are of the last token alone."""
    return 1 / seq if leaf.in_head else 1.0


def plain_products(spec: ModelSpec) -> None:
    """Errors: Refused for layers whose products torchtitan's list of operations to keep does not count one by one."""
    if spec.adapter is not None or isinstance(spec, Traced):
        where = "for a traced model" if spec.adapter is None else "beside an adapter"
        raise Refused("checkpointing", f"another than selective-op {where}", "selective-op")
    for stack in spec.stacks:
        if stack.altup is not None or any(group.laurel is not None for group in stack.layers):
            raise Refused("checkpointing", "another than selective-op beside alternating updates", "selective-op")
        for group in stack.layers:
            for node in (group.shared_block, group.mixer, group.cross, group.channel):
                if not isinstance(node, Attention | Mlp | None):
                    expected = f"another than selective-op for {type(node).__name__} layers"
                    raise Refused("checkpointing", expected, "selective-op")


def _sum(some: list[Leaf], count: Callable[[Leaf], Size] = lambda leaf: leaf.op.flops) -> Flops:
    """What `count` gives for one call of each of some ops, added up."""
    linear: Size = 0
    attention: Size = 0
    for leaf in some:
        if leaf.op.kind == "linear":
            linear = linear + count(leaf) * leaf.calls
        elif leaf.op.kind == "attention":
            attention = attention + count(leaf) * leaf.calls
    return Flops(linear, attention)
