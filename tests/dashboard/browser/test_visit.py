"""What a visitor does, in a real browser on a real server, on a desktop and on a phone."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

if not os.environ.get("CI"):
    pytest.importorskip("playwright", reason="playwright is not installed")
    pytest.importorskip("streamlit", reason="streamlit is not installed")

from playwright.sync_api import expect

from calc import estimate, load_model
from calc.time import predict
from calc.units import binary, si
from dashboard.menu import PAGES
from tests.dashboard.browser.visiting import DESKTOP, PHONE, Visitor

Enter = Callable[..., Visitor]
SIZES = pytest.mark.parametrize("size", [DESKTOP, PHONE], ids=["desktop", "phone"])
CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 96,
    "intermediate_size": 256,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "vocab_size": 1000,
    "max_position_embeddings": 512,
    "rms_norm_eps": 1e-05,
    "hidden_act": "silu",
    "tie_word_embeddings": False,
    "attention_bias": False,
    "mlp_bias": False,
    "rope_theta": 10000.0,
}


def rate(model: str, batch: int) -> str:
    found = predict(load_model(model), "h100-sxm", phase="decode", batch=batch, context=2048)
    return si(found.tokens_per_second)


@pytest.mark.slow
@SIZES
def test_a_slider_changes_a_number_and_the_link_shows_it_to_another(visitor: Enter, size: tuple[int, int]) -> None:
    first = visitor(size).open().go("Roofline").pick("llama-3.2-1b")
    first.page.get_by_role("radio", name="decode").or_(first.page.get_by_role("button", name="decode")).click()
    figure = first.metric("Tokens per second")
    expect(figure).to_have_text(rate("llama-3.2-1b", 1))
    first.slide("Batch (sequences)", 3)
    expect(figure).to_have_text(rate("llama-3.2-1b", 8))
    assert first.knobs == {"model": "llama-3.2-1b", "phase": "decode", "batch": "8"}
    second = visitor(size).follow(first.page.url)
    expect(second.metric("Tokens per second")).to_have_text(rate("llama-3.2-1b", 8))
    third = visitor(size).open("roofline", phase="decode")
    expect(third.metric("Tokens per second")).to_have_text(rate("llama-3-8b", 1))


@pytest.mark.slow
@SIZES
def test_an_uploaded_config_travels_in_the_link(visitor: Enter, size: tuple[int, int], tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(CONFIG))
    first = visitor(size).open("roofline", **{"from": "Config"})
    first.menu()
    sidebar = first.page.get_by_test_id("stSidebar")
    sidebar.get_by_role("button", name=re.compile("Paste or upload")).click()
    first.page.locator('input[type="file"]').set_input_files(file)
    first.page.wait_for_url(re.compile(r"[?&]spec="))
    first.settled()
    from calc.architectures import from_config

    expected = si(predict(from_config(CONFIG, "config"), "h100-sxm", phase="prefill", seq=512).tokens_per_second)
    expect(first.metric("Tokens per second")).to_have_text(expected)
    second = visitor(size).follow(first.page.url)
    expect(second.metric("Tokens per second")).to_have_text(expected)


@pytest.mark.slow
def test_slider_page_and_link_agree_once_another_model_is_picked(visitor: Enter) -> None:
    first = visitor().open("memory")
    for model, usual in (("gpt2", "1024"), ("bert-base", "512"), ("gpt2", "1024")):
        first.pick(model)
        expect(first.page.get_by_role("slider", name="Sequence length")).to_have_attribute("aria-valuetext", usual)
    first.slide("Sequences of one rank", 1)
    peak = first.metric("Peak of a GPU").inner_text()
    assert peak == binary(estimate(load_model("gpt2"), "memory.peak", seq=1024, batch=2).value)
    second = visitor().follow(first.page.url)
    expect(second.metric("Peak of a GPU")).to_have_text(peak)


@pytest.mark.slow
def test_pages_share_what_a_link_and_a_visitor_chose(visitor: Enter) -> None:
    guest = visitor().open("memory", model="gpt2", gpu="h200", seq="512", tp="2")
    assert guest.page.get_by_role("combobox", name="GPU").input_value() == "h200"
    guest.go("Roofline")
    assert guest.page.get_by_role("combobox", name="Device").input_value() == "h200"
    expect(guest.page.get_by_role("slider", name="Sequence (tokens)")).to_have_attribute("aria-valuetext", "512")
    shared = {"model": "gpt2", "gpu": "h200", "seq": "512", "tp": "2"}
    assert guest.knobs == shared
    guest.slide("Batch (sequences)", 2)
    guest.go("Scaling laws").go("Memory")
    assert guest.knobs == shared | {"batch": "4"}
    peak = guest.metric("Peak of a GPU").inner_text()
    assert peak == binary(estimate(load_model("gpt2"), "memory.peak", seq=512, batch=4, tp=2).value)
    expect(visitor().follow(guest.page.url).metric("Peak of a GPU")).to_have_text(peak)


@pytest.mark.slow
def test_charts_and_tables_download(visitor: Enter) -> None:
    guest = visitor().open("roofline", model="gpt2")
    guest.page.wait_for_selector('[data-testid="stVegaLiteChart"] :is(canvas, svg)')
    assert guest.download("PNG").startswith(b"\x89PNG\r\n")
    picture = guest.download("SVG").decode()
    assert picture.startswith("<svg")
    assert "arithmetic intensity" in picture
    lines = guest.download("CSV").decode().splitlines()
    assert lines[0].startswith("op,function,direction")
    assert any(line.startswith("lm_head.logits,matmul,forward") for line in lines)


@pytest.mark.slow
def test_every_page_fits_a_phone_on_a_walk_through_the_menu(visitor: Enter) -> None:
    guest = visitor(PHONE).open(model="gpt2")
    for entry in PAGES:
        if entry != PAGES[0]:
            guest.go(entry.title)
        assert guest.page.evaluate("document.documentElement.scrollWidth") <= PHONE[0], entry.path


@pytest.mark.slow
def test_a_link_of_the_menu_keeps_the_model_while_the_first_page_is_being_drawn(visitor: Enter) -> None:
    guest = visitor()
    guest.page.goto(f"{guest.address}/plan?model=gpt2")
    guest.page.get_by_test_id("stSidebarNav").get_by_role("link", name="Serve").click()
    expect(guest.page.get_by_role("heading", level=1, name="Serve")).to_be_visible()
    guest.settled()
    assert guest.knobs == {"model": "gpt2"}
    expect(guest.page.get_by_test_id("stMain").get_by_text("gpt2", exact=True).first).to_be_visible()


@pytest.mark.slow
def test_a_stranger_to_the_catalogue_is_told_so(visitor: Enter) -> None:
    guest = visitor().open("roofline", model="<img src=x onerror=alert(1)>")
    alert = guest.page.get_by_test_id("stAlert").first
    expect(alert).to_contain_text("expected a preset")
    expect(alert).to_contain_text("<img src=x")
    assert guest.page.locator('img[src="x"]').count() == 0


@pytest.mark.slow
def test_a_click_on_a_block_opens_its_formula(visitor: Enter) -> None:
    guest = visitor().open("model", model="gpt2")
    charts = guest.page.get_by_test_id("stVegaLiteChart")
    place, before = charts.locator("svg text[aria-label*='block: mlp']"), None
    # On a busy machine what stands above the chart may still move it.
    while (box := place.bounding_box()) is None or box != before:
        before = box
        guest.page.wait_for_timeout(500)
    guest.page.mouse.click(box["x"] + 2, box["y"] + 2)
    expect(guest.page.get_by_role("heading", level=1, name="Formula")).to_be_visible()
    guest.settled()
    assert guest.knobs["part"] == "layers.{}.mlp"
    assert guest.knobs["model"] == "gpt2"
    expect(guest.metric("Value")).to_have_text(si(estimate(load_model("gpt2"), "params").terms["mlp"]))
