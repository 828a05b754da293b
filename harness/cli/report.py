"""`report`: measured against predicted as a page of HTML."""

from __future__ import annotations

from pathlib import Path

import click

from calc.errors import Refused
from calc.reading.files import write_whole
from calc.time.device.profile import Profile, read_profile
from harness.cli.compare import tables
from harness.cli.selection import nothing, selection
from harness.compare import BY, By
from harness.compare import compare as compared
from harness.record import Run


@click.command(short_help="Measured against predicted as a page of HTML with charts.")
@selection
@click.option("--out", type=click.Path(path_type=Path), help="The file. [default: report.html under --results]")
@click.option("--by", type=click.Choice(BY), default="kind", show_default=True, help="What makes a group.")
@click.option("--every", is_flag=True, help="All runs of a case, not only the latest on each device.")
@click.option("--json", "fmt", flag_value="json", default="table", help="One object: file, pairs and errors.")
def report(runs: list[Run], results: Path, out: Path | None, by: By, every: bool, fmt: str) -> None:
    """Write a page of HTML with charts and tables of measured against predicted times: one file that holds everything
    and opens without a network. Needs the extra `charts`.

    \b
    Examples:
      python -m harness report
      python -m harness report --suite quick --out quick.html
    """
    from harness.report import MOST_ROWS, page

    path = results / "report.html" if out is None else out
    if path.suffix.lower() != ".html" or path.is_dir() or (out is not None and not path.resolve().parent.is_dir()):
        raise Refused("--out", "a file ending in .html, in a folder that is there", str(path))
    found = compared(runs, by, every)
    if not found.pairs:
        raise Refused("--results", "runs with a measured and a predicted time, to write a page of", nothing(results))
    slugs = {pair.run.environment.slug for pair in found.pairs}
    text = page(found, tables(found, MOST_ROWS), _profiles(results, slugs), by == "kind")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text)
    everything = [group for group in found.groups if group.name == "all"]
    errors = {group.device: {"n": len(group.pairs), "mape": group.mape} for group in everything}
    if fmt == "json":
        import json

        click.echo(json.dumps({"report": str(path), "bytes": len(text.encode()), "devices": errors}))
    else:
        click.echo(f"{len(found.pairs):,} cases of {len(errors):,} devices in {path}")


def _profiles(results: Path, slugs: set[str]) -> list[Profile]:
    """The profiles of those devices; a file that is none is named and passed over."""
    found = []
    for slug in sorted(slugs):
        path = results / "profiles" / f"{slug}.json"
        if not path.is_file():
            continue
        try:
            found.append(read_profile(path))
        except Refused as refusal:
            click.echo(f"note: passed over {refusal}", err=True)
    return found
