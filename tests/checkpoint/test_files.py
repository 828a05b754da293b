"""Files of weights by their headers: real ones of transformers, made-up ones of GGUF, and bytes of any kind."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from click.testing import CliRunner  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

from calc.architectures import from_config  # noqa: E402
from calc.checkpoint import gguf, safetensors  # noqa: E402
from calc.checkpoint.compare import compare  # noqa: E402
from calc.checkpoint.files import read_checkpoint  # noqa: E402
from calc.cli import cli  # noqa: E402
from calc.errors import Refused  # noqa: E402
from tests.architectures import their_models  # noqa: E402
from tests.architectures.cases import LLAMA  # noqa: E402

RAW = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], **LLAMA}
TENSORS = (("token_embd.weight", (64, 97), 8), ("blk.0.attn_q.weight", (256, 64), 12), ("output_norm.weight", (64,), 0))
"""name, dimensions from the one along a row on, GGML's number of the format."""


def saved(folder: Path, raw: dict[str, Any], shard: str = "50KB") -> None:
    model = their_models.build(raw).to_empty(device="cpu")
    model.tie_weights()
    model.save_pretrained(folder, max_shard_size=shard)


def written(path: Path, tensors: Any = TENSORS, version: int = 3) -> Path:
    """A GGUF file with metadata of every kind and no data."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value.encode())) + value.encode()

    keys = [
        text("general.architecture") + struct.pack("<I", 8) + text("llama"),
        text("llama.block_count") + struct.pack("<II", 4, 1),
        text("tokens") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("b"),
        text("scores") + struct.pack("<IIQff", 9, 6, 2, 0.0, 1.0),
    ]
    made = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys)) + b"".join(keys)
    for name, shape, kind in tensors:
        made += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, 0)
    path.write_bytes(made)
    return path


@pytest.mark.parametrize("tied", [True, False])
def test_a_checkpoint_of_transformers_is_what_its_config_describes(tmp_path: Path, tied: bool) -> None:
    raw = RAW | {"tie_word_embeddings": tied}
    saved(tmp_path, raw)
    assert len(list(tmp_path.glob("*.safetensors"))) > 1
    held = read_checkpoint(tmp_path)
    assert held == read_checkpoint(next(tmp_path.glob("*.index.json")))
    found = compare(from_config(raw), held)
    assert (found.unit, found.difference) == ("elements", 0)
    assert held.size == 4 * found.found
    other = compare(from_config(raw | {"vocab_size": 98}), held)
    assert other.difference == -64 * (1 if tied else 2)


def test_the_command_compares(tmp_path: Path) -> None:
    saved(tmp_path, RAW)
    (tmp_path / "config.json").write_text(json.dumps(RAW))
    words = ["checkpoint", str(tmp_path / "config.json"), "--files", str(tmp_path)]
    record = json.loads(CliRunner().invoke(cli, [*words, "--json"], catch_exceptions=False).stdout)
    assert record["compared"]["difference"] == 0
    assert record["formats"]["f32"]["elements"] == record["compared"]["found"]
    page = CliRunner().invoke(cli, words, catch_exceptions=False).stdout
    assert "difference" in page
    assert max(map(len, page.splitlines())) <= 80


def test_packed_files_are_compared_by_their_bytes(tmp_path: Path) -> None:
    packing = {"quant_method": "fp8", "weight_block_size": [32, 32], "modules_to_not_convert": ["lm_head"]}
    model = their_models.build(RAW)
    tensors: dict[str, Any] = {}
    for name, parameter in model.named_parameters():
        rows, columns = (*parameter.shape, 1)[:2]
        if ".layers." in name and parameter.dim() == 2:
            tensors[name] = torch.zeros(rows, columns, dtype=torch.float8_e4m3fn)
            tensors[f"{name}_scale_inv"] = torch.zeros(-(-rows // 32), -(-columns // 32))
        else:
            tensors[name] = torch.zeros(parameter.shape, dtype=torch.bfloat16)
    save_file(tensors, tmp_path / "model.safetensors")
    found = compare(from_config(RAW | {"quantization_config": packing}), read_checkpoint(tmp_path))
    assert (found.unit, found.difference) == ("bytes", 0)
    with pytest.raises(Refused, match="quantization_config"):
        compare(from_config(RAW), read_checkpoint(tmp_path))


def test_gguf(tmp_path: Path) -> None:
    for version in (2, 3):
        held = read_checkpoint(written(tmp_path / "model.gguf", version=version))
        assert [each.size for each in held.tensors] == [97 * 64 // 32 * 34, 64 * 144, 64 * 4]
        assert [each.shape for each in held.tensors] == [(97, 64), (64, 256), (64,)]
        assert held.elements == 97 * 64 + 64 * 256 + 64


def test_sizes_of_ggml_s_blocks() -> None:
    """Blocks of 32: a scale in fp16 and so many bits an element, a smallest value too in the formats that end in 1."""
    by_name = {name: (elements, size) for name, elements, size in gguf.types().values()}
    for bits in (4, 5):
        assert by_name[f"q{bits}_0"] == (32, 2 + 32 * bits // 8)
        assert by_name[f"q{bits}_1"] == (32, 4 + 32 * bits // 8)
    assert by_name["q8_0"] == (32, 2 + 32)
    assert by_name["mxfp4"] == (32, 1 + 16)
    # Blocks of 256: 8 or 16 scales of 6 or 8 bits beside one or two in fp16.
    assert by_name["q4_k"] == (256, 4 + 8 * 2 * 6 // 8 + 128)
    assert by_name["q6_k"] == (256, 2 + 16 + 256 * 6 // 8)


BROKEN = {
    "cut": lambda data: data[:-9],
    "letters": lambda data: b"GGML" + data[4:],
    "version": lambda data: data[:4] + struct.pack("<I", 9) + data[8:],
    "many": lambda data: data[:8] + struct.pack("<Q", 2**60) + data[16:],
}


@pytest.mark.parametrize("how", BROKEN)
def test_broken_gguf_is_refused(tmp_path: Path, how: str) -> None:
    path = written(tmp_path / "model.gguf")
    path.write_bytes(BROKEN[how](path.read_bytes()))
    with pytest.raises(Refused):
        read_checkpoint(path)


@pytest.mark.parametrize("tensor", [("x", (33, 4), 2), ("x", (32,), 99), ("x", (2**50, 2**50), 0)])
def test_gguf_that_does_not_add_up_is_refused(tmp_path: Path, tensor: Any) -> None:
    with pytest.raises(Refused):
        read_checkpoint(written(tmp_path / "model.gguf", (tensor,)))


@pytest.mark.parametrize(
    "header",
    [
        b"[]",
        b"{",
        b'{"x": 1}',
        b'{"x": {"dtype": "F77", "shape": [1], "data_offsets": [0, 4]}}',
        b'{"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 4]}}',
        b'{"x": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}',
        b'{"x": {"dtype": "F32", "shape": [99], "data_offsets": [0, 396]}}',
    ],
)
def test_safetensors_that_do_not_add_up_are_refused(tmp_path: Path, header: bytes) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header + b"\0" * 8)
    with pytest.raises(Refused):
        read_checkpoint(path)


@settings(max_examples=60)
@given(st.binary(max_size=300))
def test_bytes_that_nobody_vouches_for(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    folder = tmp_path_factory.mktemp("any")
    for reader, begins in ((safetensors.read_header, b""), (gguf.read_header, b"GGUF\x03\x00\x00\x00")):
        path = folder / "file"
        path.write_bytes(begins + data)
        with pytest.raises(Refused) as refusal:
            reader(path)
        assert "\n" not in str(refusal.value)


def test_an_index_leads_nowhere_else(tmp_path: Path) -> None:
    index = tmp_path / "model.safetensors.index.json"
    for name in ("../model.safetensors", "/etc/passwd", "gone.safetensors"):
        index.write_text(json.dumps({"weight_map": {"x": name}}))
        with pytest.raises(Refused):
            read_checkpoint(index)
    with pytest.raises(Refused):
        read_checkpoint(tmp_path / "model.bin")
