"""What denoisers read: a picture's latents as patches, perhaps behind the vectors of a text.

Source: Peebles and Xie 2023 (arXiv:2212.09748, section 3.2); diffusers 0.42, models/embeddings.py, and its pipelines
for the pixels of one latent.
"""

from __future__ import annotations

from calc import checks
from calc.blocks.front_output import FrontOutput
from calc.errors import Refused
from calc.sizes import Size, floor_div, holds, is_symbolic
from calc.spec import Latents
from calc.spec.load import Load
from calc.trace.trace import Trace


def latents(t: Trace, spec: Latents, vocab_size: Size, d_model: Size, load: Load) -> FrontOutput:
    """Latents [batch, channels, height, width], and text [batch, n_text, d_text] -> [batch * (n_text + patches),
    d_model], the text's vectors ahead.

    Errors: Refused for a picture of fewer or more patches than there can be, and for one not of whole patches.
    """
    height, width = (spec.height, spec.width) if load.image is None else _latents_of(spec, load.image)
    rows, columns = (checks.size("patches along a side", floor_div(side, spec.patch)) for side in (height, width))
    for side in (rows, columns):
        if spec.n_side is not None and not is_symbolic(side) and holds(side > spec.n_side):
            raise Refused("image", f"at most {spec.n_side} patches along a side, whose places are known", side)
    square = spec.placed and spec.n_side is None
    if square and not is_symbolic(rows) and not is_symbolic(columns) and holds(rows != columns):
        raise Refused("image", "a square, into which alone diffusers lays these patches back", f"{rows} x {columns}")
    pixels = t.constant(load.batch * height * width, spec.channels)
    if spec.packed:
        x = t.linear("patch", pixels, d_model, bias=True, inside=False)
    else:
        x = t.patch("patch", pixels, d_model, (spec.patch, spec.patch), load.batch * rows * columns, bias=True)
    if spec.placed:
        x = t.add("position_add", x, of="positional")
    if spec.d_text is None or spec.n_text is None:
        return FrontOutput(x, rows * columns)
    text = t.constant(load.batch * spec.n_text, spec.d_text)
    read = t.linear("text", text, d_model, bias=True, inside=False)
    return FrontOutput(t.joined(read, x, rows=read.rows + x.rows, width=d_model), spec.n_text + rows * columns)


def _latents_of(spec: Latents, image: tuple[Size, Size]) -> tuple[Size, Size]:
    """Latents along each side of a picture of so many pixels."""
    along = spec.pixels * spec.patch
    for side in image:
        if not is_symbolic(side) and not is_symbolic(along) and holds(side % along != 0):
            raise Refused("image", f"multiples of {along} pixels, the side of one patch of latents", side)
    height, width = (floor_div(side, spec.pixels) for side in image)
    return height, width
