"""The model that all pages show: a preset, somebody's own config.json or TOML, or a shorthand set with sliders.

What was chosen stands in the address, so that a link shows the same. It lives in the visitor's own session and nowhere
else: no other visitor meets it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import streamlit as st

from calc.architectures import from_config
from calc.architectures.models import from_toml, load_model, preset_names
from calc.errors import Refused, did_you_mean, printable
from calc.reading.files import parse_json
from calc.spec import ModelSpec
from dashboard import frame, own_description, packing, shared, shorthand
from dashboard.cache import cached

KINDS = ("Preset", "Config", "Shorthand")
DEFAULT = "llama-3-8b"
MAX_GROUPS = 64
"""Groups of layers that the pages read: each has formulas of its own, and a server has other visitors."""
UNREADABLE = "This model cannot be read"
REFUSED = "refused model"
"""The key of why the model that was chosen is refused."""
NOTHING = (
    "No model is read yet. Paste or upload a config.json of Hugging Face, or a description in TOML, in the box in the "
    "sidebar, and press Apply: this page then shows that model."
)
UNKNOWN = "unknown preset"
"""The key of a name in a link that no preset has."""


@dataclass(frozen=True, slots=True)
class Picked:
    """The model that a visitor chose.

    reference: what stands for it on the command line: a preset's name, or the name of the file to save `text` in.
    text: of a description that is no preset, as the command line reads it; else None.
    """

    spec: ModelSpec
    reference: str
    text: str | None = None


def pick(folded: bool = False) -> Picked | None:
    """Draw the picker in the sidebar. None where nothing has been chosen, or what was chosen is refused.

    folded: behind the name of a fold, on a page that shows no model; the choice is kept for the others.
    """
    with st.sidebar, st.expander("Model of the other pages") if folded else st.container():
        shared.recall("from", KINDS[0])
        kind = st.segmented_control(
            "Model from", KINDS, default="Preset", key="from", required=True, bind="query-params"
        )
        shared.hold("from", kind)
        if kind != "Config":
            own_description.forget()
        st.session_state.pop(REFUSED, None)
        try:
            picked = {"Preset": _preset, "Config": _config, "Shorthand": _shorthand}[kind or "Preset"]()
        except (Refused, ArithmeticError, RecursionError, MemoryError, OSError) as error:
            st.session_state[REFUSED] = str(error) or type(error).__name__
            return None
        if picked is not None:
            _summary(picked)
        return picked


def refused() -> None:
    """Say why the chosen model is none, on the page itself: on a phone the sidebar is hidden, and so it is behind an
    open box to paste into."""
    if REFUSED in st.session_state:
        st.error(f"{UNREADABLE}: {frame.verbatim(st.session_state[REFUSED])}")


def wanted(picked: Picked | None) -> Picked:
    """The model, on a page that is nothing without one; where there is none, the page ends, and says what to do."""
    if picked is None and REFUSED in st.session_state:
        st.stop()  # `refused` has said why
    if picked is None:
        frame.nothing_yet(NOTHING)
        st.button(
            "Start from an example",
            on_click=own_description.paste,
            args=(own_description.EXAMPLE,),
            help="The config.json of Llama 3 8B",
        )
        st.stop()
    return picked


@cached
def read(form: str, name: str, text: str) -> ModelSpec:
    """The model that a text describes. form: `preset` (the text is its name), `json` or `toml`. Errors: Refused."""
    if form == "preset":
        return load_model(text)
    if len(text.encode()) > packing.MAX_TEXT:
        raise Refused(name, f"at most {packing.MAX_TEXT // 1024} KiB of text", f"{len(text.encode()):,} bytes")
    stem = printable(name.rpartition(".")[0] or name)[:60] or "model"
    spec = from_toml(text, name, stem) if form == "toml" else _of_config(parse_json(text, name), stem)
    groups = len(spec.layers) + sum(len(tower.layers) for tower in spec.towers)
    if groups > MAX_GROUPS:
        raise Refused("layers", f"at most {MAX_GROUPS} groups here (the command line takes more)", groups)
    return spec


def _of_config(config: Any, stem: str) -> ModelSpec:
    """The model of a config.json; one that is called no more than `config` goes by its own name, or by its family."""
    spec = from_config(config, stem)
    name = config.get("_name_or_path") if isinstance(config, dict) else None
    own = str(name).rstrip("/").rpartition("/")[2] if isinstance(name, str) else ""
    return spec.model_copy(update={"name": printable(own)[:60] or f"your {spec.family}"}) if stem == "config" else spec


def _preset() -> Picked:
    names = preset_names()
    shared.recall("model", DEFAULT)
    linked = st.query_params.get("model")
    if linked is not None and linked not in names and "model" not in st.session_state:
        st.session_state[UNKNOWN] = linked  # the widget would pass over it, and show another model under that link
    first = None if UNKNOWN in st.session_state else names.index(DEFAULT)
    name = st.selectbox(
        "Preset",
        names,
        index=first,
        key="model",
        bind="query-params",
        placeholder="Choose one",
        help="Other models: choose Config and paste their config.json.",
    )
    if name is None:
        unknown = str(st.session_state.get(UNKNOWN, ""))
        raise Refused("model", f"a preset{did_you_mean(unknown, names)}", unknown[:80] or "''")
    st.session_state.pop(UNKNOWN, None)
    shared.hold("model", name)
    return Picked(read("preset", name, name), name)


def _config() -> Picked | None:
    own = own_description.ask()
    if own is None:
        return None
    spec = read(own[0], own[1], own[2])
    own_description.link(own)
    return Picked(spec, "config.json" if own[0] == "json" else "model.toml", own[2])


def _shorthand() -> Picked:
    text = shorthand.sliders()
    with st.expander("As model.toml"):
        st.code(text, language=None)
    return Picked(read("toml", "model.toml", text), "model.toml", text)


def _summary(picked: Picked) -> None:
    """What the model is, in a few words, and its file where the command line needs one."""
    st.markdown(f"**{frame.verbatim(picked.spec.name)}** · {frame.verbatim(picked.spec.family)}")
    for note in picked.spec.notes:
        st.caption(frame.verbatim(str(note)))
    if picked.text is not None:
        st.download_button(
            f"Save as {picked.reference}",
            picked.text.encode(),
            picked.reference,
            "text/plain",
            on_click="ignore",
            type="tertiary",
            help="What the commands on the pages read",
        )
