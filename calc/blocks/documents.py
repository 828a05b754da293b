"""Sequences that hold several documents: of which models it is described that attention stays within each."""

from __future__ import annotations

from calc.errors import Refused
from calc.spec import Attention, Embedding, LayerGroup, Mla, ModelSpec, Node, Prefix
from calc.spec.traced import Traced


def check_documents(spec: ModelSpec) -> None:
    """Errors: Refused for a model of which something else than attention within documents would be counted."""
    if isinstance(spec, Traced):
        raise Refused("document", "none of a traced model, whose attention is counted as it ran", "a length")
    if not isinstance(spec.embedding, Embedding):
        raise Refused("document", "none, unless the model reads tokens", f"a length beside {spec.embedding.kind}")
    if spec.towers:
        raise Refused("document", "none beside an encoder or a tower, whose inputs have their own lengths", "a length")
    if isinstance(spec.adapter, Prefix):
        raise Refused("document", "none beside a prefix, which each document would read", "a length")
    for group in spec.layers:
        for mixer in group.mixers:
            if not _apart(mixer):
                expected = "none, unless all mixers are attention that reads its own sequence's tokens alone"
                raise Refused("document", expected, f"a length beside {mixer.kind}")
        if not group.mixers or _more(group):
            raise Refused("document", "none, unless layers are attention and what works on tokens alone", group.name)


def _apart(mixer: Node) -> bool:
    """Whether it attends to tokens alone, with no table or mask that is laid out for a whole sequence."""
    if isinstance(mixer, Mla):
        return mixer.top_k is None and mixer.temperature is None and not mixer.head_temperature
    if not isinstance(mixer, Attention):
        return False
    laid_out = (mixer.buckets, mixer.disentangled, mixer.shaw, mixer.dynamic_mask, mixer.temperature)
    beside = (mixer.span, mixer.squares, mixer.merged, mixer.convolved, *laid_out)
    return mixer.position in ("rope", "none") and not any(beside)


def _more(group: LayerGroup) -> bool:
    """Whether its layers mix tokens in other ways too."""
    return any(
        each is not None
        for each in (
            *(group.cross, group.convolution, group.beside, group.shared_block, group.denoising),
            *(group.patched, group.unpatched, group.of_patches, group.shortened, group.halved),
        )
    )
