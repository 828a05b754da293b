"""What autograd keeps of a captured pass, by where: ahead of the layers, in each kind of them, behind them.

It is seen and not worked out: the pass runs once more in the formats and kernels that are asked for, and PyTorch says
what it keeps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from calc.errors import Refused
from calc.trace.settings import Settings
from calc.trace.tape import Storage, Tape, element_bytes
from calc.tracing.events import Capture, Keeping
from calc.tracing.layers import Entry, Kind

Again = Callable[[Settings], Capture]
"""The same pass as it runs in certain formats and kernels."""
Size = tuple[int, str]


@dataclass(slots=True)
class _Under:
    """One pass under certain settings. ahead, behind: what is kept outside of layers; inside: by passing of a layer."""

    capture: Capture
    ahead: list[Keeping]
    behind: list[Keeping]
    inside: dict[Entry, list[Keeping]]
    inputs: dict[str, Storage]


class SavedPasses:
    """The passes that have been asked for so far, each under its settings."""

    def __init__(self, again: Again, kinds: list[Kind]) -> None:
        self.again, self.kinds = again, kinds
        self.passes: dict[Settings, _Under] = {}

    def under(self, tape: Tape) -> _Under:
        """The pass under the tape's settings. Errors: Refused for those of which it is not known what they keep."""
        s = tape.settings
        tape.written_out("a traced model")
        if s.recompute:
            raise Refused("checkpointing", "none or full for a traced model, whose blocks have no names", "selective")
        if s.dropout:
            raise Refused("dropout", "0 for a traced model", s.dropout)
        if s.inputs is not None:
            raise Refused("recipe", "one without fp8 for a traced model", s.inputs)
        if s.autocast_on_gpu:
            s = replace(s, device="cpu")
        key = replace(s, loss_fused=None)
        if key not in self.passes:
            self.passes[key] = self._apart(self.again(key))
        return self.passes[key]

    def _apart(self, capture: Capture) -> _Under:
        inside: dict[Entry, list[Keeping]] = {}
        ahead: list[Keeping] = []
        behind: list[Keeping] = []
        for each in capture.saved:
            if each.place.layer is not None:
                inside.setdefault(each.place.layer, []).append(each)
            else:
                (behind if inside else ahead).append(each)
        given = {kind.name: capture.entered.get(kind.entries[0]) for kind in self.kinds}
        inputs = {name: _storage(each) if each else Storage(1, "bool", False) for name, each in given.items()}
        return _Under(capture, ahead, behind, inside, inputs)

    def front(self, tape: Tape) -> list[Storage]:
        """Keep what stands ahead of the layers; what the first of each kind is given."""
        found = self.under(tape)
        for each in found.ahead:
            tape.keep(_storage(each), each.op)
        return list(found.inputs.values())

    def layer(self, tape: Tape, kind: Kind) -> list[Storage]:
        """Keep what every layer of a kind keeps, and for all of them together what only some of them do."""
        found = self.under(tape)
        lists = [found.inside.get(entry, []) for entry in kind.entries]
        counted = [Counter(map(_size, each)) for each in lists]
        alike = counted[0].copy()
        for each in counted[1:]:
            alike &= each
        given = found.capture.entered.get(kind.entries[0])
        left = alike.copy()
        for each in lists[0]:
            if left[_size(each)]:
                left[_size(each)] -= 1
                own = given is not None and each.storage == given.storage
                tape.keep(found.inputs[kind.name] if own else _storage(each), each.op)
        for each in counted:
            for (size, dtype), times in (each - alike).items():
                for _ in range(times):
                    tape.keep(Storage(size // element_bytes(dtype), dtype, common="of some layers"), "of some layers")
        return []

    def end(self, tape: Tape, logits: bool) -> list[Storage]:
        """Keep what stands behind the layers; the logits."""
        found = self.under(tape)
        for each in found.behind:
            tape.keep(_storage(each), each.op)
        return [_storage(found.capture.logits)] if logits and found.capture.logits is not None else []


def _size(x: Keeping) -> Size:
    return x.bytes, x.dtype


def _storage(x: Keeping) -> Storage:
    return Storage(x.bytes // element_bytes(x.dtype), x.dtype, x.grad)
