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


def dealt_pieces(n_layers: int, pieces: int, embedding: int = 0, loss: int = 0) -> tuple[int, ...]:
    """Layers of every piece where embedding and loss count as so many and earlier pieces get what is left over, as
    launchers deal them: Megatron-Core, which takes no rest, and torchtitan. Errors: Refused for more pieces than there
    is to deal, and for ends that count for more than a piece has."""
    each, over = divmod(n_layers + embedding + loss, pieces)
    if max(embedding, loss, 1) > each:
        raise Refused("pieces of stages", f"at most {n_layers:,}, with room for embedding and head", pieces)
    dealt = [each + (piece < over) for piece in range(pieces)]
    dealt[0] -= embedding
    dealt[-1] -= loss
    return tuple(dealt)


def between_ends(n_layers: int, pp: int, first: int | None, last: int | None) -> tuple[int, ...]:
    """Layers of every stage where those of the first or the last are said and the others have as many each
    (Megatron-Core's num_layers_in_first_pipeline_stage and its like). Errors: Refused where that does not come out."""
    said = [n for n in (first, last) if n is not None]
    left, stages = n_layers - sum(said), pp - len(said)
    each = left // stages if stages > 0 else 0
    if stages < 0 or left != each * stages or (stages and each < 1):
        expected = f"{n_layers} layers, of which {max(stages, 0)} stages between them have as many each"
        raise Refused("layers of the first and the last stage", expected, " and ".join(map(str, said)))
    middle = (each,) * stages
    return (*((first,) if first is not None else ()), *middle, *((last,) if last is not None else ()))


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
