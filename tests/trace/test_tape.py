"""What a tape keeps, beside what autograd keeps of the same operations."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from calc.errors import Refused
from calc.spec.fields import DeviceKind
from calc.trace.settings import Settings
from calc.trace.tape import Storage, Tape

N = 6


def autograd(function: Callable[..., torch.Tensor], *grads: bool) -> int:
    """Bytes that autograd keeps of a function of vectors of N numbers, each tensor once."""
    found: dict[int, int] = {}

    def note(x: torch.Tensor) -> torch.Tensor:
        found[x.untyped_storage().data_ptr()] = x.untyped_storage().nbytes()
        return x

    inputs = [torch.rand(N, requires_grad=grad) for grad in grads]
    with torch.autograd.graph.saved_tensors_hooks(note, lambda x: x):
        result = function(*inputs)
    del result
    return sum(found.values())


@pytest.mark.parametrize("grads", [(True, True), (True, False), (False, True)])
def test_a_product_keeps_each_factor_that_the_other_needs(grads: tuple[bool, bool]) -> None:
    tape = Tape(Settings("eager", "fp32"))
    tape.times(*(Storage(N, "fp32", grad) for grad in grads))
    assert sum(saved.tensor.bytes for saved in tape.saved.values()) == autograd(torch.mul, *grads) == 4 * N * sum(grads)


def test_a_square_keeps_its_factor_once() -> None:
    tape, x = Tape(Settings("eager", "fp32")), Storage(N, "fp32")
    tape.times(x, x)
    assert sum(saved.tensor.bytes for saved in tape.saved.values()) == autograd(lambda x: x * x, True) == 4 * N


def test_functions_keep_what_their_derivatives_read() -> None:
    tape, x = Tape(Settings("eager", "fp32")), Storage(N, "fp32")
    y = tape.reads_result(tape.reads_input(x))
    assert set(tape.saved) == {x, y}
    assert autograd(lambda x: torch.sigmoid(torch.nn.functional.silu(x)), True) == 2 * 4 * N


def test_a_view_keeps_all_of_what_it_is_a_part_of() -> None:
    tape, whole = Tape(Settings("eager", "fp32")), Storage(10 * N, "fp32")
    tape.keep(whole.part(N), "factor")
    assert list(tape.saved) == [whole]


def test_what_is_computed_again_keeps_its_inputs_alone() -> None:
    tape, x = Tape(Settings("eager", recompute=frozenset({"norm"}))), Storage(N, "bf16")
    with tape.region("norm", x):
        tape.keep(Storage(N, "bf16"), "result")
    assert list(tape.saved) == [x]
    with pytest.raises(ZeroDivisionError), tape.at("part"), tape.region("norm", x):
        _ = 1 // 0
    assert (tape.op, tape.dropping) == ("", False)


def test_what_serves_all_layers_is_kept_once() -> None:
    tape = Tape(Settings())
    for size in (N, N, 2 * N):
        tape.keep_common("cosines", "cosines", size, "fp32")
    assert [saved.elements for saved in tape.saved] == [N, 2 * N]


def test_dropout_keeps_a_byte_an_element_or_on_a_cpu_a_number() -> None:
    ways: tuple[tuple[DeviceKind, int], ...] = (("cuda", N), ("cpu", 4 * N))
    for device, expected in ways:
        tape = Tape(Settings("eager", "fp32", dropout=0.1, device=device))
        tape.drop(Storage(N, "fp32"))
        assert sum(saved.tensor.bytes for saved in tape.saved.values()) == expected


def test_nothing_is_said_of_one_kernel_where_it_is_not_known() -> None:
    Tape(Settings("sdpa")).written_out("a scan")
    with pytest.raises(Refused, match="execution: expected eager or sdpa"):
        Tape(Settings("compiled")).written_out("a scan")
