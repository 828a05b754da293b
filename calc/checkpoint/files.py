"""Which files a checkpoint has: one, those of a folder, or those that an index names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from calc.checkpoint import gguf, safetensors
from calc.checkpoint.holdings import Holdings, joined
from calc.errors import Refused
from calc.reading.files import parse_json, read_text

READERS = {".safetensors": safetensors.read_header, ".gguf": gguf.read_header}
INDEX = ".safetensors.index.json"
MAX_FILES = 4096


def read_checkpoint(path: Path) -> Holdings:
    """What the file `path`, the files of the folder `path`, or those of an index hold.

    Errors: Refused where nothing of the kind is there, for a folder with files of both kinds, and as readers say.
    """
    files = _files(path)
    kinds = {each.suffix for each in files}
    if len(kinds) > 1:
        raise Refused(str(path), "files of one kind", ", ".join(sorted(kinds)))
    try:
        made = joined((READERS[each.suffix](each) for each in files), kinds.pop()[1:])
    except OSError as error:
        raise Refused(str(path), "files that can be read", error.strerror or str(error)) from None
    names = [each.name for each in made.tensors]
    if len(set(names)) != len(names):
        raise Refused(str(path), "each tensor once (two checkpoints in one folder?)", "a name again")
    return made


def _files(path: Path) -> list[Path]:
    try:
        if path.is_dir():
            index = sorted(path.glob(f"*{INDEX}"))
            return _of_index(index[0]) if len(index) == 1 else _of_folder(path)
        if path.is_file() and path.name.endswith(INDEX):
            return _of_index(path)
        if path.is_file() and path.suffix in READERS:
            return [path]
    except (OSError, ValueError):
        pass
    expected = "a .safetensors or .gguf file, an index of such files, or a folder with them"
    raise Refused(str(path)[:200], expected, "something else" if path.exists() else "no such file")


def _of_folder(path: Path) -> list[Path]:
    found = sorted(each for each in path.iterdir() if each.suffix in READERS)[: MAX_FILES + 1]
    if not 0 < len(found) <= MAX_FILES:
        raise Refused(str(path), "a folder with .safetensors or .gguf files", f"{len(found)} of them")
    return found


def _of_index(path: Path) -> list[Path]:
    """The files that an index names, all in its own folder."""
    table: Any = parse_json(read_text(path), str(path)).get("weight_map")
    if not isinstance(table, dict) or not table or not all(isinstance(name, str) for name in table.values()):
        raise Refused(f"{path}: weight_map", "an object, tensor -> file", table)
    names = sorted(set(table.values()))
    for name in names[: MAX_FILES + 1]:
        if Path(name).name != name or Path(name).suffix != ".safetensors" or len(names) > MAX_FILES:
            raise Refused(f"{path}: weight_map", "names of .safetensors files beside it", name[:80])
        if not (path.parent / name).is_file():
            raise Refused(str(path.parent / name), "a file that the index names", "no such file")
    return [path.parent / name for name in names]
