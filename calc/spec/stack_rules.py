"""What a stack's front, layers and ends have to agree on."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

from calc.errors import Refused
from calc.spec.attention import Attention
from calc.spec.band_attention import BandAttention
from calc.spec.denoising import Latents
from calc.spec.fronts import Embedding
from calc.spec.gated_bias import GatedBias
from calc.spec.halving_rules import halves, passes_again
from calc.spec.lending_rules import carries_on, late, lent
from calc.spec.patches import Patches
from calc.spec.stack_fields import StackFields
from calc.spec.stage_rules import in_stages, mapped, masked, shorter, tiled
from calc.spec.stream_rules import in_fp32
from calc.spec.trajectory import Trajectory


def _pools_alone(stack: StackFields) -> None:
    if stack.pool is not None and (not isinstance(stack.embedding, Patches) or stack.heads):
        raise Refused("pool", "none, but behind a stack that reads pictures, without heads", stack.embedding.kind)


def _scheduled(stack: StackFields) -> None:
    names = [group.name for group in stack.layers]
    if len(set(names)) != len(names):
        raise Refused("layers", "groups with different names", ", ".join(names))
    if stack.schedule is not None:
        for group in stack.layers:
            if (n := stack.schedule.count(group.name)) != group.count:
                raise Refused("schedule", f"{group.count} layers named {group.name}", n)
        if unknown := sorted(set(stack.schedule) - set(names)):
            raise Refused("schedule", f"names among {', '.join(names)}", ", ".join(unknown))


def _heads_divide(stack: StackFields) -> None:
    for group in stack.layers:
        shared = None if group.shared_block is None else group.shared_block.attention
        for attention in (*group.mixers, group.cross, shared):
            if not isinstance(attention, Attention):
                continue
            if attention.d_head is None and stack.d_model % attention.n_heads:
                expected = f"a divisor of d_model = {stack.d_model} (or d_head given)"
                raise Refused("n_heads", expected, attention.n_heads)
            d_head = attention.d_head or stack.d_model // attention.n_heads
            if attention.position == "rope" and attention.rope.plane is not None:
                _in_plane(stack, d_head)
            if attention.position == "rope" and d_head % 2:
                raise Refused("d_head", "an even width, since rotary positions turn pairs", d_head)
            share = attention.rope.fraction
            if attention.indexer is not None and int(d_head * share) > attention.indexer.d_head:
                expected = f"at least the {int(d_head * share)} values of a head that turn"
                raise Refused("indexer.d_head", expected, attention.indexer.d_head)
            if attention.position == "rope" and not attention.rope.proportional and int(d_head * share) == 1:
                raise Refused("rope.fraction", f"a share of d_head = {d_head} that holds a pair", share)


def _in_plane(stack: StackFields, d_head: int) -> None:
    """Refuse rows and columns where there are none, and heads that two axes cannot share in pairs."""
    if not isinstance(stack.embedding, Patches):
        raise Refused("rope.plane", "none, unless the stack reads pictures in patches", stack.embedding.kind)
    if d_head % 4:
        raise Refused("d_head", "a multiple of 4, for rotary positions along both axes", d_head)


def _in_squares(stack: StackFields) -> None:
    front = stack.embedding
    if any(m.squares for m in stack.attentions) and (not isinstance(front, Patches) or front.n_special):
        raise Refused("squares", "null, unless the stack reads pictures in patches and nothing else", front.kind)


def _in_patches(stack: StackFields) -> None:
    """Bytes become patches once, and layers behind those read bytes again and perhaps patches beside them."""
    steps = [(g.patched is not None, g.unpatched is not None, g.of_patches is not None) for g in stack.layers]
    if not any(any(step) for step in steps):
        return
    down = [i for i, step in enumerate(steps) if step[0]]
    up = [i for i, step in enumerate(steps) if step[1]]
    if len(down) != 1 or len(up) != 1 or not 0 < down[0] < up[0] or any(s[2] for s in steps[: up[0]]):
        raise Refused("patched", "one group of layers, and one behind it that is unpatched and may read it", "others")
    plain = (stack.schedule, stack.per_layer, stack.n_streams, stack.altup, stack.pool, stack.relative_bias)
    if any(each is not None for each in plain) or not isinstance(stack.embedding, Embedding):
        raise Refused("patched", "none, unless tokens are read by plain layers, one group behind another", "some")


def _denoises(stack: StackFields) -> None:
    layers = [group.denoising for group in stack.layers if group.denoising is not None]
    front = stack.embedding
    if stack.denoised is None and not layers and not isinstance(front, Latents):
        return
    if stack.denoised is None or len(layers) < len(stack.layers) or not isinstance(front, Latents):
        raise Refused("denoised", "what stands behind layers that all denoise latents", front.kind)
    if stack.final_norm is not None or stack.heads or stack.pool is not None or stack.schedule is not None:
        raise Refused("final_norm", "none, nor heads, behind a denoiser, whose groups stand in order", "others")
    of_text = [layer.streams for layer in layers]
    if any(each != "picture" for each in of_text) is (front.n_text is None):
        raise Refused("streams", "a text beside the picture where the latents have one", ", ".join(of_text))
    ends = stack.layers[-1].count if of_text[-1] == "text_ends" else 0
    if "text_ends" in of_text[:-1] or (isinstance(ends, int) and ends > 1) or of_text[-1] == "beside":
        raise Refused("streams", "one layer that ends the text, or joined ones, behind all others", of_text[-1])
    if any(one == "joined" and other != "joined" for one, other in pairwise(of_text)):
        raise Refused("streams", "joined ones behind those beside one another", ", ".join(of_text))
    if any((layer.conditioning is None) is (front.conditioning is None) for layer in layers):
        raise Refused("conditioning", "one of all layers, or one of each", "both or none")
    if stack.denoised.remakes_conditioning is (front.conditioning is not None):
        raise Refused(
            "remakes_conditioning",
            "true where the conditioning is each layer's own",
            stack.denoised.remakes_conditioning,
        )
    for layer in layers:
        if stack.d_model % layer.n_heads:
            raise Refused("n_heads", f"a divisor of d_model = {stack.d_model}", layer.n_heads)
        if layer.axes is not None and sum(layer.axes) * layer.n_heads != stack.d_model:
            raise Refused(
                "axes", f"widths that sum up to d_model / n_heads = {stack.d_model // layer.n_heads}", "others"
            )
    if front.placed and stack.d_model % 4:
        raise Refused("d_model", "a multiple of 4, for sines and cosines of rows and columns", stack.d_model)


def _one_relative_table(stack: StackFields) -> None:
    kinds = set(stack.relative_tables)
    if stack.gates_bias and not all(isinstance(m, GatedBias) for group in stack.layers for m in group.mixers):
        raise Refused("mixer", "gated_bias in all layers, where there is one", "others")
    if len(kinds) > 1:
        raise Refused("buckets", "alike in all layers that share them, and their heads too", "different ones")
    if any(m.disentangled != other.disentangled for m, other in pairwise(stack.attentions)):
        raise Refused("disentangled", "alike in all layers, which share its table", "different ones")


def _alike_in_blocks(stack: StackFields) -> None:
    mixers = [mixer for group in stack.layers for mixer in group.mixers]
    if stack.in_blocks is not None and any(mixer != stack.in_blocks for mixer in mixers):
        raise Refused("mixer", "alike in all layers, where attention stays in blocks", "different ones")


def _of_one_page(stack: StackFields) -> None:
    mixers = [mixer for group in stack.layers for mixer in group.mixers]
    if stack.on_page is not None and any(mixer != stack.on_page for mixer in mixers):
        raise Refused("mixer", "alike in all layers, where attention is on pages", "different ones")
    boxes = getattr(stack.embedding, "boxes", None)
    if stack.on_page is not None and (boxes is None or getattr(stack.embedding, "picture", None) is None):
        raise Refused("embedding", "tokens with boxes, and a picture, for attention on pages", stack.embedding.kind)
    if boxes is not None and 4 * boxes.d_place + 2 * boxes.d_extent != stack.d_model:
        raise Refused("boxes", f"4 * d_place + 2 * d_extent = d_model = {stack.d_model}", "another width")
    if any(each.per == "text" for each in stack.heads) and stack.on_page is None:
        raise Refused("per", "another kind where no picture stands behind the text", "text")


def _whole_chunks(stack: StackFields) -> None:
    multiple = getattr(stack.embedding, "multiple", None)
    for mixer in (mixer for group in stack.layers for mixer in group.mixers):
        if isinstance(mixer, BandAttention) and (multiple is None or multiple % (2 * mixer.reach)):
            raise Refused("embedding.multiple", f"a multiple of 2 * reach = {2 * mixer.reach}", multiple)
        sparse = mixer.sparse if isinstance(mixer, Attention) and not mixer.causal else None
        if sparse is not None and not sparse.unknown and multiple != sparse.block:
            raise Refused("embedding.multiple", f"{sparse.block}, the tokens of a block", multiple)
        beyond = getattr(stack.embedding, "beyond", None)
        if sparse is not None and not sparse.unknown and beyond != sparse.longest:
            expected = f"{sparse.longest}, of more tokens than which texts attend to blocks"
            raise Refused("embedding.beyond", expected, beyond)


def _alternates(stack: StackFields) -> None:
    if stack.altup is None:
        return
    if stack.n_streams is not None:
        raise Refused("n_streams", "null beside altup, which has streams of its own", stack.n_streams)
    if not 1 <= stack.altup.active + 1 <= stack.altup.n or stack.altup.n < 2:
        raise Refused("altup.n", "two streams at least, the active one among them", stack.altup.n)
    if any(group.out_norm or group.out_scale or group.placement.startswith("parallel") for group in stack.layers):
        raise Refused("altup", "null beside parallel blocks, or a norm or factor behind a layer", "streams")


def _adds_ngrams(stack: StackFields) -> None:
    if stack.n_streams is None and any(group.ngrams is not None for group in stack.layers):
        raise Refused("ngrams", "none, unless there are several residual streams to which they are added", "some")


def _reads_each_other(stack: StackFields) -> None:
    names: list[str] = []
    for each in stack.heads:
        if each.reads is not None and each.reads not in names:
            raise Refused(f"{each.name}.reads", f"a head before it ({', '.join(names) or 'none'})", each.reads)
        names.append(each.name)


def _windows_of_tokens(stack: StackFields) -> None:
    if isinstance(stack.embedding, Trajectory) and any(mixer.window is not None for mixer in stack.attentions):
        raise Refused("window", "none, since it counts tokens and a trajectory's sequence counts steps", "a window")


RULES: tuple[Callable[[StackFields], None], ...] = (
    _pools_alone,
    _scheduled,
    _heads_divide,
    _in_squares,
    in_stages,
    mapped,
    masked,
    shorter,
    tiled,
    _in_patches,
    halves,
    passes_again,
    _denoises,
    _one_relative_table,
    _alike_in_blocks,
    _of_one_page,
    _whole_chunks,
    _alternates,
    _adds_ngrams,
    lent,
    carries_on,
    late,
    in_fp32,
    _reads_each_other,
    _windows_of_tokens,
)
"""Each raises Refused, with the field, what it must be and what it is."""
