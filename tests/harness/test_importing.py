"""Importing measured tables: what is read, what is refused in one line, what is written."""

from __future__ import annotations

import errno
import gzip
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from calc.errors import Refused
from calc.spec.catalogue import load_device
from calc.time.device.profile import read_profile
from calc.time.models.gemm import GemmModel
from calc.time.models.limits import limits_of
from harness.__main__ import COMMANDS, cli
from harness.importing.choosing import chosen
from harness.importing.kinds import kind_of
from harness.importing.reading import numbers, read_table

HEADER = "framework,version,device,kernel_source,gemm_dtype,m,n,k,latency_ms,source\n"
LIMITS = limits_of(load_device("h100-sxm"), "bf16")


def rows(count: int, framework: str = "mine", faster: float = 1.0) -> str:
    """Products that take what the constants of an H100 say, give or take 3 %."""
    rng = np.random.default_rng(0)
    shape: dict[str, Any] = {key: np.exp2(rng.uniform(5, 13, count)).round() for key in ("m", "n", "k")}
    seconds = GemmModel.prior(LIMITS).seconds(**shape) * np.exp(rng.normal(0, 0.03, count)) / faster
    cells = zip(shape["m"], shape["n"], shape["k"], seconds * 1e3, strict=True)
    return "".join(f"{framework},1.0,H100,cublas,bfloat16,{m:g},{n:g},{k:g},{t:.9g},me (MIT)\n" for m, n, k, t in cells)


def run(*args: object) -> Any:
    return CliRunner().invoke(cli, ["import", *map(str, args)])


def written(folder: Path, text: str, name: str = "table.csv") -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    return path


def test_seconds_in_place_of_milliseconds_are_told(tmp_path: Path) -> None:
    """Three times faster than possible is another fault, which is told as rows that are left out."""
    done = run(written(tmp_path, HEADER + rows(100, faster=1e3)), "--gpu", "h100-sxm")
    assert isinstance(done.exception, Refused)
    told = r".*table.csv: times: expected milliseconds, found what must be seconds: .* 50 times faster .*"
    assert re.fullmatch(told, str(done.exception))
    fast = run(written(tmp_path, HEADER + rows(100, faster=3.0)), "--gpu", "h100-sxm")
    assert "must be seconds" not in str(fast.exception)


@pytest.mark.parametrize("name", ["table.csv", "table.csv.gz"])
def test_a_table_becomes_a_profile(tmp_path: Path, name: str) -> None:
    path, out = written(tmp_path, HEADER + rows(100), name), tmp_path / "profile.json"
    done = run(path, "--gpu", "h100-sxm", "--points", 60, "--licence", "MIT", "--out", out, "--json")
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    assert record["model"] == "gemm.bf16"
    assert (record["rows"], record["points"], record["held_out"], record["impossible"]) == (100, 60, 40, 0)
    assert record["how"] == "held out"
    assert 0 < record["median_ape"] <= record["mape"] < 0.08
    assert sum(group["n"] for group in record["groups"]) == 40
    low, high = record["interval_90"]
    assert low < 1 < high
    profile = read_profile(out)
    assert profile.catalogue == "h100-sxm"
    assert profile.provenance.licence == "MIT"
    assert profile.provenance.source == "me (MIT)"
    assert profile.fits["gemm.bf16"].mape == record["mape"]
    assert profile.gemm["bf16"].kernel_source == "cublas"
    assert profile.gemm["bf16"].seconds(4096, 4096, 4096) > 2 * 4096**3 / LIMITS.peak


def test_rows_no_device_can_reach_are_left_out_and_counted(tmp_path: Path) -> None:
    path = written(tmp_path, HEADER + rows(100) + rows(20, faster=1000.0))
    done = run(path, "--gpu", "h100-sxm", "--json")
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    # Two of the twenty are so small that the shared cache may have held them.
    assert (record["rows"], record["impossible"]) == (120, 18)
    assert record["mape"] < 0.12


def test_one_framework_must_be_named(tmp_path: Path) -> None:
    path = written(tmp_path, HEADER + rows(60) + rows(60, "theirs"))
    with pytest.raises(Refused, match="--framework: expected one of mine, theirs, found several"):
        run_raising(path, "--gpu", "h100-sxm")
    done = run(path, "--gpu", "h100-sxm", "--framework", "THEIRS", "--json")
    assert json.loads(done.stdout)["rows"] == 60


def run_raising(*args: object) -> None:
    cli.main(["import", *map(str, args)], standalone_mode=False)


HOSTILE = {
    "empty": (b"", "rows|CSV"),
    "header only": (HEADER.encode(), "found no rows"),
    "other columns": (b"a,b\n1,2\n", "found none called framework"),
    "a column twice": (b"m,m\n1,2\n", "each column once"),
    "not UTF-8": (HEADER.encode() + b"\xff\xfe,1,2\n", "CSV"),
    "text for a number": ((HEADER + rows(60)).replace(",me", "x,me", 1).encode(), "row 1: latency_ms"),
    "a negative size": ((HEADER + rows(59)).encode() + b"mine,1.0,H,cublas,bfloat16,-4,8,8,1.0,me\n", "row 60: m"),
    "nan": ((HEADER + rows(59)).encode() + b"mine,1.0,H,cublas,bfloat16,4,8,8,nan,me\n", "row 60: latency_ms"),
    "infinite": ((HEADER + rows(59)).encode() + b"mine,1.0,H,cublas,bfloat16,4,8,8,inf,me\n", "row 60: latency_ms"),
    "an unknown format": ((HEADER + rows(60)).replace("bfloat16", "posit").encode(), "gemm_dtype"),
    "too few rows": ((HEADER + rows(12)).encode(), "at least 40 rows"),
    "a longer row": (
        (HEADER + rows(60)).encode() + b"1,2,3,4,5,6,7,8,9,10,11,12,13\n",
        "row 61: expected a row of 10 cells",
    ),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_tables_are_refused_in_one_line(tmp_path: Path, case: str) -> None:
    data, told = HOSTILE[case]
    path = tmp_path / "table.csv"
    path.write_bytes(data)
    with pytest.raises(Refused, match=told) as refused:
        run_raising(path, "--gpu", "h100-sxm")
    assert "\n" not in str(refused.value)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    fake = tmp_path / "table.csv.gz"
    fake.write_text(HEADER)
    for path, told in ((tmp_path, "a folder"), (tmp_path / "none.csv", "no such file"), (fake, "a gzip file")):
        with pytest.raises(Refused, match=told):
            run_raising(path, "--gpu", "h100-sxm")


def test_a_gzip_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calc.reading.tables.MAX_BYTES", 2**20)
    path = written(tmp_path, HEADER + "0" * 2**21, "bomb.csv.gz")
    with pytest.raises(Refused, match="at most 1 MiB"):
        read_table(path)


@pytest.mark.parametrize("points", [10, 100, 1000])
def test_points_must_leave_rows_to_test(tmp_path: Path, points: int) -> None:
    path = written(tmp_path, HEADER + rows(100))
    with pytest.raises(Refused, match="--points"):
        run_raising(path, "--gpu", "h100-sxm", "--points", points)


def test_a_folder_to_write_to_is_checked_first(tmp_path: Path) -> None:
    path = written(tmp_path, HEADER + rows(60))
    with pytest.raises(Refused, match="--out"):
        run_raising(path, "--gpu", "h100-sxm", "--out", tmp_path / "none" / "profile.json")


def test_a_profile_that_is_there_stays_whole_where_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, out = written(tmp_path, HEADER + rows(60)), tmp_path / "profile.json"
    out.write_text("what was there")

    def full(file: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        run_raising(path, "--gpu", "h100-sxm", "--points", 40, "--out", out)
    assert out.read_text() == "what was there"
    assert sorted(tmp_path.iterdir()) == [out, path]


def test_the_command_is_listed() -> None:
    assert "import" in COMMANDS
    done = run("--help")
    assert done.exit_code == 0
    assert "Example" in done.output


def test_decode_has_one_new_token(tmp_path: Path) -> None:
    header = (
        "framework,version,kernel_source,attn_dtype,batch_size,isl,num_heads,num_key_value_heads,head_dim,step,"
        "window_size,latency_ms\n"
    )
    prefill = written(tmp_path, header + "a,1,fa,bfloat16,1,1,8,8,64,0,0,1\na,1,fa,bfloat16,1,128,8,8,64,0,0,1\n")
    assert kind_of(read_table(prefill), "t") == "prefill attention"
    decode = written(tmp_path, header + "a,1,fa,bfloat16,1,1,8,8,64,100,0,1\n", "decode.csv")
    assert kind_of(read_table(decode), "t") == "decode attention"


@given(st.integers(1, 400), st.integers(1, 60), st.integers(0, 5))
def test_choosing_takes_so_many_different_rows(n: int, count: int, seed: int) -> None:
    rng = np.random.default_rng(n)
    sizes = {"m": rng.integers(1, 100, n), "n": rng.integers(1, 5, n)}
    found = chosen(sizes, count, seed)
    assert len(set(found.tolist())) == len(found) == min(n, count)
    assert found.min() >= 0
    assert found.max() < n
    assert (found == chosen(sizes, count, seed)).all()


def test_choosing_covers_small_and_large() -> None:
    """Each eighth of the rows by size gives between half and twice its share; chance alone would leave gaps."""
    sizes = {"m": np.arange(1.0, 8001.0)}
    counts = np.histogram(chosen(sizes, 80, 1), bins=8, range=(0, 8000))[0]
    assert (counts == 10).all()


def test_numbers_name_the_row(tmp_path: Path) -> None:
    frame = read_table(written(tmp_path, "a\n1\n2\nx\n"))
    with pytest.raises(Refused, match="t: row 3: a: expected a number from 1 to"):
        numbers(frame, "a", "t")
