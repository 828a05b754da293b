"""How many layers stages have, and the pieces that stages hold them in.

Sources: Megatron-Core's account_for_embedding_in_pipeline_split and account_for_loss_in_pipeline_split (Llama 3 405B,
arXiv:2407.21783, section 3.3.2), by which the first stage and the last have a layer less; and the layouts that
Megatron-Bridge writes out for models of 61 layers (recipes/deepseek/h100/deepseek_v3.py and
perf_recipes/deepseek/h100/deepseek_v3.py at 067f987d): Et*4|(t*4|)*14tmL, whose pieces are full but for the last, and
Et|(tt|)*30mL, in which embedding, head and a module that predicts further tokens (m) count as a layer each.
"""

from __future__ import annotations

from typing import Any

from calc.errors import Refused
from calc.sizes import ceil_div
from calc.spec import ModelSpec
from calc.spec.run import Run

ENDS = 2
"""Embedding and head, which stages may hold instead of layers."""


def modules_of(spec: ModelSpec) -> int:
    """Modules of a model that predict further tokens."""
    return 0 if spec.mtp is None else int(spec.mtp.count)


def further_modules(spec: ModelSpec, run: Run) -> int:
    """Those that a run has, all on the stage of the head."""
    return modules_of(spec) if run.mtp else 0


def lighter_ends(n_layers: int, pp: Any, interleave: Any, further: int = 0) -> Any:
    """Whether pieces come out even only once embedding, head and `further` modules count as a layer each, so that the
    first has one layer less and the last one less and one for each module; for numbers or columns.

    Without modules only of stages that hold several pieces. With them only where full pieces leave the last none:
    Megatron-Core's flags do not know of modules, and layouts have full pieces where they can.
    """
    pieces = pp * interleave
    even = (pp > 1) & (n_layers % pieces != 0) & ((n_layers + ENDS + further) % pieces == 0)
    if not further:
        return even & (interleave > 1)
    return even & ~full_pieces(n_layers, pieces) & ((n_layers + ENDS + further) // pieces > further)


def full_pieces(n_layers: int, pieces: Any) -> Any:
    """Whether all pieces but the last can have as many layers as that has at most, and leave it some."""
    return n_layers > -(-n_layers // pieces) * (pieces - 1)


def piece_lengths(n_layers: int, pp: int, interleave: int = 1, further: int = 0) -> tuple[int, ...]:
    """Layers of every piece in the order in which a micro-batch passes them; piece i is on stage i mod pp.

    All as long but for the last, which has the head beside them; the first and the last less where ends are lighter;
    and where neither can be, stages as even as can be, whose earlier pieces have a layer more.
    """
    pieces = pp * interleave
    if lighter_ends(n_layers, pp, interleave, further):
        each = (n_layers + ENDS + further) // pieces
        return (each - 1, *(each for _ in range(pieces - 2)), each - 1 - further)
    if full_pieces(n_layers, pieces):
        each = ceil_div(n_layers, pieces)
        return (*(each for _ in range(pieces - 1)), n_layers - each * (pieces - 1))
    return in_pieces(_whole_stages(n_layers, pp), interleave)


def in_pieces(stages: tuple[int, ...], interleave: int) -> tuple[int, ...]:
    """Layers of every piece of stages that hold so many: the earlier ones of a stage have a layer more."""
    return tuple(n // interleave + (piece < n % interleave) for piece in range(interleave) for n in stages)


def stage_lengths(
    n_layers: int, pp: int, interleave: int = 1, further: int = 0, given: tuple[int, ...] | None = None
) -> tuple[int, ...]:
    """Layers of every stage: as `given`, or those of its pieces. Errors: Refused for stages that do not add up."""
    if given is None:
        pieces = piece_lengths(n_layers, pp, interleave, further)
        return tuple(sum(pieces[stage::pp]) for stage in range(pp))
    if len(given) != pp or sum(given) != n_layers or min(given) < 0:
        raise Refused("stages", f"{pp} numbers that add up to {n_layers} layers", ",".join(map(str, given)))
    return given


def accounted_stages(n_layers: int, pp: int) -> tuple[int, ...]:
    """Layers of every stage where embedding and head count as one each, as Megatron-Core's two flags have them."""
    each = (n_layers + ENDS) // pp
    return (each - 1, *(each for _ in range(pp - ENDS)), each - 1)


def whole_stages_in(n_layers: Any, pp: Any, interleave: Any) -> Any:
    """Whether every piece of stages as even as can be has a layer, but for the last, which has the head."""
    each = ceil_div(n_layers, pp)
    last = n_layers - each * (pp - 1)
    full = (last > 0) & (last < each)
    return (full & (each >= interleave) & (last >= interleave - 1)) | (~full & (n_layers // pp >= interleave))


def _whole_stages(n_layers: int, pp: int) -> tuple[int, ...]:
    """Layers of every stage: all as many but for the last, or as even as can be where none would be left for that."""
    each = ceil_div(n_layers, pp)
    last = n_layers - each * (pp - 1)
    if last > 0:
        return (*(each for _ in range(pp - 1)), last)
    short, more = divmod(n_layers, pp)
    return tuple(short + (i < more) for i in range(pp))
