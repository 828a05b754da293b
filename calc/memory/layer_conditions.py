"""What layers ask of how ranks divide a model's sequence and its layers, where it is known of one rank alone."""

from __future__ import annotations

from collections.abc import Iterator

from calc.memory.condition import Condition, must_be_one
from calc.sizes import is_exactly
from calc.spec import (
    Attention,
    BlockIndexer,
    ChunkAttention,
    FunnelAttention,
    LayerGroup,
    Mla,
    ModelSpec,
    Moe,
    WindowAttention,
)
from calc.spec.run import Run


def of_keys(spec: ModelSpec, run: Run) -> Iterator[Condition]:
    """Of keys and values that ranks of one sequence do not pass on. Errors: Refused where no size could fulfil one."""
    if is_exactly(run.cp, 1):
        return
    mixers = [mixer for group in spec.layers for mixer in group.mixers]
    if any(getattr(mixer, "dynamic_mask", None) for mixer in mixers):
        yield must_be_one("cp", "1 where keys' values make a mask (dynamic_mask), which ranks do not pass on", run.cp)
    if any(getattr(mixer, "convolved", None) for mixer in mixers):
        yield must_be_one(
            "cp", "1 where queries and keys are convolved with those before, which ranks do not pass on", run.cp
        )
    if any(isinstance(getattr(mixer, "indexer", None), BlockIndexer) for mixer in mixers):
        yield must_be_one("cp", "1 where an indexer chooses among means of keys, which ranks do not pass on", run.cp)
    if any(group.ngrams is not None for group in spec.layers):
        yield must_be_one("cp", "1 beside hashed n-grams, whose first tokens are another rank's", run.cp)
    if any(getattr(mixer, "merged", False) for mixer in mixers):
        yield must_be_one(
            "cp", "1 where one attention reads tokens and an encoder, of which ranks pass on the former", run.cp
        )


def of_layers(spec: ModelSpec, run: Run) -> Iterator[Condition]:
    """Of all that follows in this file. Errors: Refused where no size could fulfil one."""
    for of in (
        of_stages,
        of_pictures,
        of_tiles,
        of_routers,
        of_batch_norms,
        of_patches_of_bytes,
        of_shorter,
        of_halved_texts,
        of_chunks,
    ):
        yield from of(spec, run)


def of_stages(spec: ModelSpec, run: Run) -> Iterator[Condition]:
    """Of layers that one stage must hold together. Errors: Refused where no size could fulfil one."""
    if is_exactly(run.pp, 1):
        return
    if spec.towers or any(group.shared or group.shared_block is not None for group in spec.layers):
        yield must_be_one("pp", "1 for a model with towers or shared layers", run.pp)
    if spec.per_layer is not None or any(_lends(group) for group in spec.layers):
        beside = "late experts, lent keys and latents, choices of a shared indexer, inputs of their own"
        yield must_be_one("pp", f"1 where layers read what others give beside the stream ({beside})", run.pp)


def _lends(group: LayerGroup) -> bool:
    """Whether a layer and one behind it are to stand in one stage, since more than the stream leads to that."""
    late = isinstance(group.channel, Moe) and group.channel.late
    return late or any(_borrows(mixer) for mixer in group.mixers)


def _borrows(mixer: object) -> bool:
    """Whether a mixer reads keys, latents or an indexer's choice of a layer before it."""
    if isinstance(mixer, Mla) and mixer.top_k is not None and mixer.indexer is None:
        return True
    return isinstance(mixer, Attention | Mla) and mixer.kv == "earlier"


def of_routers(spec: ModelSpec, run: Run) -> Iterator[Condition]:
    """Of routers that read those before them. Errors: Refused where no size could fulfil one."""
    if spec.routers_carry:
        # Stages would send it beside the stream, and so many numbers more.
        yield from _ones(run, ("pp", "interleave"), "a model whose routers read those of the layer before")


def of_pictures(spec: ModelSpec, run: Run) -> Iterator[Condition]:
    """Of denoisers and of windows of patches. Errors: Refused where no size could fulfil one."""
    if any(group.denoising is not None for group in spec.layers):
        yield from _ones(run, ("tp", "pp", "cp"), "a denoiser, of which it is not written down how ranks divide it")
    if any(group.merge is not None or isinstance(group.mixer, WindowAttention) for group in spec.layers):
        # Stages of a pipeline would send vectors of different widths, and ranks of a sequence cut windows.
        become = any(group.merge is not None for group in spec.layers)
        of = "which become fewer and wider" if become else "of which it is not written down how ranks divide them"
        yield from _ones(run, ("pp", "cp"), f"a model with windows of patches, {of}")


def of_tiles(spec: ModelSpec, run: Run) -> Iterator[Condition]:
    """Of pictures in tiles without a text. Errors: Refused where no size could fulfil one."""
    if spec.stages is not None:
        # What stands between both stages of layers, and results of the first, would have to go from rank to rank.
        yield from _ones(run, ("pp", "cp"), "a model of pictures in tiles, whose layers read in two stages")


def of_batch_norms(spec: ModelSpec, run: Run) -> Iterator[Condition]:
    """Of norms over all vectors of a batch. Errors: Refused where no size could fulfil one."""
    if any(group.norm.kind == "batchnorm" for stack in spec.stacks for group in stack.layers):
        # Ranks that have a part of the vectors would sum up their means and squares.
        yield from _ones(run, ("tp", "cp"), "a model with norms over a batch, whose ranks are not written down")


def of_shorter(spec: ModelSpec, run: Run) -> Iterator[Condition]:
    """Of sequences that become shorter between layers. Errors: Refused where no size could fulfil one."""
    if any(group.shortened is not None for stack in spec.stacks for group in stack.layers):
        # Stages would send vectors of different lengths, and ranks of a sequence have no whole steps.
        yield from _ones(run, ("pp", "cp"), "a model whose sequences become shorter between layers")


def of_patches_of_bytes(spec: ModelSpec, run: Run) -> Iterator[Condition]:
    """Of bytes that become patches. Errors: Refused where no size could fulfil one."""
    if any(group.patched is not None for group in spec.layers):
        of = "a model whose bytes become patches, of which it is not written down how ranks divide them"
        yield from _ones(run, ("tp", "pp", "cp"), of)


def of_halved_texts(spec: ModelSpec, run: Run) -> Iterator[Condition]:
    """Of texts in blocks of ever fewer vectors. Errors: Refused where no size could fulfil one."""
    if any(isinstance(mixer, FunnelAttention) for group in spec.layers for mixer in group.mixers):
        of = "a model whose blocks read ever fewer vectors, of which it is not written down how ranks divide them"
        yield from _ones(run, ("tp", "pp", "cp"), of)


def of_chunks(spec: ModelSpec, run: Run) -> Iterator[Condition]:
    """Of sound that is heard in chunks. Errors: Refused where no size could fulfil one."""
    if any(
        isinstance(mixer, ChunkAttention) for stack in spec.stacks for group in stack.layers for mixer in group.mixers
    ):
        of = "a model that hears in chunks, of which it is not written down how ranks divide them"
        yield from _ones(run, ("tp", "pp", "cp"), of)


def _ones(run: Run, fields: tuple[str, ...], of: str) -> Iterator[Condition]:
    for field in fields:
        if not is_exactly(value := getattr(run, field), 1):
            yield must_be_one(field, f"1 for {of}", value)
