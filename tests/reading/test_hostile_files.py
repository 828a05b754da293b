"""Texts made to cost: each parser answers them within seconds of a processor's time and some hundred megabytes."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

import calc
from calc.architectures.models import from_toml
from calc.errors import LONGEST, Refused
from calc.fitting.runs import Upload
from calc.reading.files import MAX_DEPTH, MAX_KEYS, MAX_TOML, parse_json, parse_toml, read_text
from calc.reading.tables import MAX_CELLS, parse_csv

SECONDS = 60
ROOM = 2**30

CHILD = f"""
import resource, sys
from pathlib import Path
import numpy, pandas, pydantic, tomllib
import calc.architectures.gpt2
from calc.errors import Refused
from calc.reading.files import parse_json, parse_toml, read_text
from calc.fitting.runs import table
from calc.architectures.models import from_toml
from harness.importing.reading import read_table

READ = {{
    "toml": lambda path: from_toml(read_text(path), "x", "x"),
    "json": lambda path: parse_json(read_text(path), "x"),
    "runs": lambda path: table(path, ()),
    "kernels": read_table,
}}
taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + {ROOM}, taken + {ROOM}))
resource.setrlimit(resource.RLIMIT_CPU, ({SECONDS}, {SECONDS}))
try:
    READ[sys.argv[1]](Path(sys.argv[2]))
except Refused as refused:
    assert "\\n" not in str(refused)
    print(refused)
"""

PARTS = ".".join(["a"] * 40_000)
QUOTED = ".".join(['"a"'] * 3_000)
TOML = {
    "a key of many parts": PARTS + " = 1",
    "a quoted one": QUOTED + " = 1",
    "one behind a text that ends in four quotes": 'x = { a = """b"""", ' + PARTS + " = 1 }",
    "a table of many parts": f"[{PARTS}]",
    "many tables": "".join(f"[a{i}]\n" for i in range(100_000)),
    "a table many times": "[[a]]\n" * 100_000,
    "many keys of many parts": "".join(f"{'.'.join([f'a{i}'] * 60)} = 1\n" for i in range(4_000)),
    "lists in lists": "a = " + "[" * 40_000,
    "texts without an end": '\\"""\n' * 200_000,
    "more than is read": "a = 1\n" * 200_000,
}
JSON = {
    "a key twice among many": "{" + "".join(f'"a{i}": 1, ' for i in range(200_000)) + '"a0": 1}',
    "objects in objects": '{"a":' * 900 + "1" + "}" * 900,
    "lists in lists": '{"a": ' + "[" * 10**6,
    "many lists": '{"a": [' + "[]," * 5 * 10**6 + "[]]}",
    "many objects": '{"a": [' + "{}," * 5 * 10**6 + "{}]}",
}
TABLES = {
    "a column many times": "N," * 75_000 + "N\n",
    "many cells": "N,D,loss\n" + "1,1,1\n" * 2 * 10**6,
    "many columns": "," * 10**6 + "\n",
    "one large cell": 'N,D,loss\n1,1,"' + "1" * 5 * 10**6 + '"\n',
}


def answered(kind: str, path: Path) -> str:
    done = subprocess.run([sys.executable, "-c", CHILD, kind, str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith(("x", str(path)))
    assert len(done.stdout) < 3 * LONGEST
    return done.stdout


def written(folder: Path, text: str) -> Path:
    path = folder / "hostile.csv"
    path.write_text(text)
    return path


@pytest.mark.parametrize("case", TOML)
def test_toml_made_to_cost_is_refused_cheaply(tmp_path: Path, case: str) -> None:
    answered("toml", written(tmp_path, TOML[case]))


@pytest.mark.parametrize("case", list(JSON)[:3])
def test_json_made_to_cost_is_refused_cheaply(tmp_path: Path, case: str) -> None:
    answered("json", written(tmp_path, JSON[case]))


@pytest.mark.parametrize("kind", ["runs", "kernels"])
@pytest.mark.parametrize("case", TABLES)
def test_tables_made_to_cost_are_refused_cheaply(tmp_path: Path, kind: str, case: str) -> None:
    answered(kind, written(tmp_path, TABLES[case]))


@pytest.mark.parametrize("kind", ["runs", "kernels"])
def test_a_packed_table_is_unpacked_no_further_than_the_bound(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "bomb.csv.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"N,D,loss\n")
        for _ in range(2**10):
            file.write(b"1,1,1\n" * 2**16)
    assert "at most 64 MiB of text" in answered(kind, path)


@pytest.mark.slow
@pytest.mark.parametrize("case", list(JSON)[3:])
def test_the_largest_json_that_is_read_fits(tmp_path: Path, case: str) -> None:
    path = written(tmp_path, JSON[case])
    assert len(parse_json(read_text(path), "x")["a"]) > 10**6
    done = subprocess.run([sys.executable, "-c", CHILD, "json", str(path)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_what_lies_within_the_bounds_is_read() -> None:
    deep = ".".join(f"a{i}" for i in range(MAX_DEPTH - 1))
    assert parse_toml(f"{deep} = 1", "x")["a0"]["a1"]
    many = "".join(f"a{i} = 1\n" for i in range(MAX_KEYS))
    assert len(many) < MAX_TOML
    assert len(parse_toml(many, "x")) == MAX_KEYS
    texts = 'a = """x"""""\nb = \'\'\'[[[\'\'\'\nc = "\\"[[["\n# [[[ . . .\nd = [1.5, [2.5]]\n'
    assert parse_toml(texts, "x") == {"a": 'x""', "b": "[[[", "c": '"[[[', "d": [1.5, [2.5]]}
    nested: object = 1
    for _ in range(MAX_DEPTH):
        nested = {"a": nested}
    assert parse_json(json.dumps(nested), "x") == nested
    with pytest.raises(Refused, match="at most 64 levels"):
        parse_json(json.dumps({"a": nested}), "x")


def test_a_description_too_deep_to_walk_through_is_refused() -> None:
    with pytest.raises(Refused, match="at most 64 levels"):
        from_toml(QUOTED + " = 1", "x", "x")


@pytest.mark.parametrize(("text", "row"), [("1e8,1e9,3\n1e8,2e9", 2), ("1e8,1e9,3,4\n", 1), ("1e8,1e9\n1,1,1\n", 1)])
def test_a_torn_or_longer_row_is_refused_by_its_number(text: str, row: int) -> None:
    with pytest.raises(Refused, match=f"t, row {row}: expected a row of 3 cells"):
        calc.read_runs(Upload("t", b"N,D,loss\n" + text.encode()))


def test_rows_within_the_bounds_are_read_as_pandas_reads_them() -> None:
    frame = parse_csv(b'\xef\xbb\xbfa,b,,\n\n"1,\n5",2,3,4\r\n   \n,,,\n', "t")
    assert list(frame.columns) == ["a", "b", "Unnamed: 2", "Unnamed: 3"]
    assert frame["a"].tolist()[0] == "1,\n5"
    assert len(frame) == 2
    assert len(parse_csv(b"a\n" + b"1\n" * (MAX_CELLS - 1), "t")) == MAX_CELLS - 1


@pytest.mark.parametrize("found", [[[]], [{}], [None], [["GPT2Model"]], "GPT2Model"])
def test_a_list_of_no_names_names_no_class(found: object) -> None:
    config = {"model_type": "bert", "architectures": found}
    with pytest.raises(Refused, match=r"^architectures: expected (one of|a list of one class's name)"):
        calc.from_config(config)


def test_a_message_repeats_no_more_than_its_beginning() -> None:
    with pytest.raises(Refused) as refused:
        calc.read_runs(Upload("t", b"N,D,loss\n1,1," + b"x" * 10**5 + b"\n"))
    assert len(str(refused.value)) < 1000
    assert len(str(Refused("f" * 10**6, "less", "g" * 10**6))) < 3 * LONGEST
