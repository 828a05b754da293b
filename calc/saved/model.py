"""What a whole model keeps, from its input to its loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from calc.errors import Refused
from calc.load import Load
from calc.saved.fronts import features, trajectory
from calc.saved.heads import projections
from calc.saved.layer import Source, layer
from calc.saved.mlp import activate
from calc.saved.norms import norm
from calc.saved.per_layer import layer_inputs
from calc.saved.pictures import pictures
from calc.saved.settings import Settings
from calc.saved.sounds import sounds
from calc.saved.tape import Lent, Saved, Tape, Tensor
from calc.sizes import Size
from calc.spec import Attention, Embedding, Features, Frames, Head, LayerGroup, ModelSpec, Patches, Stack, Trajectory

Tensors = tuple[Saved, ...]
FIRST = ", first"
"""Behind a group's name in `Kept.layers`: the first layer, whose input needs no gradient."""
FRONTS = {Patches: pictures, Frames: sounds, Trajectory: trajectory, Features: features}
"""Front -> (tape, its description, d_model, load) -> (the first vectors, the load with as many of them)."""


@dataclass(frozen=True, slots=True)
class LayerKept:
    """Of one layer of a kind, of which there are `count`: what it reads, what it keeps, and what it would keep if
    nothing were computed again (`whole`). results: what it keeps beside its input where checkpointing keeps results by
    operation; compiled, only those that something later in the layer needs. first: whether it is the first layer of a
    stack whose front is frozen: what it reads needs no gradient, it keeps less; the others of its kind come next."""

    group: LayerGroup
    count: Size
    input: Tensor
    kept: Tensors
    whole: Tensors
    results: Tensors
    first: bool = False


@dataclass(frozen=True, slots=True)
class Kept:
    """front: outside layers, before them; `common` of it serves all layers. layers: by stack and group name.
    end: between layers and loss. loss: logits in the format of the loss. logits: the tensor itself."""

    front: Tensors
    common: Tensors
    layers: Mapping[str, LayerKept]
    end: Tensors
    loss: Tensors
    logits: Tensor | None

    def everything(self) -> list[tuple[Size, Saved]]:
        """(how often it is there, tensor) of all that is kept."""
        outside = (*self.front, *self.common, *self.end, *self.loss)
        inside = [(each.count, saved) for each in self.layers.values() for saved in each.kept]
        return [(1, saved) for saved in outside] + inside


def kept(spec: ModelSpec, load: Load, settings: Settings) -> Kept:
    """What autograd keeps of a training step's forward pass over `load`.

    Errors: Refused for a piece of which it is not written down what it keeps.
    """
    if spec.n_streams is not None:
        raise Refused("model", "one of one stack, or of an encoder and a decoder", spec.name)
    if spec.vision is not None and not (isinstance(load.images, int) and load.images == 0):
        raise Refused("images", "0 where activations are counted, since of text alone it is known", load.images)
    made = _Made()
    source = None
    if spec.encoder is not None:
        if spec.encoder.heads:
            raise Refused("model", "an encoder without dense layers behind it", spec.encoder.heads[0].name)
        length = load.source if load.source is not None else load.usual_source or load.seq
        reads = replace(load, seq=length)
        x, reads = _stack(made, settings, spec.encoder, spec, reads, None, "encoder.")
        # All layers of the decoder read it.
        source = Source(replace(x, common="the encoder's result"), spec.encoder.d_model, reads.seq)
    x, load = _stack(made, settings, spec, spec, load, source, "")
    tape = Tape(settings)
    logits = None if spec.head is None else _head(tape, spec.head, spec, x, load)
    projections(tape, spec, x, load.batch, load.seq)
    made.end += tuple(tape.saved.values())
    tape = Tape(settings)
    if logits is not None:
        _loss(tape, logits, load, spec.head)
    return Kept(made.front, made.common, made.layers, made.end, tuple(tape.saved.values()), logits)


@dataclass(slots=True)
class _Made:
    front: Tensors = ()
    common: Tensors = ()
    layers: dict[str, LayerKept] = field(default_factory=dict)
    end: Tensors = ()


def _stack(
    made: _Made, settings: Settings, stack: Stack, spec: ModelSpec, load: Load, source: Source | None, path: str
) -> tuple[Tensor, Load]:
    """Front, layers and final norm of one stack; the load as its layers see it.

    Where the embedding is frozen its result needs no gradient, and the first layer, which keeps less than the others,
    stands by itself. After it the stream is taken to need one.
    """
    tape = Tape(settings, op=path.rstrip("."))
    x, load = _front(tape, stack, load)
    own_inputs = None if stack.per_layer is None else layer_inputs(tape, stack.per_layer, stack, x, load)
    tables = [group.mixer.buckets for group in stack.layers if isinstance(group.mixer, Attention)]
    if not settings.frozen and any(table is not None and table.shared for table in tables):
        with tape.at("relative_bias"):
            tape.keep(Tensor(load.seq * load.seq, "int64", False, "none"), "distances")
    made.front += tuple(tape.saved.values())
    common: dict[Tensor, Saved] = {}
    stream = x.dtype
    order = list(stack.layers)
    if not x.grad:
        begins = stack.schedule[0] if stack.schedule else order[0].name
        order.sort(key=lambda group: group.name != begins)
        order.insert(0, order[0])
    lent: tuple[list[Lent], list[Lent]] = [], []
    for i, group in enumerate(order):
        first = i == 0 and not x.grad
        name = f"{path}{group.name}{FIRST if first else ''}"
        whole = Tape(replace(settings, recompute=frozenset()), dict(common), name, group.shared, stream, lent=lent[0])
        y = layer(whole, group, stack.d_model, x, load, source, own_inputs)
        plain = whole
        if settings.recompute:
            plain = Tape(settings, dict(common), name, group.shared, stream, lent=lent[1])
            y = layer(plain, group, stack.d_model, x, load, source, own_inputs)
        # What the front keeps of its own result, the first layer keeps too.
        made.front = tuple(saved for saved in made.front if saved.tensor is not x or x not in plain.saved)
        all_of_it = _own(whole)
        own = all_of_it if plain is whole else _own(plain)
        common |= {tensor: saved for tensor, saved in plain.saved.items() if tensor.common is not None}
        results = tuple(each for each, before in whole.results if not settings.fused or before < len(whole.saved))
        count = 1 if first else group.count - int(i == 1 and len(order) > len(stack.layers))
        made.layers[name] = LayerKept(group, count, x, own, all_of_it, results, first)
        x = replace(y, grad=True)
    made.common += tuple(common.values())
    tape = Tape(settings, op=path.rstrip("."))
    if stack.final_norm is not None:
        x = norm(tape, "final_norm", stack.final_norm, x, load.tokens)
    if stack.layers[0].residual_dropout and stack.layers[0].outer_dropout == "both":
        with tape.at("final_norm"):
            x = tape.drop(x)
    made.end += tuple(tape.saved.values())
    return x, load


def _own(tape: Tape) -> Tensors:
    """What a layer keeps for itself alone."""
    return tuple(saved for tensor, saved in tape.saved.items() if tensor.common is None)


def _front(tape: Tape, stack: Stack, load: Load) -> tuple[Tensor, Load]:
    """The first vectors, after dropout, and the load with as many of them as there are."""
    spec = stack.embedding
    with tape.at("embedding"):
        if isinstance(spec, Embedding):
            x = _tokens(tape, spec, stack, load)
        elif type(spec) in FRONTS:
            x, load = FRONTS[type(spec)](tape, spec, stack.d_model, load)
        else:
            names = ", ".join(each.__name__ for each in (Embedding, *FRONTS))
            raise Refused("model", f"one whose front is known ({names})", type(spec).__name__)
        group = stack.layers[0]
        return (tape.drop(x) if group.residual_dropout and group.outer_dropout != "none" else x), load


def _tokens(tape: Tape, spec: Embedding, stack: Stack, load: Load) -> Tensor:
    """Token, position and segment embeddings, and their norm."""
    tokens = load.tokens
    width = stack.d_model if spec.d_embed is None else spec.d_embed
    x = tape.gather("token", tokens, tokens * width)
    if spec.d_embed is not None and spec.project == "tokens":
        x, width = tape.linear("project_in", x, tokens, width, stack.d_model), stack.d_model
    if spec.n_positions is not None and spec.trained_positions:
        x = tape.like(x, tape.gather("position", load.seq, load.seq * width))
    elif spec.n_positions is not None:
        # Sinusoids that are kept as a table, as wide as all weights.
        x = tape.like(x, Tensor(load.seq * width, tape.settings.stream, False, "none"))
    if spec.n_token_types is not None:
        x = tape.like(x, tape.gather("token_type", tokens, tokens * width))
    if spec.norm is not None:
        x = norm(tape, "norm", spec.norm, x, tokens)
    if spec.d_embed is not None and spec.project == "sum":
        x = tape.linear("project_in", x, tokens, width, stack.d_model)
    return x


def _head(tape: Tape, spec: Head, model: ModelSpec, x: Tensor, load: Load) -> Tensor:
    """Logits, with BERT's dense layer before them where there is one."""
    embed = model.embedding.d_embed if isinstance(model.embedding, Embedding) else None
    width = model.d_model if embed is None else embed
    with tape.at("lm_head"):
        if spec.transform is not None:
            x = activate(tape, spec.activation, tape.linear("transform", x, load.tokens, model.d_model, width))
            x = norm(tape, "transform_norm", spec.transform, x, load.tokens)
        elif embed is not None:
            x = tape.linear("project_out", x, load.tokens, model.d_model, width)
        rows = model.vocab_size if spec.n_logits is None else spec.n_logits
        logits = tape.linear("logits", x, load.tokens, width, rows, "vocab")
        if spec.softcap is not None:
            logits = tape.reads_result(logits)
        return logits


def _loss(tape: Tape, logits: Tensor, load: Load, spec: Head | None) -> None:
    """Cross-entropy: keeps the log-probabilities, in fp32, or where BERT's loss is not widened, like the logits.

    A fused kernel writes the logits' gradient over them and keeps that.
    """
    s = tape.settings
    wide = spec is None or spec.wide_loss or s.autocast
    with tape.at("loss"):
        if s.fuses_loss:
            tape.keep(logits, "gradient in the logits' place")
            return
        probabilities = tape.reads_result(tape.cast(logits, "fp32") if wide else logits)
        tape.keep(Tensor(load.tokens, "int64", False, "none"), "targets")
        tape.keep(Tensor(1, probabilities.dtype, False, "none"), "weight of all targets")
