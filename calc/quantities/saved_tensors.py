"""What autograd keeps of a training step: the recorded forward pass, run over storages under certain settings."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

from calc.blocks.build import build, pictures_inside, sounds_inside
from calc.errors import Refused
from calc.quantities.modules import check_modules
from calc.sizes import Size, is_array
from calc.spec import Head, LayerGroup, ModelSpec, Stack
from calc.spec.load import Load
from calc.trace.op import Op
from calc.trace.part import Part, Role, leaves
from calc.trace.settings import Settings
from calc.trace.tape import Saved, Storage, Tape
from calc.trace.tensor import Tensor

Tensors = tuple[Saved, ...]


@dataclass(frozen=True, slots=True)
class LayerSaved:
    """Of one layer of a kind, of which there are `count`: what it reads, what it keeps (`saved`), and what it would
    keep if nothing were computed again (`whole`). name: of its stack and group. results: what it keeps beside its input
    where checkpointing keeps results by operation; compiled, only those that something later in the layer needs. early:
    whether it stands at the start of its stack, and others of its name, of which more needs a gradient, come behind
    it. carried: what it reads beside its input of the layer before it. outside: of both, what the first of them finds
    kept outside of layers."""

    name: str
    group: LayerGroup
    count: Size
    input: Storage
    saved: Tensors
    whole: Tensors
    results: Tensors
    early: bool = False
    carried: tuple[Storage, ...] = ()
    outside: tuple[Storage, ...] = ()


@dataclass(frozen=True, slots=True)
class SavedTensors:
    """front: outside layers, before them; `common` of it serves all layers. layers: by stack and group name,
    those that less of a gradient reaches with a number behind it.
    end: between layers and loss. loss: logits in the format of the loss. logits: the tensor itself."""

    front: Tensors
    common: Tensors
    layers: Mapping[str, LayerSaved]
    end: Tensors
    loss: Tensors
    logits: Storage | None

    def everything(self) -> list[tuple[Size, Saved]]:
        """(how often it is there, tensor) of all that is kept."""
        outside = (*self.front, *self.common, *self.end, *self.loss)
        inside = [(each.count, saved) for each in self.layers.values() for saved in each.saved]
        return [(1, saved) for saved in outside] + inside


def saved_tensors(spec: ModelSpec, load: Load, settings: Settings) -> SavedTensors:
    """What autograd keeps of a training step's forward pass over `load`.

    Errors: Refused for a piece of which it is not known what it keeps, under these settings.
    """
    _check(spec, load, settings)
    run = _Run(settings)
    # A tower that has nothing to see does not run, nor what compares its vectors with those of texts.
    # Of what says where patches end nothing is trained.
    idle: set[str] = {"patcher", "idle"}
    idle |= {"pictures"} if not pictures_inside(load) else set()
    idle |= {"sounds"} if not sounds_inside(load) else set()
    tree = build(spec, load)
    check_modules(leaves(tree), settings.recompute)
    body = tuple(child for child in tree.body if _role(child) not in idle)
    end = run.stack(body, spec, "")
    loss = Tape(settings)
    logits = next((run.storage(x) for child in body if _role(child) == "head" for x in child.outputs), None)
    if logits is not None:
        _loss(loss, logits, load, spec.head)
    run.end += tuple(end.saved.values())
    return SavedTensors(run.front, run.common, run.layers, run.end, tuple(loss.saved.values()), logits)


def _check(spec: ModelSpec, load: Load, settings: Settings) -> None:
    """Refuse pictures of which too little is known: not how many, or not what a kernel's mask for them takes."""
    if not spec.takes_pictures or not pictures_inside(load):
        return
    if is_array(load.images) and (load.images == 0).any():
        raise Refused("images", "none at all, or some in every row", "0 in some rows")
    if spec.vision is not None and spec.vision.among_tokens == "together" and settings.execution != "eager":
        expected = "0, or eager execution, where pictures see all of themselves and a kernel is given a mask"
        raise Refused("images", expected, settings.execution)


@dataclass(slots=True)
class _Shared:
    """What the layers of a stack have in common. ahead, behind: the tapes of what stands around them. common: what they
    keep for all of them. lent: what each, or a tower, keeps that others may read. stream: the number format of the
    first one's input."""

    spec: Stack
    path: str
    ahead: Tape
    behind: Tape
    common: dict[Storage, Saved] = field(default_factory=dict)
    lent: set[Storage] = field(default_factory=set)
    stream: str = ""


@dataclass(slots=True)
class _Run:
    """What has been run so far. found: the storage of every tensor."""

    settings: Settings
    front: Tensors = ()
    common: Tensors = ()
    end: Tensors = ()
    layers: dict[str, LayerSaved] = field(default_factory=dict)
    found: dict[Tensor, Storage] = field(default_factory=dict)

    def storage(self, x: Tensor) -> Storage:
        """The storage of a tensor; that of a view is a part of another's."""
        if x in self.found or x.viewed is None:
            return self.found[x]
        return self.storage(x.viewed).part(x.elements, x.split, x.heads, x.grouped)

    def stack(self, body: tuple[Part | Op, ...], spec: Stack, path: str) -> Tape:
        """Run a stack and, in the main one's body, its towers before it; the tape of what stands behind its layers."""
        # Scores are computed again within layers alone.
        how = replace(self.settings, recompute=self.settings.recompute - {"attention"})
        ahead, behind = (Tape(how, op=path.rstrip(".")) for _ in range(2))
        shared = _Shared(spec, path, ahead, behind)
        tape = ahead
        for child in body:
            if isinstance(child, Part) and child.tower:
                self.tower(child, shared)
            elif isinstance(child, Part) and child.group is not None:
                tape = behind
                self.layer(child, shared)
            else:
                # What serves all layers may be kept again behind them: once is enough.
                behind.saved |= shared.common
                self.run((child,), tape)
        for storage in shared.common:
            behind.saved.pop(storage, None)
        self.common += tuple(shared.common.values())
        self.front += tuple(ahead.saved.values())
        return behind

    def tower(self, part: Part, shared: _Shared) -> None:
        """A stack whose result another reads: all layers of that keep it once, or none where the tower does."""
        own = next(each for each in getattr(shared.spec, "towers", ()) if each.name == part.name)
        behind = self.stack(part.body, own, f"{part.name}.").saved
        self.end += tuple(behind.values())
        for there in (shared.lent, shared.ahead.elsewhere, shared.behind.elsewhere):
            there.update(behind)
        for x in part.outputs:
            made = self.storage(x)
            if (made.base or made) not in behind:
                self.found[x] = replace(made, common=f"the result of {part.name}")

    def layer(self, part: Part, shared: _Shared) -> None:
        """One kind of layers."""
        group = next(each for each in shared.spec.layers if each.name == part.group)
        (x, *carried), how = map(self.storage, part.inputs), self.settings
        name = f"{shared.path}{group.name}"
        path = f"{name}, way {part.way}" if part.way else name
        weights_path = f"{shared.path}{_before(shared.spec, group)}" if group.again else path
        turns = any(each is not None for each in (group.patched, group.unpatched, group.shortened))
        shared.stream = x.dtype if turns else shared.stream or x.dtype

        def tape(settings: Settings) -> Tape:
            common, lent = dict(shared.common), set(shared.lent)
            made = Tape(settings, common, weights_path, group.shared, shared.stream, elsewhere=lent)
            self.run(part.body, made)
            return made

        whole = tape(replace(how, recompute=frozenset()))
        plain = tape(how) if how.recompute else whole
        # What the front keeps of its own result, the first layer keeps too; one behind patches what they have kept.
        for read in {x, *carried} & plain.saved.keys():
            shared.ahead.saved.pop(read, None)
            shared.behind.saved.pop(read, None)
        outside = tuple(each for each in (x, *carried) if each in shared.ahead.saved or each in shared.behind.saved)
        all_of_it = _own(whole)
        own = all_of_it if plain is whole else _own(plain)
        shared.common |= {storage: saved for storage, saved in plain.saved.items() if storage.common is not None}
        shared.lent |= {saved.tensor for saved in own}
        # The loss reads routers of all layers at the end, whatever is computed again.
        shares = (replace(each, elements=part.calls * each.elements) for each in whole.balances)
        self.end += tuple(Saved(f"{path}.router", "shares that the loss holds even", each) for each in shares)
        results = tuple(each for each, n in whole.results if not how.fused or n < len(whole.saved))
        kept = x, own, all_of_it, results
        self.layers[path] = LayerSaved(name, group, part.calls, *kept, part.way > 0, tuple(carried), outside)

    def times(self, part: Part, tape: Tape) -> None:
        """A part as often as it is called, where that is a matter of structure: each call keeps tensors of its own."""
        for _ in range(part.calls if isinstance(part.calls, int) and not part.expert else 1):
            self.run(part.body, tape)

    def run(self, body: tuple[Part | Op, ...], tape: Tape) -> None:
        """Every op of a body, in order."""
        for child in body:
            if child.module is not None and tape.again(child.module):
                own = child.operands if isinstance(child, Op) else None
                reads = [self.storage(x) for x in (child.inputs if own is None else own)]
                with tape.module(child.module, reads):
                    self.run_one(child, tape)
                tape.leave(child.module, [self.storage(x) for x in child.outputs])
            else:
                self.run_one(child, tape)

    def run_one(self, child: Part | Op, tape: Tape) -> None:
        """A part or an op."""
        if isinstance(child, Part):
            inputs = [self.storage(x) for x in child.inputs] if child.region else []
            with tape.at(child.name), tape.region(child.region, *inputs) if child.region else nullcontext():
                self.times(child, tape)
        elif child.keeps is not None:
            reads = child.inputs if child.operands is None else child.operands
            with tape.at(child.name) if child.operands is None else nullcontext():
                made = child.keeps(tape, *(self.storage(x) for x in reads))
            results = made if isinstance(made, list) else [made]
            self.found.update(zip(child.outputs, results, strict=True))


def _before(spec: Stack, group: LayerGroup) -> str:
    """The name of the group whose weights this one has."""
    names = [each.name for each in spec.layers if not each.again or each is group]
    return names[names.index(group.name) - 1]


def _role(child: Part | Op) -> Role | None:
    """What a piece of a body is to the model, where it is a part."""
    return child.role if isinstance(child, Part) else None


def _own(tape: Tape) -> Tensors:
    """What a layer keeps for itself alone."""
    return tuple(saved for storage, saved in tape.saved.items() if storage.common is None)


def _loss(tape: Tape, logits: Storage, load: Load, spec: Head | None) -> None:
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
        tape.keep(Storage(load.tokens, "int64", False, "none"), "targets")
        tape.keep(Storage(1, probabilities.dtype, False, "none"), "weight of all targets")
