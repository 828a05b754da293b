"""Norms of each channel over all vectors of a batch."""

from __future__ import annotations

from calc.sizes import Size
from calc.trace.recorder import Recorder
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor


def batch_norm(t: Recorder, name: str, x: Tensor) -> Tensor:
    """x [rows, channels] -> the same, each channel normed over all rows (Ioffe and Szegedy 2015, arXiv:1502.03167)."""
    weights = tuple(t.weight(f"{name}.{each}", x.width, of="norm") for each in ("weight", "bias"))
    y = t.made(x.rows, x.width, x, weights=weights)
    trained = weights[0].trainable
    t.op(
        name,
        "norm",
        "batchnorm",
        (x,),
        (y,),
        weights=weights,
        of="norm",
        keeps=lambda tape, read: saved_by_batch_norm(tape, read, x.width, trained=trained),
    )
    return y


def frozen_batch_norm(t: Recorder, name: str, x: Tensor) -> Tensor:
    """x [rows, channels] times a number for each channel, plus another: what a batch norm learned elsewhere comes to.

    Neither is a parameter (DETR: Carion et al. 2020, arXiv:2005.12872, section A.4). The factors are made anew from
    what was learned, and kept where x needs a gradient.
    """
    y = t.made(x.rows, x.width, x)

    def keeps(tape: Tape, read: Storage) -> Storage:
        return tape.times(read, Storage(x.width, tape.settings.stream, False, "none"))

    # Written out, there is a product between what it reads and what it gives.
    t.op(
        name,
        "elementwise",
        "batchnorm",
        (x,),
        (y,),
        of="other",
        keeps=keeps,
        live_bytes=lambda footprint: (1 if footprint.compiled else 2) * footprint.of(y),
    )
    return y


def saved_by_batch_norm(tape: Tape, x: Storage, channels: Size, *, trained: bool) -> Storage:
    """Its input, mean and deviation of every channel, and those of all batches so far."""
    s = tape.settings
    grad = x.grad or trained
    if grad:
        tape.keep(x, "input")
        own = "fp32" if s.device == "cuda" else s.stream
        for role in ("mean", "deviation"):
            tape.keep(Storage(channels, own, False, "none"), role)
        for role in ("mean so far", "deviation so far"):
            tape.keep(Storage(channels, s.stream, False, "none"), role)
    return Storage(x.elements, x.dtype, grad, x.split)
