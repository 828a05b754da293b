"""Model states: weights, gradients and the optimizer's state on one rank."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from calc.blocks.embedding import TOKEN_TABLE
from calc.dtypes import Quantized, byte_count, dtype, weight_dtype
from calc.memory.narrow_copies import gathered_bytes
from calc.memory.sharding import Stage, held_elements
from calc.memory.shares import Held, Share, share_of
from calc.memory.stepping import stepping
from calc.quantities.parameters import Row, weights
from calc.quantities.weights import narrow as is_narrow
from calc.quantities.weights import quantizes
from calc.sizes import Size, ceil_div, either, exact_div, is_array, is_exactly, largest, maximum
from calc.spec import ModelSpec
from calc.spec.run import Run
from calc.spec.run.optimizers import Optimizer, optimizer
from calc.spec.run.precision import Recipe
from calc.trace.op import Weight
from calc.trace.part import Leaf, Place


@dataclass(frozen=True, slots=True)
class States:
    """Bytes on one rank.

    weights, gradients, optimizer: what it keeps; the optimizer's are moments and master weights. update: temporaries of
    the optimizer's step, copies of its gradients among them (`calc.memory.stepping`).
    elements, trained: parameters of the rank before ZeRO divides them; those of routed experts among them are
        `expert_elements` and `expert_trained`. narrow, expert_narrow: those that are trained in matrices of which there
        are narrow copies (`calc.spec.run.narrow_weights`).
    open: where ranks keep parts of the weights alone, gathered ones of what stands outside layers (FSDP's root unit,
        which PyTorch's FSDP2 never divides again after forward). unit: of the layer at work.
    following: of the next layer, gathered while that one works; 0 where all layers are one (ALBERT), which is there.
    ahead: of all layers, where those that have gone forward stay gathered (FSDP's ZeRO-2). behind: of all layers, where
        those that have gone back do: until the last micro-batch has, in a pipeline of torch.distributed.pipelining
        (its stage.py, set_reshard_after_backward), whose ZeRO-3 divides them again behind the next forward.
    buffer: what gathering is received in, for a moment a second copy: the root's, or that of both layers.
    waiting: gradients that wait between micro-batches: those kept, but in a pipeline with ZeRO-2 or 3 whole ones in the
        format they are summed in, which FSDP2 divides after the last micro-batch.
    root_gradients: of `waiting`, in a pipeline those of what stands outside layers.
    reduced, root_reduced: from ZeRO-2 on, gradients of one layer and of the root unit before they are divided, in the
        weights' format, and their copy in the format that is reduced.
    layer_gradients, end_gradients: below ZeRO-2, those of the largest layer and of what follows all layers.
    host: of the host's memory, for the parameters that it updates: a copy of them, their gradients, both as wide as
        what the optimizer updates, and moments. pinned: of these, copy and gradients, which GPUs reach by themselves.
    """

    weights: Size
    gradients: Size
    optimizer: Size
    update: Size
    elements: Size
    trained: Size
    expert_elements: Size
    expert_trained: Size
    narrow: Size
    expert_narrow: Size
    open: Size
    unit: Size
    following: Size
    ahead: Size
    behind: Size
    buffer: Size
    waiting: Size
    root_gradients: Size
    reduced: Size
    root_reduced: Size
    layer_gradients: Size
    end_gradients: Size
    host: Size
    pinned: Size


@dataclass(slots=True)
class _Units:
    """Elements of a rank by what is gathered together, how many of them are trained, and have narrow copies. single:
    layers are all one."""

    root: Size = 0
    root_trained: Size = 0
    end_trained: Size = 0
    layers: dict[str, Size] = field(default_factory=dict)
    layers_trained: dict[str, Size] = field(default_factory=dict)
    layers_narrow: dict[str, Size] = field(default_factory=dict)
    single: bool = False

    def add(self, place: Place, group: str, each: Size, trained: bool, narrow: bool) -> None:
        """each: elements outside layers, or of one layer of a group."""
        if place == "layer":
            for which, counts in ((self.layers, True), (self.layers_trained, trained), (self.layers_narrow, narrow)):
                which[group] = which.get(group, 0) + (each if counts else 0)
            return
        self.root = self.root + each
        if trained:
            self.root_trained = self.root_trained + each
            self.end_trained = self.end_trained + (each if place == "end" else 0)


def states(spec: ModelSpec, run: Run, found: Sequence[Stage], frozen: str | None = None) -> list[States]:
    """What the ranks of each stage hold.

    frozen: the number format of weights that are not trained, None for the recipe's.
    Errors: Refused for an unknown format.
    """
    rows = [(row, held_elements(row[1], run, row[2].expert)) for row in weights(spec, mtp=run.mtp)]
    return [_on_rank(spec, run, stage, rows, frozen) for stage in found]


def _on_rank(spec: ModelSpec, run: Run, stage: Stage, rows: Iterable[tuple[Row, Size]], frozen: str | None) -> States:
    """What one stage holds. rows: every weight, and the elements of one copy on a tensor-parallel rank."""
    how, steps, copied = run.precision, optimizer(run.usual_optimizer), run.narrow_weights is not None
    dense, experts, units = Held(), Held(), _Units()
    for (path, weight, leaf), one in rows:
        held = experts if leaf.expert else dense
        copies, place, group, per_layer = on_stage(path, weight, leaf, spec, stage, run.mtp)
        share = ceil_div(copies, run.ep) if leaf.expert else copies
        held.elements = held.elements + share * one
        narrow = copied and weight.trainable and is_narrow(weight, leaf)
        if weight.trainable:
            held.trained = held.trained + share * one
            held.narrow = held.narrow + (share * one if narrow else 0)
            held.tensors.append(either(copies > 0 if is_array(copies) else copies, one))
        else:
            held.frozen = held.frozen + share * _frozen_bytes(weight, leaf, one, frozen or how.weights)
        if place == "layer" or is_array(copies) or copies:
            in_unit = ceil_div(per_layer, run.ep) if leaf.expert else per_layer
            here = either(copies > 0, in_unit * one) if is_array(copies) and place != "layer" else in_unit * one
            units.add(place, group, here, weight.trainable, narrow)
    units.single = not spec.towers and len(spec.layers) == 1 and spec.layers[0].shared
    return _divided(run, how, steps, dense, experts, units)


def _divided(run: Run, how: Recipe, steps: Optimizer, dense: Held, experts: Held, units: _Units) -> States:
    """What ZeRO leaves of it on one rank."""
    shares = [share_of(run, how, steps, held, expert) for held, expert in ((dense, False), (experts, True))]
    weights, gradients, state, host, pinned = (
        sum((getattr(each, name) for each in shares), start=0) for name in Share._fields[:-1]
    )
    width = dtype(how.gradients).width
    trained = dense.trained + experts.trained
    elements = dense.elements + experts.elements
    gathers, divides = run.divides(run.weights_from), run.divides(2)
    pipeline = run.pp > 1 if is_array(run.pp) else not is_exactly(run.pp, 1)
    gathered = dtype(how.gathered or how.weights).width
    layer = largest(
        gathered_bytes(units.layers[name], units.layers_narrow[name], run, gathered) for name in units.layers
    )
    layer_trained = largest(units.layers_trained.values())
    summed = dtype(how.summed).width
    reduced = gathered + summed
    following = 0 if units.single else layer
    root = gathered * units.root
    layers = gathered_bytes(elements, dense.narrow + experts.narrow, run, gathered) - root
    stay = gathers - run.divides(3)
    return States(
        weights=weights,
        gradients=gradients,
        optimizer=state,
        update=stepping(run, steps, *(each.stepped for each in shares)),
        elements=elements,
        trained=trained,
        expert_elements=experts.elements,
        expert_trained=experts.trained,
        narrow=dense.narrow + experts.narrow,
        expert_narrow=experts.narrow,
        open=gathers * root,
        unit=gathers * layer,
        following=gathers * following,
        ahead=_if(stay, layers),
        behind=either(pipeline, _if(gathers if run.torch_pipeline else stay, layers)),
        buffer=gathers * maximum(root, layer + following),
        waiting=either(pipeline, gradients + divides * (trained * summed - gradients), gradients),
        root_gradients=units.root_trained * (width + divides * (summed - width)),
        reduced=divides * layer_trained * reduced,
        root_reduced=divides * units.root_trained * reduced,
        layer_gradients=(1 - divides) * layer_trained * width,
        end_gradients=(1 - divides) * units.end_trained * width,
        host=host,
        pinned=pinned,
    )


def _if(part: Size, size: Size) -> Size:
    """`part` of a size, and the int 0 where that is none, which no formula compares."""
    return 0 if is_exactly(part, 0) else part * size


def on_stage(
    path: str, weight: Weight, leaf: Leaf, spec: ModelSpec, stage: Stage, further: bool = False
) -> tuple[Size, Place, str, Size]:
    """(copies of a weight on a stage, where it stands, its group of layers, copies in one layer of it).

    A tied head reads the token table, so a last stage that is not the first holds a copy of that; so do modules that
    predict further tokens (further), which stand there too, each gathered as a layer is (Megatron-Core's
    LanguageModule.setup_embeddings_and_output_layer: "duplicated embedding weights in mtp process stage").
    """
    if leaf.place != "layer":
        tied = f"/{path}" == TOKEN_TABLE and (further or (spec.head is not None and spec.head.tied))
        front = leaf.place == "front"
        here = maximum(stage.first if front else stage.last, stage.last if tied else False)
        return either(here, leaf.copies), "end" if tied or not front else "front", "", leaf.copies
    part = next(part for part in leaf.parents if part.layer)
    per_layer = exact_div(leaf.copies, part.copies)
    if leaf.component == "mtp":
        here = [either(stage.last, n) for n in (leaf.copies, per_layer)]
        return here[0], "layer", "mtp", here[1]
    if leaf.tower is not None:
        return leaf.copies, "layer", f"{leaf.tower}.{part.name}", per_layer
    group = next(each for each in spec.layers if each.name == leaf.group)
    if group.shared or weight.common:
        return leaf.copies, "layer", group.name, per_layer
    return per_layer * stage.layers[group.name], "layer", group.name, per_layer


def _frozen_bytes(weight: Weight, leaf: Leaf, elements: Size, name: str) -> Size:
    """Bytes of `elements` of one copy of a weight that is not trained."""
    kind = weight_dtype(name)
    if not isinstance(kind, Quantized):
        return byte_count(elements, kind.bits)
    if quantizes(weight, leaf):
        return ceil_div(kind.matrix_bytes(*weight.shape) * elements, weight.elements)
    return byte_count(elements, dtype(kind.rest).bits)
