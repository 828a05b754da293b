"""Traces: the formats that are published, one's own, and files that are none."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from calc.errors import Refused
from calc.serve.traces import rows
from calc.serve.workload import read_trace
from tests.reference import folder


def test_one_s_own(tmp_path: Path) -> None:
    file = tmp_path / "own.csv"
    file.write_text("sent,input,output\n5,100,10\n3.5,200,20\n")
    workload = read_trace(file)
    assert [(each.sent, each.input, each.output) for each in workload.requests] == [(0.0, 200, 20), (1.5, 100, 10)]


def test_azure(tmp_path: Path) -> None:
    file = tmp_path / "azure.csv"
    file.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:15:46.6805900,374,44\n2023-11-16 18:15:50.9951690,396,109\n"
    )
    first, second = read_trace(file).requests
    assert second.sent - first.sent == pytest.approx(4.314579, abs=1e-5)


def test_burstgpt(tmp_path: Path) -> None:
    file = tmp_path / "burst.csv"
    file.write_text(
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,472,18,490,Conversation log\n"
    )
    assert [tuple(row)[:3] for row in rows(file)] == [(5.0, 472, 18)]


def test_mooncake(tmp_path: Path) -> None:
    file = tmp_path / "mooncake.jsonl.gz"
    with gzip.open(file, "wt") as lines:
        lines.write('{"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47]}\n')
    (row,) = rows(file)
    assert (row.sent, row.hashes) == (27.482, (46, 47))


def test_a_prompt_without_whole_blocks_comes_in_milliseconds_too(tmp_path: Path) -> None:
    """What a trace counts in is of its columns, and not of what one row has in them."""
    file, rest = tmp_path / "mooncake.jsonl", '"input_length": 40, "output_length": 5, "hash_ids"'
    file.write_text(f'{{"timestamp": 3000, {rest}: []}}\n{{"timestamp": 27000, {rest}: [1]}}\n')
    assert [(row.sent, row.hashes) for row in rows(file)] == [(3.0, ()), (27.0, (1,))]


def test_published_traces_are_read_whole() -> None:
    traces = folder() / "measured" / "traces"
    assert len(list(rows(traces / "azure2023_conv.csv.gz"))) == 19_366
    assert sum(1 for _ in rows(traces / "mooncake_conversation.jsonl.gz")) > 10_000


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "sent,input\n1,2\n"),
        ("a.csv", "sent,input,output\n1,0,2\n"),
        ("a.csv", "sent,input,output\nnan,1,2\n"),
        ("a.csv", "sent,input,output\nyesterday,1,2\n"),
        ("a.csv", "sent,input,output\n1,1e9999,2\n"),
        ("a.csv", ""),
        ("a.jsonl", "{"),
        ("a.jsonl", "[1]"),
        ("a.jsonl", '{"timestamp": 1, "input_length": 3, "output_length": 2, "hash_ids": ["x"]}'),
        ("a.jsonl", '{"timestamp": 1, "input_length": 3, "output_length": 2, "hash_ids": null}'),
        (
            "a.jsonl",
            '{"sent": 1, "input": 3, "output": 2}\n{"sent": 1, "input": 3, "output": 2, "hash_ids": []}',
        ),
        ("a.csv", "timestamp,input_length,output_length,hash_ids\n1,2,3,[4]\n"),
        ("a.txt", "sent,input,output\n1,1,2\n"),
        ("a.csv.gz", "no gzip"),
    ],
)
def test_hostile_files(tmp_path: Path, name: str, text: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(Refused):
        read_trace(file)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(Refused, match="no such file"):
        read_trace(tmp_path / "none.csv")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig"])
@pytest.mark.parametrize(
    ("name", "text"),
    [("a.csv", "sent,input,output\r\n1,3,2\r\n"), ("a.jsonl", '{"sent": 1, "input": 3, "output": 2}\r\n')],
)
def test_a_mark_of_the_encoding_is_no_text(tmp_path: Path, name: str, text: str, encoding: str) -> None:
    """As Excel saves tables."""
    file = tmp_path / name
    file.write_bytes(text.encode(encoding))
    assert [tuple(row)[:3] for row in rows(file)] == [(1.0, 3, 2)]


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("a.csv", "sent,input,output\n".encode("utf-16"), "--trace: expected UTF-8 text, found byte 0xff"),
        ("a.csv.gz", b"no gzip", "--trace: expected a gzip file, found {}: another, or a part of one"),
        (
            "a.csv.gz",
            gzip.compress(b"sent,input,output\n" + b"1,2,3\n" * 99)[:-9],
            "--trace: expected a gzip file, found {}: ",
        ),
        ("a.jsonl", b"not json\n", "line 1: expected a JSON object, found not json"),
        ("folder.csv", None, "--trace: expected a file, found {}: a folder"),
    ],
    ids=["utf-16", "no gzip", "torn gzip", "no json", "folder"],
)
def test_what_is_wrong_with_a_file_is_said_in_words(tmp_path: Path, name: str, data: bytes | None, said: str) -> None:
    file = tmp_path / name
    if data is None:
        file.mkdir()
    else:
        file.write_bytes(data)
    with pytest.raises(Refused) as refused:
        read_trace(file)
    assert str(refused.value).startswith(said.format(file))
    assert not set("\\[]") & set(str(refused.value))
