"""What a model of a kernel's time is asked: one signature a kind of kernel, whatever answers it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from calc.time.models.residual import Column

Shape = Mapping[str, Column]
"""Sizes by name, a float64 column of n numbers each."""


class Predicts(Protocol):
    """What answers: seconds of the launches in a shape."""

    def predicted(self, shape: Shape) -> Column: ...


class ProductQuestion:
    """Matrix products."""

    def seconds(self: Predicts, m: Any, n: Any, k: Any, batch: Any = 1) -> Any:
        """Seconds of `batch` products [m, k] x [k, n] in one launch; ints give a float, float64 arrays an array.

        m: rows of activations. n, k: columns and rows of the weight, in the layout that was measured.
        """
        return answer(self, m=m, n=n, k=k, batch=batch)


class PromptQuestion:
    """Attention over a prompt, forward or back."""

    def seconds(
        self: Predicts,
        batch: Any,
        heads: Any,
        kv_heads: Any,
        seq: Any,
        keys: Any = None,
        d_head: Any = 128,
        d_value: Any = None,
        causal: Any = True,
        window: Any = None,
    ) -> Any:
        """Seconds of one layer's attention; ints give a float, float64 arrays (or a mix) an array.

        batch: sequences. heads, kv_heads: of queries, of keys and values. seq: new tokens of each sequence. keys:
        tokens they may look at, themselves included (`seq` where None). d_value: width of values (`d_head` where
        None). causal: a token looks back only. window: tokens that each sees, itself included; 0 or None: all.
        """
        return answer(
            self,
            batch=batch,
            heads=heads,
            kv_heads=kv_heads,
            seq=seq,
            keys=seq if keys is None else keys,
            d_head=d_head,
            d_value=d_head if d_value is None else d_value,
            causal=causal,
            window=0 if window is None else window,
        )


class TokenQuestion:
    """Attention of one new token of each sequence."""

    def seconds(
        self: Predicts,
        batch: Any,
        heads: Any,
        kv_heads: Any,
        context: Any,
        d_head: Any = 128,
        window: Any = None,
        d_value: Any = None,
        latent: Any = False,
    ) -> Any:
        """Seconds of one layer's attention; ints give a float, float64 arrays (or a mix) an array.

        batch: sequences, one new token each. heads, kv_heads: of queries, of keys and values. context: tokens of each
        sequence, the new one included. window: the last tokens that count; 0 or None: all. d_value: width of values
        (`d_head` where None). latent: values are the first `d_value` numbers of the keys and are not read again, as in
        absorbed MLA (d_head 576, d_value 512, one key head): no measured table holds that, so it rests on scaling.
        """
        return answer(
            self,
            batch=batch,
            heads=heads,
            kv_heads=kv_heads,
            context=context,
            d_head=d_head,
            d_value=d_head if d_value is None else d_value,
            window=0 if window is None else window,
            latent=latent,
        )


def columns(**sizes: Any) -> tuple[Shape, bool]:
    """Sizes as float64 columns of one length, and whether all of them were single numbers."""
    import numpy as np

    arrays = np.broadcast_arrays(*(np.asarray(size, dtype=float) for size in sizes.values()))
    shape = {name: np.atleast_1d(array) for name, array in zip(sizes, arrays, strict=True)}
    return shape, arrays[0].ndim == 0


def answer(model: Predicts, **sizes: Any) -> Any:
    """What a model says of `sizes`: a float where all of them are single numbers, else a column."""
    shape, single = columns(**sizes)
    found = model.predicted(shape)
    return float(found[0]) if single else found
