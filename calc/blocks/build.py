"""From a description to the record of a forward pass: the tree of ops that runs it."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from calc.blocks.adapters import check_adapter, check_targets
from calc.blocks.contrast import contrast
from calc.blocks.documents import check_documents
from calc.blocks.head import head
from calc.blocks.idle import idle
from calc.blocks.mobile_net import eyes
from calc.blocks.mtp import mtp
from calc.blocks.patches import grid
from calc.blocks.pooling import attention_pool
from calc.blocks.projector import projector
from calc.blocks.registry import front_of
from calc.blocks.restored import places
from calc.blocks.stack import Stacked, stack
from calc.errors import Refused
from calc.sizes import Size, exact_div, is_exactly, is_symbolic, maximum
from calc.spec import Embedding, Frames, Lora, ModelSpec, Patches, Restored, Tower
from calc.spec.cache_key import CacheKey
from calc.spec.load import Load
from calc.spec.model import check_model
from calc.spec.run import Run
from calc.spec.traced import Traced
from calc.trace.op import Component, Op
from calc.trace.part import Part, Role
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace

PLACES: dict[str, tuple[Component, Role]] = {"vision": ("vision", "pictures"), "audio": ("audio", "sounds")}
"""Towers whose vectors stand among tokens -> what their parts are counted as, and what they are to the model."""

ROLES: dict[str, Role] = {"patcher": "patcher", "speech_encoder": "idle"}
"""Towers whose vectors no one reads -> what their parts are to the model."""


def build(spec: ModelSpec, load: Load) -> Part:
    """The tree of `spec` under `load`. Sizes in either may be ints, sympy expressions or float64 arrays.

    Errors: Refused for an adapter that has no place in the model, and for what the load asks of no such model.
    """
    check_model(spec)
    if load.document is not None:
        check_documents(spec)
    if isinstance(spec, Traced):
        return spec.record(load)
    check_adapter(spec, load)
    t = Trace(spec.adapter)
    source = seen = heard = None
    if spec.vision is not None:
        # Decoding finds the pictures read, as it finds an encoder's input.
        pictures = replace(load, batch=0 if load.decode else load.images, context=0, scores="full")
        reader = spec.encoder if spec.vision.reader == "encoder" and spec.encoder is not None else spec
        seen = _tower(t, spec.vision, reader.d_model, spec.vocab_size, pictures).end
    if spec.eyes is not None:
        seen = eyes(t, spec.eyes, load)
    if spec.audio is not None:
        heard = spec.audio, _tower(t, spec.audio, spec.d_model, spec.vocab_size, _sounds(spec.audio, load))
    if spec.encoder is not None:
        # Decoding finds the encoder's work done: no sequence passes it, but its result has its length all the same.
        length = _source_length(spec.encoder, load)
        reads = replace(load, batch=0 if load.decode else load.batch, seq=length, context=0)
        of_encoder = spec.vision is not None and spec.vision.reader == "encoder"
        inside, seen = (seen, None) if of_encoder and pictures_inside(load) else (None, seen)
        source = _tower(t, spec.encoder, spec.d_model, spec.vocab_size, reads, inside)
    unseen = spec.eyes is not None and load.decode
    inside = seen if spec.contrast is None and pictures_inside(load) and not unseen else None
    if any(x is not None for x in (spec.speech_encoder, spec.speech, spec.skipped)):
        _idle(t, spec, load)
    if spec.patcher is not None:
        _patcher(t, spec.patcher, spec, load)
    heard = heard if sounds_inside(load) and not load.decode else None
    x, after, end, _ = stack(t, spec, spec.vocab_size, load, source, inside, heard)
    if spec.pool is not None:
        attention_pool(t, spec.pool, x, after)
    if spec.head is not None and isinstance(spec.embedding, Embedding):
        head(t, spec.head, spec.embedding, spec.vocab_size, x)
    if load.mtp:
        if spec.mtp is None:
            raise Refused("mtp", "a model described with modules that predict further tokens", spec.name)
        mtp(t, spec.mtp, spec.head, spec.vocab_size, x, after)
    if spec.contrast is not None and seen is not None:
        contrast(t, spec.contrast, end, seen, load)
    tree = Part("", tuple(t.body))
    if isinstance(spec.adapter, Lora):
        check_targets(tree, spec.adapter)
    return tree


def _patcher(t: Trace, tower: Tower, spec: ModelSpec, load: Load) -> None:
    """What says where patches end: it runs over all tokens, and nothing of it is trained."""
    frozen, t.frozen = t.frozen, True
    with t.without_gradient():
        _tower(t, tower, spec.d_model, spec.vocab_size, load)
    t.frozen = frozen


def _idle(t: Trace, spec: ModelSpec, load: Load) -> None:
    """What stands beside a model that reads and writes text: weights, to which no gradient comes."""
    frozen, t.frozen = t.frozen, True
    with t.without_gradient():
        if spec.speech_encoder is not None:
            steps = spec.speech_encoder.least_steps
            # As decoding finds an encoder: nothing passes it.
            nothing = replace(load, batch=0, seq=steps, source=steps, context=0, decode=True)
            _tower(t, spec.speech_encoder, spec.d_model, spec.vocab_size, nothing)
        if spec.speech is not None:
            idle(t, "speech", spec.speech.weights(spec.d_model), spec.d_model)
        if spec.skipped is not None:
            idle(t, "skipped", spec.skipped.weights(spec.d_model), spec.d_model)
    t.frozen = frozen


def weighed(spec: ModelSpec, *, mtp: bool = False) -> Part:
    """The tree of `spec` under a load whose lengths do not matter: for what it weighs alone. Errors: Refused for what
    is no description of a model."""
    check_model(spec)
    return spec.record(None) if isinstance(spec, Traced) else _weighed(CacheKey(spec), mtp)


@lru_cache(maxsize=1)
def _weighed(spec: CacheKey[ModelSpec], mtp: bool) -> Part:
    """Questions about one model come one after the other: its parameters, the active ones, bytes in each format."""
    return build(spec.value, Load(mtp=mtp, seq=spec.value.shortest))


def source_length(spec: ModelSpec, seq: Size) -> Size | None:
    """Tokens or frames that an encoder reads beside `seq` tokens where nothing else is asked; None without an encoder
    of text or sound."""
    check_model(spec)
    if spec.encoder is None or not isinstance(spec.encoder.embedding, Embedding | Frames):
        return None
    return _source_length(spec.encoder, Load(seq=seq))


def vectors_read(
    spec: ModelSpec, seq: Size, source: Size | None = None, image: tuple[Size, Size] | None = None
) -> Size:
    """Vectors that the layers take for each sequence: `seq`, or as many as a picture of one size or of `image` gives,
    or sound of one length or of `source` frames; 1 of a traced model, of whose pictures or sound that is not known."""
    if not spec.has_own_length:
        return seq
    if isinstance(spec, Traced):
        return 1
    load = Load(seq=seq, source=source, image=image)
    if isinstance(spec.embedding, Restored):
        return places(spec.embedding, load)
    return front_of(spec.embedding)(Trace(), spec.embedding, spec.vocab_size, spec.d_model, load)[1]


def with_own_length(spec: ModelSpec, run: Run) -> Run:
    """`run` in sequences of the vectors that the layers take of each: of another length than was asked only where what
    `spec` reads has one of its own."""
    return run.changed(seq=vectors_read(spec, run.seq, run.source_seq, run.image)) if spec.has_own_length else run


def _source_length(encoder: Tower, load: Load) -> Size:
    """How much the encoder reads for each sequence."""
    if load.source is not None:
        return load.source
    own = getattr(encoder.embedding, "n_frames", None)
    if own is not None:
        return own
    usual = load.seq if load.usual_source is None else load.usual_source
    # Nobody asked for a sound that is too short to be heard.
    return usual if is_symbolic(usual) else maximum(usual, encoder.least_steps)


def pictures_inside(load: Load) -> bool:
    """Whether pictures may be read: that none are is known of whole numbers alone."""
    return not is_exactly(load.images, 0)


def vectors_of_pictures(spec: ModelSpec, load: Load) -> Size:
    """How many tokens of the batch the pictures of `load` take the places of in the main stack; 0 where they do not."""
    placed = (op for op in build(spec, load).body if isinstance(op, Op) and op.silent and op.name == "pictures")
    return next((op.inputs[1].rows for op in placed), 0)


def sounds_inside(load: Load) -> bool:
    """Whether an audio tower reads any: where the frames of each sequence are given."""
    return load.source is not None


def _sounds(tower: Tower, load: Load) -> Load:
    """What an audio tower reads: all windows of all sequences, or where it has none, one sound of each; nothing where
    decoding has found them read.

    Errors: Refused for a sound of no whole windows: most models pad shorter ones to some.
    """
    assert isinstance(tower.embedding, Frames)
    frames = tower.embedding.n_frames
    if frames is None:
        nothing = load.source is None or load.decode
        length = tower.least_steps if load.source is None else load.source
        batch = 0 if nothing else load.batch
        return replace(load, batch=batch, seq=length, source=length, context=0, scores="full")
    windows: Size = 0
    if load.source is not None and not load.decode:
        if isinstance(load.source, int) and isinstance(frames, int) and load.source % frames:
            raise Refused("source_seq", f"whole windows of {frames} frames", load.source)
        windows = exact_div(load.source, frames)
    return replace(load, batch=load.batch * windows, seq=frames, source=frames, context=0, scores="full")


def _tower(t: Trace, tower: Tower, d_reader: Size, vocab_size: Size, load: Load, seen: Tensor | None = None) -> Stacked:
    """A tower as one part. Its end is what a reader takes: of width d_reader behind a projector.

    seen: the vectors of pictures that take the places of some of its tokens.
    """
    component, role = PLACES.get(tower.name, (None, ROLES.get(tower.name)))
    with t.part(tower.name, component=component, role=role, tower=True) as out:
        made = stack(t, tower, vocab_size, load, seen=seen)
        x, inner, end, _ = made
        of_picture = grid(tower.embedding, load) if isinstance(tower.embedding, Patches) else None
        for each in tower.projectors:
            projected = projector(t, each, x, d_reader, inner, of_picture)
            # What reads single layers is added behind layers of the reader.
            end = end if each.depths else projected
        if tower.pool is not None:
            end = attention_pool(t, tower.pool, x, inner)
        # Behind stages of tiles nothing reads what the projector has read.
        x = x if tower.stages is None else end
        out += [x] if end is x else [x, end]
    return made._replace(vectors=x, end=end)
