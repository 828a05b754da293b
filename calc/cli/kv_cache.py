"""`kv-cache`: bytes kept for later tokens."""

from __future__ import annotations

from typing import Any

import click

from calc.cli import adapting, options
from calc.dtypes import CACHE_DTYPES
from calc.output.notes import warn_beyond
from calc.output.tables import emit, side_by_side
from calc.quantities.kv_cache import kv_cache as count
from calc.spec import ModelSpec


@click.command(short_help="KV cache: bytes a token, a sequence, a batch.")
@options.models
@options.seq
@options.batch
@click.option(
    "--dtype",
    type=click.Choice(CACHE_DTYPES),
    default="bf16",
    show_default=True,
    help="Number format of keys and values.",
)
@options.window_reading
@options.source_seq
@options.state_dtype
@adapting.adapters
@options.output
def kv_cache(models: tuple[ModelSpec, ...], fmt: str, **asked: Any) -> None:
    """Count the bytes of keys and values that each MODEL keeps after --seq tokens.

    bytes_per_token is what one more token costs at that length; layers past their window cost nothing more.
    state_bytes is what no longer grows, for each sequence. total_bytes is for the whole batch. A prompt is cached as
    tokens are; the keys and values of a prefix are weights, and no part of the cache.

    \b
    Example:
      python -m calc kv-cache llama-3-8b gemma-2-9b --seq 32768
    """
    records = [_record(spec, **asked) for spec in models]
    emit(records, [side_by_side(records)], fmt)


def _record(spec: ModelSpec, seq: int, batch: int, dtype: str, window_reading: Any, **inputs: Any) -> dict[str, Any]:
    warn_beyond(spec, seq, "--seq")
    cache = count(
        spec, batch, seq, dtype, window_reading, source=inputs["source_seq"], state_dtype=inputs["state_dtype"]
    )
    return {
        "model": spec.name,
        "bytes_per_token": cache.bytes_per_token,
        "average_bytes_per_token": cache.average_bytes_per_token,
        "state_bytes": cache.state_bytes,
        "total_bytes": cache.total_bytes,
    }
