"""How many GPUs fast links join, and what leads beyond: said once, read by times of passes and of servers alike."""

from __future__ import annotations

import pytest

from calc.errors import Refused
from calc.serve.formats import served_format
from calc.serve.rates import HOSTED, constants, rates_of
from calc.spec.catalogue import load_device
from calc.spec.clusters import load_cluster
from calc.spec.run import Run
from calc.time import predict
from calc.time.cluster.links import adapter, domain_of, links_of
from tests.conventions.shapes import LLAMA_3


@pytest.mark.parametrize(("gpu", "joined"), [("gb200", 72), ("gb300", 72), ("b200", 8), ("h100-sxm", 8), ("l40s", 8)])
def test_fast_links_join_what_the_device_says_wherever_it_is_asked(gpu: str, joined: int) -> None:
    """A token without a cluster and a server's step reach as far over fast links; beyond them `predict` asks which."""
    device = load_device(gpu)
    assert domain_of(device) == links_of(Run(), device).domain == joined
    predict(LLAMA_3["70B"], gpu, phase="decode", tp=min(joined, 64))
    with pytest.raises(Refused, match=f"a domain of {joined} GPUs"):
        predict(LLAMA_3["8B"], gpu, phase="training", seq=512, dp=2 * joined)
    within, beyond = (rates_of(device, served_format("bf16"), "vllm", n, False) for n in (joined, 2 * joined))
    linked = device.link_one_way or device.host.value / 2  # type: ignore[union-attr]
    share = constants()["network"]
    assert beyond.link == pytest.approx(adapter(gpu) * share)
    assert within.link == pytest.approx(linked * (constants()["link"] if device.link_one_way else HOSTED))


@pytest.mark.parametrize("name", ["gb200-nvl72", "gb300-nvl72"])
def test_a_cluster_that_says_no_domain_has_its_devices(name: str) -> None:
    cluster = load_cluster(name)
    assert cluster.domain == domain_of(load_device(cluster.gpu)) == 72
    assert load_cluster("gb200-nvl36").domain == 36


def test_an_adapter_is_that_of_the_best_linked_cluster() -> None:
    """Of A100 with 40 GB eight cards of 200 Gb/s, and 400 Gb/s a machine of eight in p4d; of L4 no cluster is known."""
    assert adapter("a100-sxm-40gb") == 200e9 / 8
    assert adapter("gb300") == 800e9 / 8
    assert adapter("l4") == 400e9 / 8
