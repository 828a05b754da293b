"""What `memory` says of a server alone: the cache by who allocates it, and the most that fits a budget."""

from __future__ import annotations

from typing import Any

from calc.memory.cache import cache_columns
from calc.memory.serving import max_batch, max_concurrency, max_context
from calc.output.tables import Table
from calc.spec import ModelSpec
from calc.spec.run import Run
from calc.units import binary


def counted(spec: ModelSpec, run: Run, budget: int | None) -> dict[str, Any]:
    """The cache in theory and by engine, and with a budget the most that fits."""
    most = None
    if budget is not None:
        searches = {"max_batch": max_batch, "max_context": max_context, "max_concurrency": max_concurrency}
        most = {name: search(spec, run, budget) for name, search in searches.items()}
    return {"kv_caches": cache_columns(spec, run), "most": most}


def tables(spec: ModelSpec, more: dict[str, Any]) -> list[Table]:
    """The cache by who allocates it, and how much would fit."""
    if not more:
        return []
    labels = {"theory": "in theory"}
    caches = [
        (labels.get(name, f"allocated by {name}"), *(("unknown", "–") if size is None else (f"{size:,}", binary(size))))
        for name, size in more["kv_caches"].items()
    ]
    found = [Table(("KV cache", "bytes", "size"), caches)]
    if more["most"] is not None:
        rows = [(name, "any" if n is None else f"{n:,}") for name, n in more["most"].items()]
        longest, context = spec.max_seq_len, more["most"]["max_context"]
        beyond = longest is not None and (context is None or context > longest)
        note = f"max_context is past the {longest:,} tokens that {spec.name} is made for" if beyond else ""
        found.append(Table(("the most that fits", ""), rows, note=note))
    return found
