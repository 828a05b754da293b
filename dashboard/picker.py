"""The model that all pages show: a preset, somebody's own config.json or TOML, or a shorthand set with sliders.

What was chosen stands in the address, so that a link shows the same. It lives in the visitor's own session and nowhere
else: no other visitor meets it.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import streamlit as st

from calc.architectures import from_config
from calc.architectures.models import from_toml, load_model, preset_names
from calc.errors import Refused, did_you_mean, printable
from calc.reading.files import parse_json
from calc.spec import ModelSpec
from dashboard import frame, packing, shared, shorthand
from dashboard.cache import cached

KINDS = ("Preset", "Config", "Shorthand")
DEFAULT = "llama-3-8b"
MAX_GROUPS = 64
"""Groups of layers that the pages read: each has formulas of its own, and a server has other visitors."""
UNREADABLE = "This model cannot be read"
REFUSED = "refused model"
"""The key of why the model that was chosen is refused."""
OWN = "own description"
"""The key of the visitor's own description in the session, good or bad: (form, name, text)."""
WANTED = "wanted file"
"""The key of the digest of the file that a link was made with."""
NOTHING = (
    "No model is read yet. Paste or upload a config.json of Hugging Face, or a description in TOML, in the box in the "
    "sidebar, and press Apply: this page then shows that model."
)
EXAMPLE = """{
  "model_type": "llama",
  "architectures": ["LlamaForCausalLM"],
  "hidden_size": 4096,
  "intermediate_size": 14336,
  "num_hidden_layers": 32,
  "num_attention_heads": 32,
  "num_key_value_heads": 8,
  "vocab_size": 128256,
  "max_position_embeddings": 8192,
  "rms_norm_eps": 1e-05,
  "rope_theta": 500000.0,
  "hidden_act": "silu",
  "tie_word_embeddings": false
}"""
"""What a visitor without a file of their own can start from: Llama 3 8B."""
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
            _forget("spec", "file")
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
        st.button("Start from an example", on_click=_paste, args=(EXAMPLE,), help="The config.json of Llama 3 8B")
        st.stop()
    return picked


def _paste(text: str) -> None:
    st.session_state["pasted"] = text
    _changed("pasted")


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
    if "pasted" not in st.session_state:
        _refill()
    with st.popover("Paste or upload a config.json or TOML", width="stretch"):
        upload = st.file_uploader(
            "Upload", type=["json", "toml"], key="upload", max_upload_size=1, on_change=_changed, args=("upload",)
        )
        pasted = st.text_area(
            "or paste it",
            key="pasted",
            height=200,
            placeholder='{"model_type": "llama", ...}',
            on_change=_changed,
            args=("pasted",),
        )
        st.button("Apply", key="apply", help="Or Ctrl+Enter in the box")
        if upload is not None and pasted.strip():
            st.caption("What is pasted counts, not the file.")
    own = st.session_state.get(OWN)
    if own is None and pasted.strip():
        own = _named(pasted)
    elif own is None:
        own = _linked() if upload is None else _uploaded(upload)
    if own is None:
        return None
    st.session_state[OWN] = own
    spec = read(own[0], own[1], own[2])
    _link(own)
    return Picked(spec, "config.json" if own[0] == "json" else "model.toml", own[2])


def _refill() -> None:
    """Have what counts stand in the box: on the way back from a preset, and where a link has brought it."""
    if OWN not in st.session_state and "spec" in st.query_params:
        with suppress(Refused):  # the link is read again below, and refused there
            st.session_state[OWN] = _linked()
    if OWN in st.session_state:
        st.session_state["pasted"] = st.session_state[OWN][2]


def _changed(key: str) -> None:
    """Forget what counted before the box or the upload was changed, so that page, box and address agree."""
    st.session_state.pop(OWN, None)
    _forget("spec", "file")
    if key == "upload" and st.session_state["upload"] is not None:
        st.session_state["pasted"] = ""
    if st.session_state["upload"] is None and not st.session_state["pasted"].strip():
        st.session_state.pop(WANTED, None)


def _named(text: str) -> tuple[str, str, str]:
    """A text that came without a name, as (form, name, text)."""
    form = packing.form(text)
    return form, "config.json" if form == "json" else "model.toml", text


def _uploaded(upload: object) -> tuple[str, str, str]:
    """What was uploaded, as (form, name, text). Its name is only ever shown. Errors: Refused."""
    name = printable(str(getattr(upload, "name", "")))[-60:] or "config.json"
    data = upload.getvalue()  # pyright: ignore[reportAttributeAccessIssue] (streamlit's UploadedFile)
    if len(data) > packing.MAX_TEXT:
        raise Refused(name, f"at most {packing.MAX_TEXT // 1024} KiB of text", f"{len(data):,} bytes")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Refused(name, "UTF-8 text", f"byte 0x{data[error.start]:02x} at {error.start}") from None
    return ("toml" if name.lower().endswith(".toml") else "json"), name, text


def _linked() -> tuple[str, str, str] | None:
    """The description in the address, once; where only its digest is there, ask for the file."""
    if "spec" in st.query_params:
        return _named(packing.unpack(st.query_params["spec"]))
    if "file" in st.query_params:
        st.session_state[WANTED] = st.query_params["file"]
        st.warning("This link was made with a file that is too long for it: upload that file to see the same.")
    return None


def _link(own: tuple[str, str, str]) -> None:
    """Keep the address in step with the description."""
    form, _, text = own
    packed = packing.pack(packing.compact(text, form))
    if packed is None:
        st.caption("Too long for a link: whoever opens yours is asked for the file.")
        _say("file", packing.digest(text))
        _forget("spec")
    else:
        _say("spec", packed)
        _forget("file")
    if st.session_state.get(WANTED, packing.digest(text)) != packing.digest(text):
        st.warning("This is not the file that the link was made with.")


def _forget(*names: str) -> None:
    for name in names:
        if name in st.query_params:
            del st.query_params[name]


def _say(name: str, value: str) -> None:
    if st.query_params.get(name) != value:
        st.query_params[name] = value


def _shorthand() -> Picked:
    text = shorthand.sliders()
    with st.expander("As model.toml"):
        st.code(text, language=None)
    return Picked(read("toml", "model.toml", text), "model.toml", text)


def _summary(picked: Picked) -> None:
    """What the model is, in a few words, and its file where the command line needs one."""
    st.markdown(f"**{frame.verbatim(picked.spec.name)}** · {frame.verbatim(picked.spec.family)}")
    for note in picked.spec.notes:
        st.caption(frame.verbatim(note))
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
