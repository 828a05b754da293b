"""Clusters and stacks: the shipped files, and what of one's own is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from calc.errors import Refused
from calc.spec.catalogue import load_device
from calc.spec.clusters import cluster_names, load_cluster
from calc.spec.stack import load_stack, stack_names

OWN = """
[sources.bill]
document = "An invoice"
where = "line 3"
url = "https://example.org/invoice"
read = 2026-11-22
confirmed = true

[clusters.attic]
title = "Two old machines"
gpu = "a100-sxm-80gb"
node = 8
domain = 8
cards = 2
card = { name = "Ethernet", rate = "100Gbps", source = "bill" }
fast = "bill"
"""


@pytest.mark.parametrize("name", cluster_names())
def test_every_cluster_is_whole(name: str) -> None:
    cluster = load_cluster(name)
    load_device(cluster.gpu)
    assert all(source.url.startswith("https://") for source in cluster.sources)
    assert cluster.share is not None


@pytest.mark.parametrize(
    ("name", "domain", "gigabits"),
    [
        ("dgx-a100", 8, 200),
        ("dgx-h100", 8, 400),
        ("p4d", 8, 50),
        ("p5", 8, 400),
        ("a3-mega", 8, 200),
        ("h800", 8, 400),
        ("gb200-nvl72", 72, 400),
        ("gb300-nvl72", 72, 800),
        ("dgx-b300", 8, 800),
    ],
)
def test_each_gpu_has_its_share_of_the_cards(name: str, domain: int, gigabits: float) -> None:
    """As printed by the makers: 8 cards of 200, 400 or 800 Gb/s; 400 Gb/s a machine in p4d, 3,200 in p5."""
    cluster = load_cluster(name)
    assert cluster.domain == domain
    assert cluster.share == pytest.approx(gigabits * 1e9 / 8)


def test_one_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "attic.toml"
    path.write_text(OWN)
    cluster = load_cluster(str(path))
    assert (cluster.name, cluster.share) == ("attic", 2 * 12.5e9 / 8)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('gpu = "a100-sxm-80gb"', 'gpu = "gtx"', "GPU"),
        ("domain = 8", "domain = 3", "domain"),
        ("domain = 8", 'domain = "all"', "domain"),
        ('rate = "100Gbps"', "rate = 100", "rate"),
        ('rate = "100Gbps"', 'rate = "fast"', "rate"),
        ('fast = "bill"', 'fast = "rumour"', "fast"),
        ("cards = 2", "cards = 2\nswitches = 4", "switches"),
        ("[clusters.attic]", "[racks.attic]", "racks"),
        (OWN, "", "sources"),
    ],
)
def test_a_broken_file_is_refused_in_one_line(tmp_path: Path, old: str, new: str, said: str) -> None:
    path = tmp_path / "broken.toml"
    path.write_text(OWN.replace(old, new))
    with pytest.raises(Refused) as refused:
        load_cluster(str(path))
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["dgx-h1000", "", "nowhere.toml"])
def test_an_unknown_cluster_is_refused(name: str) -> None:
    with pytest.raises(Refused):
        load_cluster(name)


@pytest.mark.parametrize("name", stack_names())
def test_every_stack_says_what_it_rests_on(name: str) -> None:
    stack = load_stack(name)
    assert stack.sources
    assert all(1 <= factor < 3 for factor in stack.fitted.computing.values())
    # A constant named after a device was fitted to rows of it.
    named = stack.fitted.computing.keys() - {"other"}
    assert bool(named) == bool(stack.fitted.on)
    for device in named:
        assert any(device in rows for rows in stack.fitted.on)


def test_power_tells_how_fast_a_kin_device_computes() -> None:
    """A board of twice the watts computes twice as fast where its rows' factor is that of another board."""
    stack = load_stack("megatron-core")
    own, kin = load_device("mi300x"), load_device("mi325x")
    assert own.power
    assert kin.power
    assert stack.computing(own) / stack.computing(kin) == pytest.approx(kin.power.value / own.power.value)
    assert stack.computing(load_device("v100-sxm2-16gb")) == stack.fitted.computing["other"]


def test_an_unknown_stack_is_refused_with_the_nearest() -> None:
    with pytest.raises(Refused, match="megatron-core"):
        load_stack("megatron")
