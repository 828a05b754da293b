"""Maps of one width of what every stage of a picture's patches gives (SAM 2's neck)."""

from __future__ import annotations

from calc.sizes import Size
from calc.spec import Neck, Pyramid
from calc.trace.tensor import Tensor
from calc.trace.trace import Trace

Map = tuple[Tensor, tuple[Size, Size]]


def pyramid(t: Trace, spec: Pyramid, ends: list[Map], batch: Size) -> list[Map]:
    """ends: vectors [batch * rows * columns, width] behind each stage, with rows and columns of their plane -> a map
    of each, the largest first.

    FLOPs 2 * vectors * width * d_out of each stage; what is added takes none.
    """
    with t.part("pyramid", *(x for x, _ in ends), of="other") as out:
        above: Tensor | None = None
        for i, (x, (rows, columns)) in reversed(list(enumerate(ends))):
            places = batch * rows * columns
            made = t.convolution(f"lateral{i}", x, spec.d_out, (1, 1), places)
            if above is not None and i in spec.top_down:
                made = t.add(f"add{i}", made, t.joined(above, rows=places, width=spec.d_out))
            above = made
            out.append(made)
    return list(zip(out[::-1], (grid for _, grid in ends), strict=True))


def neck(t: Trace, spec: Neck, x: Tensor, grid: tuple[Size, Size], batch: Size) -> Map:
    """x [batch * rows * columns, width] -> [batch * rows * columns, d_out].

    FLOPs 2 * vectors * d_out * (width + 9 * d_out).
    """
    with t.part("neck", x, of="other") as out:
        places = batch * grid[0] * grid[1]
        x = t.norm("norm1", spec.norm, t.convolution("conv1", x, spec.d_out, (1, 1), places, bias=False))
        x = t.norm("norm2", spec.norm, t.convolution("conv2", x, spec.d_out, (3, 3), places, bias=False))
        out.append(x)
    return x, grid
