"""What one rank of a server holds and does, as numbers: a model's work, laid out, in number formats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from calc.serve.formats import Format, cache_bits
from calc.serve.layout import Layout
from calc.serve.sums import on_average
from calc.serve.work import Curve, Work, lengths

if TYPE_CHECKING:
    from numpy.typing import NDArray

STATE_BYTES = 4
ACTIVATION_BYTES = 2


@dataclass(frozen=True, slots=True)
class Rank:
    """The rank that has the most; numbers of all stages of a pipeline together.

    dense, dense_bytes: elements and bytes of matrices that every token passes, in the format of the run; wide,
    wide_bytes: of those that stay in 16 bits; expert, expert_bytes: of one expert in all routed layers, on this rank;
    head, head_bytes: of the head. local: experts of a layer on this rank, of n_experts; top_k of them a token. moved:
    bytes that pass between kernels for a token. states: bytes of recurrent state a token reads and writes. kernels,
    narrowed: launched in a pass; inputs that are quantised where products run in fewer bits. sums: results that the
    ranks of one sequence sum; summed: bytes of one token of such a result, on average. exchanges: results of experts,
    which all ranks of a stage sum. message: bytes of a token's vector. tp, pp, dp, ep: of the layout. decode_bytes,
    decode_flops, prompt_flops: of attention, at the lengths of `lengths()`. tables: bytes of a token table that is not
    the head's. shared: bytes of matrices beyond the first of those that several layers share. drafting: of a pass over
    the model, what guessing of a token takes. towers: bytes of towers of pictures and sound, in 16 bits, on the first
    stage.
    """

    dense: float
    dense_bytes: float
    wide: float
    wide_bytes: float
    expert: float
    expert_bytes: float
    head: float
    head_bytes: float
    local: float
    n_experts: float
    top_k: float
    moe_layers: float
    moved: float
    states: float
    other_flops: float
    kernels: float
    narrowed: float
    sums: float
    summed: float
    exchanges: float
    message: float
    tp: int
    pp: int
    dp: int
    ep: int
    decode_bytes: NDArray[Any]
    decode_flops: NDArray[Any]
    prompt_flops: NDArray[Any]
    cached_bytes: NDArray[Any]
    tables: float = 0.0
    shared: float = 0.0
    drafting: float = 0.0
    towers: float = 0.0

    @property
    def held(self) -> float:
        """Bytes of weights on one GPU. A stage of a pipeline has its share of the layers; the first has the token table
        and towers besides, the last the head, and of these the one that has more counts."""
        experts = self.expert_bytes * self.local
        layers = self.dense_bytes + self.wide_bytes + experts - self.shared
        first = self.tables + self.towers
        ends = first + self.head_bytes if self.pp == 1 else max(first, self.head_bytes)
        return layers / self.pp + ends


def rank_of(work: Work, layout: Layout, form: Format, cache: str, vocabulary: float = 0.0) -> Rank:
    """The rank of a layout that has the most. vocabulary: elements of a token table that is not the head's."""
    width_of = {"dense": form.bits / 8, "wide": form.rest / 8, "expert": form.bits / 8, "head": form.head / 8}
    sums, shared = dict.fromkeys(width_of, 0.0), 0.0
    for matrix in work.matrices:
        tp = layout.moe_tp if matrix.expert else layout.tp
        place = _place(matrix.kind, matrix.expert, form, work)
        sums[place] += matrix.elements(tp) * matrix.calls
        shared += matrix.elements(tp) * (matrix.calls - matrix.copies) * width_of[place]
    tp, share = layout.tp, 1 / layout.tp
    width = cache_bits(cache) / 8
    often, each = on_average(one for one in work.sums if not one.routed)
    return Rank(
        dense=sums["dense"],
        dense_bytes=sums["dense"] * width_of["dense"],
        wide=sums["wide"],
        wide_bytes=sums["wide"] * width_of["wide"],
        expert=sums["expert"],
        expert_bytes=sums["expert"] * width_of["expert"],
        head=sums["head"],
        head_bytes=sums["head"] * width_of["head"],
        local=work.n_experts / layout.ep,
        n_experts=work.n_experts,
        top_k=work.top_k,
        moe_layers=work.moe_layers,
        moved=work.moved * ACTIVATION_BYTES * (1 + share) / 2,
        states=work.states * STATE_BYTES * share,
        other_flops=work.other_flops * share,
        kernels=work.kernels,
        narrowed=_narrowed(work, form),
        sums=often if tp > 1 else 0.0,
        summed=each * ACTIVATION_BYTES,
        exchanges=sum(one.calls for one in work.sums if one.routed) if layout.wide > 1 else 0.0,
        message=work.d_model * ACTIVATION_BYTES,
        tp=tp,
        pp=layout.pp,
        dp=layout.attention_dp,
        ep=layout.ep,
        decode_bytes=_sum(work.decode_cache, lambda heads: _fewest(heads, tp)) * width,
        decode_flops=_sum(work.decode_flops, lambda heads: share),
        prompt_flops=_sum(work.prompt_flops, lambda heads: share),
        cached_bytes=_cached(work, tp, width),
        tables=vocabulary * share * ACTIVATION_BYTES,
        shared=shared,
        towers=sum(each.elements(tp) * each.copies for each in work.towers) * ACTIVATION_BYTES,
    )


def _place(kind: str, expert: bool, form: Format, work: Work) -> str:
    """Where a matrix is counted: routers stay wide, and all but experts where a format is experts' alone."""
    if kind == "head" or expert:
        return "head" if kind == "head" else "expert"
    experts_alone = form.experts and work.n_experts > 0
    narrow_latent = form.name == "nvfp4" and work.latent and kind == "mixer"
    return "wide" if kind == "router" or experts_alone or narrow_latent or form.bits >= 16 else "dense"


def _narrowed(work: Work, form: Format) -> float:
    """Inputs that are quantised: those of products whose weights are in the format of the run."""
    kinds = (("mixer", work.mixer_products), ("channel", work.channel_products))
    return sum(products for kind, products in kinds if _place(kind, False, form, work) == "dense")


def _fewest(heads: float, tp: int) -> float:
    """The share of the cache of the rank that has the most: whole heads."""
    ranks = min(tp, heads)
    return -(-heads // ranks) / heads


def _sum(curves: tuple[Curve, ...], share: Callable[[float], float]) -> NDArray[Any]:
    import numpy as np

    total = np.zeros(len(lengths()))
    for curve in curves:
        total = total + curve.values * share(curve.heads)
    return total


def _cached(work: Work, tp: int, width: float) -> NDArray[Any]:
    """Bytes that a rank keeps of a sequence, at every length, as pages hold them: tokens that wait for an entry of
    several to be complete fill no page of their own."""
    import numpy as np

    tokens, total = lengths(), np.zeros(len(lengths()))
    for cache, calls in work.caches:
        share = _fewest(float(cache.heads), tp)
        stay = tokens if cache.window is None else np.minimum(tokens, float(cache.window))
        if cache.stride is not None:
            stay = np.floor(tokens / float(cache.stride))
        grouped = float(cache.grouped)
        grows = float(cache.per_token) * stay + float(cache.fixed) - grouped
        total += calls * share * (grows * width + float(cache.recurrent) * STATE_BYTES)
        total += calls * _fewest(float(cache.groups), tp) * grouped * width
    return total


def at(curve: NDArray[Any], tokens: Any) -> Any:
    """A curve's values at some lengths."""
    import numpy as np

    return np.interp(tokens, lengths(), curve)
