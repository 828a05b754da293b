"""Time of sending tokens to the ranks of their experts (dispatch) and of bringing results back (combine).

Every token goes once to each rank that holds one of its experts. `limits.bandwidth` is that of one GPU's links in one
direction. Low-latency kernels write tokens as they come; throughput kernels use as many SMs as they are given.
"""

from __future__ import annotations

from typing import Any, ClassVar, Self

from calc.time.models.questions import Shape, answer
from calc.time.models.roofline import Roofline, Work


class ExchangeModel(Roofline):
    """Fitted constants of one direction of one library's exchange in one number format."""

    typical: ClassVar[dict[str, float]] = Roofline.typical | {"launch": 2.5, "bandwidth": -0.7, "step": -5.0}

    def seconds(self, tokens: Any, hidden: Any, top_k: Any, experts: Any, ranks: Any, sms: Any = 24) -> Any:
        """Seconds on one rank; ints give a float, float64 arrays (or a mix) an array.

        tokens: of one rank. hidden: width of a token. experts: of the layer, on `ranks` ranks. sms: cores that the
        exchange may use, where its kernels are told that.
        """
        return answer(self, tokens=tokens, hidden=hidden, top_k=top_k, experts=experts, ranks=ranks, sms=sms)

    def on_links(self, origin: float, target: float) -> Self:
        """This model on links of another rate, bytes/s in one direction."""
        limits = self.limits.model_copy(update={"bandwidth": self.limits.bandwidth * target / origin})
        return self.model_copy(update={"limits": limits})

    def work(self, shape: Shape) -> Work:
        """Bytes to other ranks; of each token, one row of numbers to each rank that it visits."""
        import numpy as np

        # Ranks drawn with replacement, fewer than top_k distinct experts lead to (`calc.time.step.places_visited`): the
        # constants of profiles were fitted to rows counted so, and are only right with them.
        visited = shape["ranks"] * (1 - (1 - 1 / shape["ranks"]) ** shape["top_k"])
        away = visited * (1 - 1 / shape["ranks"])
        nbytes = shape["tokens"] * away * shape["hidden"] * self.limits.itemsize
        features = {
            "tokens": np.log2(shape["tokens"]),
            "hidden": np.log2(shape["hidden"]),
            "top_k": np.log2(shape["top_k"]),
            "experts": np.log2(shape["experts"]),
            "ranks": np.log2(shape["ranks"]),
            "sms": shape["sms"],
        }
        nothing = np.zeros_like(nbytes)
        # Rows that are sent each cost a little beside their bytes, fewer SMs the more.
        return Work(nothing, nbytes, shape["tokens"] * visited / shape["sms"], nothing, features)
