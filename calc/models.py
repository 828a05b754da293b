"""Finding a model: a preset's name, a path to a config.json or a TOML description, or a Hugging Face Hub id."""

from __future__ import annotations

import json
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from calc.architectures import from_config
from calc.errors import Refused
from calc.files import parse_json, parse_toml, read_text
from calc.spec import ModelSpec, Shorthand
from calc.spec.fields import refuse

PRESETS = Path(__file__).parent / "data" / "models"


def preset_names() -> list[str]:
    """The names of the shipped presets, sorted."""
    return sorted(path.stem for path in PRESETS.glob("*.toml"))


def preset_title(name: str) -> str:
    """The full name of a preset, as its makers write it."""
    return parse_toml(read_text(PRESETS / f"{name}.toml"), name)["title"]


def load_model(reference: str) -> ModelSpec:
    """The description that `reference` names.

    reference: a preset's name; a path ending in .json or .toml; or OWNER/NAME on the Hugging Face Hub (needs the
        `hub` extra and a network). A path wins over a Hub id.
    Errors: Refused where nothing is found or what is found cannot be read exactly.
    """
    if "\0" in reference or not reference:
        raise Refused("MODEL", "a preset, a path or a Hub id", repr(reference))
    if "/" not in reference and (PRESETS / f"{reference}.toml").is_file():
        return from_toml(read_text(PRESETS / f"{reference}.toml"), reference, reference)
    path = Path(reference)
    if path.suffix in (".json", ".toml") or path.exists():
        return _from_file(path)
    if reference.count("/") == 1 and not reference.startswith((".", "/", "~")):
        return _from_hub(reference)
    raise Refused("MODEL", f"a preset, a path to a .json or .toml file, or a Hub id{_nearest(reference)}", reference)


def from_toml(text: str, where: str, name: str) -> ModelSpec:
    """A description in TOML.

    With a table [config] it holds a Hugging Face config.json; with [[layers]] a full ModelSpec; else the shorthand.
    """
    table = parse_toml(text, where)
    if "config" in table:
        _refuse_keys(table, {"config", "title", "source", "recorded", "published", "notes"}, where)
        if not isinstance(table["config"], dict):
            raise Refused(f"{where}: config", "a table", table["config"])
        return from_config(table["config"], name)
    try:
        document = json.dumps(table, default=_plain, allow_nan=False)
    except ValueError:
        raise Refused(where, "finite numbers", "nan or inf") from None
    try:
        if "layers" in table:
            spec = ModelSpec.model_validate_json(document)
        else:
            spec = Shorthand.model_validate_json(document).expand()
    except ValidationError as error:
        raise refuse(error, where) from None
    return spec if "name" in table else spec.model_copy(update={"name": name})


def _from_file(path: Path) -> ModelSpec:
    text = read_text(path)
    name = path.resolve().parent.name if path.stem == "config" else path.stem
    if path.suffix == ".toml":
        return from_toml(text, str(path), name or "model")
    return from_config(parse_json(text, str(path)), name or "model")


def _from_hub(reference: str) -> ModelSpec:
    try:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ImportError:
        hint = f"{reference!r}, which would be a Hub id: pip install 'transformer-envelope[hub]'{_nearest(reference)}"
        raise Refused("MODEL", "a preset or a path to a file", hint) from None
    try:
        path = hf_hub_download(reference, "config.json")
    except (HfHubHTTPError, LocalEntryNotFoundError, ValueError, OSError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise ConnectionError(f"{reference}: no config.json could be fetched from the Hub: {reason}") from None
    return from_config(parse_json(read_text(Path(path)), reference), reference.split("/")[1])


def _nearest(reference: str) -> str:
    from difflib import get_close_matches

    close = get_close_matches(reference.lower(), preset_names(), n=3, cutoff=0.5)
    return f" (did you mean {', '.join(close)}?)" if close else " (`models` lists the presets)"


def _refuse_keys(table: dict[str, Any], known: set[str], where: str) -> None:
    for key in table:
        if key not in known:
            raise Refused(f"{where}: {key}", f"one of {', '.join(sorted(known))}", "an unknown key")


def _plain(value: Any) -> str:
    if isinstance(value, (date, datetime, time)):
        return value.isoformat()
    raise ValueError(f"not a TOML value: {type(value).__name__}")
