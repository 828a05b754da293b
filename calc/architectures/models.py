"""Finding a model: a preset's name, a path to a config.json or a TOML description, or a Hugging Face Hub id."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date, datetime, time
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from calc.architectures import from_config
from calc.architectures.config import Tying
from calc.errors import Refused, printable
from calc.reading.files import parse_json, parse_toml, read_stream, read_text
from calc.spec import ModelSpec, Shorthand
from calc.spec.fields import refuse

PRESETS = Path(__file__).parents[1] / "data" / "models"
HUB_ID = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}")


def preset_names() -> list[str]:
    """The names of the shipped presets, sorted."""
    return sorted(path.stem for path in PRESETS.glob("*.toml"))


def preset_title(name: str) -> str:
    """The full name of a preset, as its makers write it."""
    return parse_toml(read_text(PRESETS / f"{name}.toml"), name)["title"]


def preset_reconstructed(name: str) -> str | None:
    """What of a preset's description is recalled or constructed and no source confirms; None where all has one."""
    if name not in preset_names():
        return None
    return parse_toml(read_text(PRESETS / f"{name}.toml"), name).get("reconstructed")


def load_model(reference: str | os.PathLike[str], tying: Tying = "transformers") -> ModelSpec:
    """The description that `reference` names.

    reference: a preset's name; a path ending in .json or .toml, or to a folder with a config.json; `-` for one on
        standard input; or OWNER/NAME on the Hugging Face Hub (needs the `hub` extra and a network). A preset wins over
        a path, a path over a Hub id.
    tying: `checkpoint` reads a T5-like head as the config and the checkpoint have it, where transformers 5 ties it.
    Errors: Refused where nothing is found or what is found cannot be read exactly; ConnectionError where the Hub does
        not answer.
    """
    text = os.fspath(reference)
    if text == "-":
        raw = parse_json(read_stream(sys.stdin.buffer, "standard input"), "standard input")
        return from_config(raw, "stdin", tying)
    if re.fullmatch(r"[\w.-]{1,80}", text) and (PRESETS / f"{text.lower()}.toml").is_file():
        return _preset(text.lower(), tying)
    if (path := _file_of(text)) is not None:
        return _from_file(path, tying)
    if HUB_ID.fullmatch(text) and not text.startswith((".", "-")):
        return _from_hub(text, tying)
    raise _not_found(text)


@cache
def _preset(name: str, tying: Tying) -> ModelSpec:
    """One description however often a preset is named, so that what is remembered of it is found again."""
    return from_toml(read_text(PRESETS / f"{name}.toml"), name, name, tying)


def config_of(reference: str | os.PathLike[str]) -> tuple[dict[str, Any], str]:
    """The decoded config.json that `reference` names, whatever its `model_type`, and the model's name.

    reference: as for `load_model`. Errors: as there, and Refused for a description of our own, which is no config.
    """
    text = os.fspath(reference)
    if text == "-":
        raw, name = parse_json(read_stream(sys.stdin.buffer, "standard input"), "standard input"), "stdin"
    elif re.fullmatch(r"[\w.-]{1,80}", text) and (PRESETS / f"{text.lower()}.toml").is_file():
        raw, name = parse_toml(read_text(PRESETS / f"{text.lower()}.toml"), text).get("config"), text.lower()
    elif (path := _file_of(text)) is not None:
        table = parse_toml(read_text(path), text) if path.suffix == ".toml" else None
        raw = parse_json(read_text(path), text) if table is None else table.get("config")
        name = _name_of(path)
    elif HUB_ID.fullmatch(text) and not text.startswith((".", "-")):
        raw, name = parse_json(read_text(_fetched(text)), text), text.split("/")[1]
    else:
        raise Refused(
            "MODEL", f"a preset, a path to a .json or .toml file, or a Hub id{_nearest(text)}", text[:80] or "''"
        )
    if not isinstance(raw, dict):
        raise Refused(text, "a config.json, or a description with a table [config]", raw)
    return raw, name


def from_toml(text: str, where: str, name: str, tying: Tying = "transformers") -> ModelSpec:
    """A description in TOML.

    With a table [config] it holds a Hugging Face config.json; with [[layers]] a full ModelSpec; else the shorthand.
    The last two may stand in a table [model], with a title and a source outside it.
    Errors: Refused, the field led by `where`.
    """
    table = parse_toml(text, where)
    if "config" in table:
        with _led_by(where):
            return from_config(_inner(table, "config", where), name, tying)
    if "model" in table:
        table = _inner(table, "model", where)
    try:
        document = json.dumps(table, default=_plain, allow_nan=False)
    except ValueError:
        raise Refused(where, "finite numbers", "nan or inf") from None
    try:
        if "layers" in table:
            spec = ModelSpec.model_validate_json(document)
        else:
            short = Shorthand.model_validate_json(document)
            with _led_by(where):
                spec = short.expand()
    except ValidationError as error:
        raise refuse(error, where) from None
    return spec if "name" in table else spec.model_copy(update={"name": name})


def _inner(table: dict[str, Any], form: str, where: str) -> dict[str, Any]:
    """The table that holds the description; beside it may stand only what says where it is from."""
    known = {form, "title", "source", "recorded", "published", "notes", "reconstructed"}
    for key in sorted(table.keys() - known):
        raise Refused(f"{where}: {key}", f"one of {', '.join(sorted(known))}", "an unknown key")
    if not isinstance(table[form], dict):
        raise Refused(f"{where}: {form}", "a table", table[form])
    return table[form]


def _from_file(path: Path, tying: Tying) -> ModelSpec:
    text = read_text(path)
    # The folder that the path names, not what a symbolic link leads to: a cache's folders are named by hashes.
    name = _name_of(path)
    if path.suffix == ".toml":
        return from_toml(text, str(path), name, tying)
    with _led_by(str(path)):
        return from_config(parse_json(text, str(path)), name, tying)


@contextmanager
def _led_by(where: str) -> Iterator[None]:
    """What is refused within is led by the file that holds it, which the commands that it names are given."""
    try:
        yield
    except Refused as refusal:
        if refusal.field.startswith(where):
            raise
        expected = refusal.expected.replace(" MODEL ", f" {shlex.quote(where)} ")  # to be pasted
        raise Refused(f"{where}: {refusal.field}", expected, refusal.found) from None


def _not_found(text: str) -> Refused:
    """What is said of a name behind which nothing is."""
    expected = f"a preset, a path to a .json or .toml file, or a Hub id{_nearest(text)}"
    return Refused("MODEL", expected, text[:80] or "''")


def _name_of(path: Path) -> str:
    """What a model in a file is called."""
    return printable(Path(os.path.abspath(path)).parent.name if path.stem == "config" else path.stem) or "model"


def _file_of(text: str) -> Path | None:
    """The file that a path names, of a folder its config.json; None where it names none."""
    path = Path(text)
    try:
        if text and path.is_dir():
            return path / "config.json"
        return path if text and (path.suffix in (".json", ".toml") or path.exists()) else None
    except (OSError, ValueError):
        return path if path.suffix in (".json", ".toml") else None


def _from_hub(reference: str, tying: Tying) -> ModelSpec:
    return from_config(parse_json(read_text(_fetched(reference)), reference), reference.split("/")[1], tying)


def _fetched(reference: str) -> Path:
    """The config.json of a Hub id, fetched. Errors: Refused without the extra, ConnectionError without an answer."""
    try:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
        from huggingface_hub.utils import logging
    except ImportError:
        hint = f"{reference!r}, which would be a Hub id: pip install -e '.[hub]' in a clone{_nearest(reference)}"
        raise Refused("MODEL", "a preset or a path to a file", hint) from None
    logging.set_verbosity_error()
    try:
        return Path(hf_hub_download(reference, "config.json"))
    except (HfHubHTTPError, LocalEntryNotFoundError, ValueError, OSError) as error:
        reason = " ".join(str(error).split())[:1000] or type(error).__name__
        raise ConnectionError(f"{reference}: no config.json could be fetched from the Hub: {reason}") from None


def kept_config(reference: str) -> str:
    """The text of the config.json of a Hub id that this machine has fetched before; no other machine is asked.

    Errors: Refused where it has none, and without the extra `hub`.
    """
    expected = f"a Hub id whose config.json this machine has (`python -m calc report {reference[:80]}` fetches it)"
    try:
        from huggingface_hub import try_to_load_from_cache

        found = try_to_load_from_cache(reference, "config.json")
    except (ImportError, ValueError) as error:
        raise Refused("MODEL", expected, " ".join(str(error).split())[:200]) from None
    if not isinstance(found, str):
        raise Refused("MODEL", expected, reference[:80])
    return read_text(Path(found))


def _nearest(reference: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(reference.lower()[:80], preset_names(), n=3, cutoff=0.5)
    return f" (did you mean {', '.join(close)}?)" if close else " (`models` lists the presets)"


def _plain(value: Any) -> str:
    if isinstance(value, (date, datetime, time)):
        return value.isoformat()
    raise ValueError(f"not a TOML value: {type(value).__name__}")
