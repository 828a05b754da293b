"""`kv-cache`: bytes kept for later tokens."""

from __future__ import annotations

from typing import Any

import click

from calc.cli import adapting, notes, options
from calc.cli.echo import run_record, with_run
from calc.cli.run_options import GroupedCommand, of_run
from calc.output.notes import warn_beyond
from calc.output.tables import emit, side_by_side
from calc.quantities.kv_cache import cache_of
from calc.spec import ModelSpec
from calc.spec.run import Run

FIELDS = ("seq", "batch", "source_seq", "cache_dtype", "state_dtype", "window_reading")
"""What the cache depends on."""


@click.command(cls=GroupedCommand, short_help="KV cache: bytes a token, a sequence, a batch.")
@options.models
@of_run(
    *FIELDS,
    defaults={"cache_dtype": "bf16"},
    texts={"cache_dtype": "Format of keys and values."},
    old=("--dtype",),
)
@adapting.adapters
@options.output
def kv_cache(models: tuple[ModelSpec, ...], fmt: str, words: dict[str, Any]) -> None:
    """Count the bytes of keys and values that each MODEL keeps after --seq tokens.

    bytes_per_token is what one more token costs at that length; layers past their window cost nothing more.
    state_bytes is what no longer grows, for each sequence. total_bytes is for the whole batch. A prompt is cached as
    tokens are; the keys and values of a prefix are weights, and no part of the cache.

    \b
    Example:
      python -m calc kv-cache llama-3-8b gemma-2-9b --seq 32768
    """
    words.setdefault("cache_dtype", "bf16")
    run = Run(**words)
    records = [_record(spec, run) for spec in models]
    echoed = run_record(run, uses=FIELDS, specs=models)
    tables = with_run([side_by_side(records)], echoed)
    emit([record | {"run": echoed} for record in records], tables, fmt)


def _record(spec: ModelSpec, run: Run) -> dict[str, Any]:
    warn_beyond(spec, run.seq, "--seq")
    notes.of_inputs(spec, run.source_seq)
    cache = cache_of(spec, run)
    return {
        "model": spec.name,
        "bytes_per_token": cache.bytes_per_token,
        "average_bytes_per_token": cache.average_bytes_per_token,
        "state_bytes": cache.state_bytes,
        "total_bytes": cache.total_bytes,
    }
