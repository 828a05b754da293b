"""What of a model a formula of few letters does not see. Each check gives one sentence, or None where all is seen."""

from __future__ import annotations

from collections.abc import Callable

from calc.blocks.attention_inputs import head_sizes
from calc.conventions.base import decoder
from calc.sizes import Size
from calc.spec import Mlp, ModelSpec, Moe

Check = Callable[[ModelSpec], str | None]


def report(*checks: Check) -> Callable[[ModelSpec], tuple[str, ...]]:
    """A convention's `caveats` made of several checks."""

    def caveats(spec: ModelSpec) -> tuple[str, ...]:
        return tuple(sentence for check in checks if (sentence := check(spec)) is not None)

    return caveats


def of_plain_layers(*checks: Check) -> Callable[[ModelSpec], tuple[str, ...]]:
    """`report` of a formula in d_model and n_layers alone, whose layers are plain: a block of two matrices 4 * d_model
    wide, as many heads of keys and values as of queries, d_model / n_heads wide; and of further checks."""
    return report(gated, width, experts_unseen, grouped, heads, *checks)


def gated(spec: ModelSpec) -> str | None:
    """A gated block has three matrices where a formula assumes two."""
    if any(group.channel.gated for group in decoder(spec).layers):
        return "gated feed-forward blocks have three matrices; the formula counts two"
    return None


def width(spec: ModelSpec) -> str | None:
    """A feed-forward block of another width than 4 * d_model."""
    own = [layers.channel.d_ff for layers in decoder(spec).layers if isinstance(layers.channel, Mlp)]
    widths = sorted({d_ff for d_ff in own if d_ff is not None and _differ(d_ff, 4 * spec.d_model)})
    return f"d_ff is {', '.join(map(str, widths))}; the formula takes 4 * d_model" if widths else None


def experts_unseen(spec: ModelSpec) -> str | None:
    """A formula without letters for experts."""
    if any(isinstance(group.channel, Moe) for group in decoder(spec).layers):
        return "the layers hold a mixture of experts; the formula counts one dense block of width 4 * d_model"
    return None


def experts_all_counted(spec: ModelSpec) -> str | None:
    """A formula whose N holds every expert, made for dense models."""
    for group in decoder(spec).layers:
        if isinstance(group.channel, Moe):
            k, n = group.channel.visits, group.channel.n_experts
            return f"N holds every expert, as if a token visited all {n}; it visits {k}"
    return None


def grouped(spec: ModelSpec) -> str | None:
    """Fewer key and value heads than query heads."""
    if any(_differ(group.attention.n_kv_heads, group.attention.n_heads) for group in decoder(spec).layers):
        return "there are fewer key and value heads than query heads; the formula counts as many"
    return None


def heads(spec: ModelSpec) -> str | None:
    """Heads that together are wider or narrower than the residual stream."""
    for group in decoder(spec).layers:
        n_heads, _, d_head, _ = head_sizes(group.attention, spec.d_model)
        if _differ(n_heads * d_head, spec.d_model):
            return f"n_heads * d_head is {n_heads * d_head}; the formula takes d_model = {spec.d_model}"
    return None


def windows(spec: ModelSpec) -> str | None:
    """Sliding windows under a formula in which every token meets every other."""
    if any(group.attention.window is not None for group in decoder(spec).layers):
        return "some layers attend to a window only; the formula counts the whole sequence"
    return None


def tied(spec: ModelSpec) -> str | None:
    """One table for embedding and head where a formula counts two."""
    if decoder(spec).tied:
        return "the head shares the embedding's table; the formula counts two tables"
    return None


def untied(spec: ModelSpec) -> str | None:
    """Two tables where a formula counts one."""
    return None if decoder(spec).tied else "the head has a table of its own; the formula counts one table"


def factorised(spec: ModelSpec) -> str | None:
    """A token table of a width of its own, with a projection beside it."""
    d_embed = getattr(spec.embedding, "d_embed", None)
    return None if d_embed is None else f"the embedding is {d_embed} wide; the formula takes d_model"


def positions(spec: ModelSpec) -> str | None:
    """A learned position table that a formula has no letter for."""
    if getattr(spec.embedding, "n_positions", None) is not None:
        return "the formula does not count the learned position table"
    return None


def _differ(a: Size, b: Size) -> bool:
    """Whether two sizes are known to differ; of symbols and arrays nobody can say."""
    return isinstance(a, int) and isinstance(b, int) and a != b
