"""Masks of a picture's maps and of a prompt: Segment Anything's prompt encoder and mask decoder.

Source: transformers 5.23, models/sam2/modeling_sam2.py, Sam2PromptEncoder and Sam2MaskDecoder; models/sam likewise.
"""

from __future__ import annotations

from dataclasses import replace

from calc.blocks.attention import attention, cross_attention
from calc.blocks.prompt import given_mask, points, sinusoids
from calc.blocks.pyramid import Map
from calc.blocks.surroundings import Surroundings
from calc.errors import Refused
from calc.sizes import Size, exact_div
from calc.spec import Activation, MaskDecoder
from calc.spec.load import Load
from calc.trace.functions import Matmul
from calc.trace.primitives.product import product
from calc.trace.tape import Storage, Tape
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace


def mask_decoder(t: Trace, spec: MaskDecoder, maps: list[Map], load: Load) -> Tensor:
    """maps: vectors [batch * rows * columns, width] with rows and columns, the picture's own last, ahead of it two that
    are twice as fine each, where the spec reads them -> numbers of all masks [batch * n_masks, places].

    FLOPs of a transposed convolution of 2 x 2: 8 * vectors * channels in * channels out.
    Errors: Refused for a picture of another size than the model is made for, which has no places for prompts.
    """
    if load.image is not None:
        raise Refused("image", "none, since prompts have places in pictures of one size", "another size")
    read = maps if spec.maps else maps[-1:]
    with t.part("mask_decoder", *(x for x, _ in read), of="other") as out:
        image, grid = maps[-1]
        finer = _finer(t, maps) if spec.maps else None
        if spec.maps:
            image = t.add("without_memory", image, _learned(t, "no_memory", 1, image.width))
        tokens, n_tokens = _tokens(t, spec, image.width, load)
        image = t.add("prompted", image, given_mask(t, spec, image.width, grid, load))
        places = sinusoids(t, spec, "places", grid[0] * grid[1], image.width)
        found, image = _two_way(t, spec, tokens, image, places, (n_tokens, grid), load)
        masks = _masks(t, spec, found, image, finer, load)
        _scores(t, spec, found, load)
        out.append(masks)
    return masks


def _learned(t: Trace, name: str, rows: Size, width: Size) -> Tensor:
    return t.parameters(name, (t.weight(f"{name}.weight", rows, width),), rows, width)


def _finer(t: Trace, maps: list[Map]) -> tuple[Tensor, Tensor]:
    """The maps of two stages before, as narrow as what they are added to."""
    (finest, _), (fine, _), (image, _) = maps
    return (
        t.convolution("finest", finest, exact_div(image.width, 8), (1, 1), finest.rows),
        t.convolution("fine", fine, exact_div(image.width, 4), (1, 1), fine.rows),
    )


def _tokens(t: Trace, spec: MaskDecoder, width: Size, load: Load) -> tuple[Tensor, Size]:
    """[batch * n, width]: a learned vector for each thing that is asked, and the prompt's points; and n."""
    rows = {"object": 1} if spec.maps else {}
    rows |= {"iou": 1, "mask": spec.n_masks}
    tables = tuple(t.weight(f"{name}_token.weight", each, width) for name, each in rows.items())
    n = sum(rows.values())
    asked = t.parameters("asked", tables, load.batch * n, width)
    return t.concat("tokens", asked, points(t, spec, width, load)), n + spec.n_points + 1


def _two_way(
    t: Trace,
    spec: MaskDecoder,
    tokens: Tensor,
    image: Tensor,
    places: Tensor,
    sizes: tuple[Size, tuple[Size, Size]],
    load: Load,
) -> tuple[Tensor, Tensor]:
    """Tokens and the picture's vectors, each of which reads the other. sizes: how many tokens, rows and columns."""
    n_tokens, (rows, columns) = sizes
    of_tokens, of_image = replace(load, seq=n_tokens, context=0), replace(load, seq=rows * columns, context=0)
    own, narrow = spec.attentions(image.width)
    first = tokens

    def reads_image(name: str, x: Tensor) -> Tensor:
        around = Surroundings(image, rows * columns, places, first)
        with t.part(name, x, image, of="attention") as out:
            out.append(cross_attention(t, narrow, x, of_tokens, around, keeps=False))
        return out[0]

    for i in range(spec.n_layers):
        with t.part(f"layers.{i}", tokens, image, of="other") as out:
            mixer = own if i else own.model_copy(update={"position": "none"})
            with t.part("attention", tokens, of="attention") as made:
                made.append(attention(t, mixer, tokens, of_tokens, Surroundings(places=first)))
            # The first layer's tokens are their own positions, and nothing is added to them.
            tokens = t.norm("norm1", spec.norm, t.add("add1", tokens, made[0]) if i else made[0])
            tokens = t.norm("norm2", spec.norm, t.add("add2", tokens, reads_image("to_image", tokens)))
            y = _perceptron(t, "mlp", tokens, spec.d_ff, tokens.width, spec.n_dense, spec.activation)
            tokens = t.norm("norm3", spec.norm, t.add("add3", tokens, y))
            around = Surroundings(tokens, n_tokens, first, places)
            with t.part("to_tokens", image, tokens, of="attention") as made:
                made.append(cross_attention(t, narrow, image, of_image, around, keeps=False))
            image = t.norm("norm4", spec.norm, t.add("add4", image, made[0]))
            out += [tokens, image]
    tokens = t.add("add", tokens, reads_image("to_image", tokens))
    return t.norm("norm", spec.end_norm, tokens), image


def _masks(
    t: Trace, spec: MaskDecoder, tokens: Tensor, image: Tensor, finer: tuple[Tensor, Tensor] | None, load: Load
) -> Tensor:
    """The picture four times as large along a side, and of each place the dot product with every mask's vector."""
    eighth = exact_div(image.width, 8)
    x = t.upscaled("upscale1", image, exact_div(image.width, 4))
    x = x if finer is None else t.add("add_fine", x, finer[1])
    x = t.activation("activation1", "gelu", t.norm("upscale_norm", spec.upscale_norm, x))
    x = t.upscaled("upscale2", x, eighth)
    x = t.activation("activation2", "gelu", x if finer is None else t.add("add_finest", x, finer[0]))
    each = tokens.view(load.batch, tokens.width)
    made = [_perceptron(t, f"of_masks.{i}", each, each.width, eighth, 3, "relu") for i in range(spec.n_masks)]
    vectors = t.concat("vectors", *made)
    n, places = spec.n_masks, exact_div(x.rows, load.batch)
    shape = Matmul(n, places, eighth, load.batch, weighed=False)
    rows = load.batch * n

    def keeps(tape: Tape, a: Storage, b: Storage) -> Storage:
        return tape.product(a, b, rows * places, "none")

    return product(t, "masks", vectors, x, rows, places, shape, 2 * rows * places * eighth, split="none", keeps=keeps)


def _scores(t: Trace, spec: MaskDecoder, tokens: Tensor, load: Load) -> None:
    """How good each mask is, and whether there is anything to be found."""
    each = tokens.view(load.batch, tokens.width)
    iou = _perceptron(t, "iou", each, spec.d_iou, spec.n_masks, spec.iou_depth, "relu")
    if spec.maps:
        t.activation("iou_share", "sigmoid", iou)
        _perceptron(t, "object", each, each.width, 1, 3, "relu")


def _perceptron(t: Trace, name: str, x: Tensor, d_inner: Size, d_out: Size, depth: int, function: Activation) -> Tensor:
    """Dense layers with biases and an activation between each two."""
    with t.part(name, x, of="mlp") as out:
        for i in range(depth):
            x = t.linear(str(i), x, d_out if i == depth - 1 else d_inner, bias=True, inside=False)
            if i < depth - 1:
                x = t.activation(f"activation{i}", function, x)
        out.append(x)
    return x
