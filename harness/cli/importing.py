"""`import`: a profile from tables of times that somebody else measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from calc.errors import Refused
from calc.output.tables import Table, emit
from calc.reading.files import write_whole
from calc.spec.catalogue import load_device


@click.command("import", short_help="A profile from tables of measured times.")
@click.argument("tables", metavar="TABLE...", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--gpu", required=True, help="The device they were measured on; `calc gpus` lists names.")
@click.option("--framework", help="Rows of this framework only, where a table holds several.")
@click.option("--version", help="Rows of this version of it only.")
@click.option("--kernel", help="Rows of this kernel_source only. [default: the one with most rows]")
@click.option("--points", type=click.IntRange(1), help="Rows to fit to. [default: all but a held-out fifth]")
@click.option("--seed", type=click.IntRange(0, 2**31), default=0, show_default=True, help="Of choosing and fitting.")
@click.option("--source", help="Whose measurements they are, where tables do not say it, for the profile to name.")
@click.option("--licence", default="not stated", show_default=True, help="Of the tables, for the profile to name.")
@click.option("--out", type=click.Path(path_type=Path), help="File to write the profile to.")
@click.option("--json", "fmt", flag_value="json", default="table", help="One object a table and line.")
def import_(
    tables: tuple[Path, ...],
    gpu: str,
    seed: int,
    source: str | None,
    licence: str,
    out: Path | None,
    fmt: str,
    **chosen: Any,
) -> None:
    """Fit models of time to tables of measured kernels (CSV, also gzip), and print their error on every row that they
    were not fitted to. Rows faster than the device's published limits are left out and counted.

    \b
    Columns of a table, of which all must be there, beside framework, version,
    kernel_source and latency_ms or latency (milliseconds):
      gemm         gemm_dtype, m, n, k
      attention    attn_dtype, [kv_cache_dtype], batch_size, isl, num_heads,
                   num_key_value_heads, head_dim, step, window_size
      latent       mla_dtype, [kv_cache_dtype], batch_size, isl, num_heads,
                   step; or bmm_dtype, op_name, num_tokens, num_heads
      experts      moe_dtype, num_tokens, hidden_size, inter_size, topk,
                   num_experts, moe_tp_size, moe_ep_size, distribution
      mixers       phase, batch_size, seq_len, num_v_heads, num_k_heads,
                   head_k_dim, head_v_dim; or nheads, n_groups, d_state, head_dim
      collectives  op_name, num_gpus, message_size (elements), latency,
                   nccl_dtype or allreduce_dtype
      exchanges    node_num, num_token, hidden_size, num_topk, num_experts and
                   times of dispatch and combine (microseconds); or op_name,
                   moe_dtype, num_tokens, hidden_size, topk, num_experts,
                   moe_ep_size

    \b
    Example:
      python -m harness import gemm.csv.gz moe.csv.gz --gpu h100-sxm \\
          --framework vllm --out h100.json
    """
    from harness.importing.fitting import Wanted, profile_of
    from harness.importing.tables import import_any, of_framework

    device = load_device(gpu)
    if out is not None and (out.is_dir() or not out.absolute().parent.is_dir()):
        raise Refused("--out", "a file in a folder that exists", str(out))
    wanted = Wanted(seed=seed, **chosen)
    some = of_framework(tables, wanted.framework, _tell)
    imported = [one for path in some for one in import_any(path, device, wanted, _tell)]
    profile = profile_of(imported, device, wanted, licence, source)
    if out is not None:
        write_whole(out, profile.model_dump_json(exclude_none=True) + "\n")
    emit([_record(one, out) for one in imported], [_table(one, out) for one in imported], fmt)


def _tell(line: str) -> None:
    click.echo(line, err=True)


def _record(one: Any, out: Path | None) -> dict[str, Any]:
    return {
        "model": one.name,
        "table": one.table,
        "framework": one.framework,
        "kernel_source": one.model.kernel_source,
        "rows": one.rows,
        "impossible": one.impossible,
        **one.fit.model_dump(),
        "interval_90": list(one.model.interval(0.9)),
        "groups": [dict(zip(("group", "n", "mape", "median_ape"), group, strict=True)) for group in one.groups],
        "profile": str(out) if out is not None else None,
    }


def _table(one: Any, out: Path | None) -> Table:
    low, high = one.model.interval(0.9)
    rows = [(bound, f"{n:,}", f"{100 * mape:.1f} %", f"{100 * median:.1f} %") for bound, n, mape, median in one.groups]
    every = one.fit
    rows.append(("all", f"{every.held_out:,}", f"{100 * every.mape:.1f} %", f"{100 * every.median_ape:.1f} %"))
    note = (
        f"{one.framework}, {one.model.kernel_source}: fitted to {every.points:,} of {one.rows:,} rows, "
        f"{one.impossible:,} faster than possible; 90 % of the others within {low:.2f} to {high:.2f} of the prediction"
    )
    title = f"{one.name}: error on rows not fitted to"
    return Table(("group", "rows", "mean", "median"), rows, title, f"{note}; written to {out}" if out else note)
