"""A visitor's own description of a model: uploaded, pasted, or brought by a link, and the address that shows it again.

It lives in the visitor's own session and nowhere else.
"""

from __future__ import annotations

from contextlib import suppress

import streamlit as st

from calc.architectures.models import HUB_ID, kept_config
from calc.errors import Refused, printable
from dashboard import packing

OWN = "own description"
"""The key of the visitor's own description in the session, good or bad: (form, name, text)."""
WANTED = "wanted file"
"""The key of the digest of the file that a link was made with."""
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


def paste(text: str) -> None:
    """Have `text` stand in the box, and count."""
    st.session_state["pasted"] = text
    _changed("pasted")


def ask() -> tuple[str, str, str] | None:
    """Draw the box; the description that counts, as (form, name, text). None where there is none. Errors: Refused."""
    if "pasted" not in st.session_state:
        _refill()
    with st.popover("Paste or upload a config.json or TOML", width="stretch"):
        upload = st.file_uploader(
            "Upload", type=["json", "toml"], key="upload", max_upload_size=1, on_change=_changed, args=("upload",)
        )
        pasted = st.text_area(
            "or paste it, or the Hub id of one that this machine has",
            key="pasted",
            height=200,
            placeholder='{"model_type": "llama", ...} or OWNER/NAME',
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
    if own is not None:
        st.session_state[OWN] = own
    return own


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
    forget()
    if key == "upload" and st.session_state["upload"] is not None:
        st.session_state["pasted"] = ""
    if st.session_state["upload"] is None and not st.session_state["pasted"].strip():
        st.session_state.pop(WANTED, None)


def _named(text: str) -> tuple[str, str, str]:
    """A text that came without a name, or the Hub id of one, as (form, name, text). Errors: Refused."""
    hub = text.strip()
    if HUB_ID.fullmatch(hub):
        return "json", f"{hub.rpartition('/')[2]}.json", kept_config(hub)
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


def link(own: tuple[str, str, str]) -> None:
    """Keep the address in step with the description."""
    form, _, text = own
    packed = packing.pack(packing.compact(text, form))
    if packed is None:
        st.caption("Too long for a link: whoever opens yours is asked for the file.")
        _say("file", packing.digest(text))
        forget("spec")
    else:
        _say("spec", packed)
        forget("file")
    if st.session_state.get(WANTED, packing.digest(text)) != packing.digest(text):
        st.warning("This is not the file that the link was made with.")


def forget(*names: str) -> None:
    """Take out of the address what a description left there: all of it, or `names`."""
    for name in names or ("spec", "file"):
        if name in st.query_params:
            del st.query_params[name]


def _say(name: str, value: str) -> None:
    if st.query_params.get(name) != value:
        st.query_params[name] = value
