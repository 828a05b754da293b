"""What the counter of `verify` says: what torch's own says of the same operations, but for its known faults."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn.functional import scaled_dot_product_attention  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from harness.counter import count  # noqa: E402

X = torch.rand(2, 6, 8)


def network() -> nn.Module:
    return nn.Sequential(nn.Conv1d(6, 4, 3), nn.GELU(), nn.Linear(6, 8), nn.LayerNorm(8), nn.Linear(8, 5, bias=False))


def by_torch(run: Callable[[], Any]) -> int:
    with FlopCounterMode(display=False) as counter:
        run()
    return counter.get_total_flops()


FORWARD = (
    lambda: network()(X),
    lambda: scaled_dot_product_attention(X.to("meta"), X.to("meta"), X.to("meta")),
    lambda: torch.einsum("bij,bkj->bik", X, X),
    lambda: X + X,
)
BACK = (
    lambda: network()(X),
    lambda: checkpoint(network(), X, use_reentrant=False),
    lambda: nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)(X),
)


@pytest.mark.parametrize("run", FORWARD)
@pytest.mark.parametrize("how", [torch.no_grad, torch.enable_grad, torch.inference_mode])
def test_as_torch_counts(run: Callable[[], Any], how: Callable[[], Any]) -> None:
    """In inference_mode torch hands over operations whole that it takes apart elsewhere."""
    with how():
        assert count(run) == by_torch(run)


@pytest.mark.parametrize("run", BACK)
def test_as_torch_counts_what_goes_back(run: Callable[[], Any]) -> None:
    assert count(lambda: run().sum().backward()) == by_torch(lambda: run().sum().backward()) > 0


def test_one_counter_knows_nothing_of_another() -> None:
    first = count(lambda: network()(X))
    assert first > 0
    assert count(lambda: X + 1) == 0
    assert count(lambda: (network()(X), network()(X))) == 2 * first


def test_products_with_a_vector_and_convolutions_of_groups() -> None:
    matrix, vector = torch.rand(5, 7), torch.rand(7)
    assert count(lambda: matrix @ vector) == 2 * 5 * 7
    assert count(lambda: torch.addmv(torch.rand(5), matrix, vector)) == 2 * 5 * 7
    assert count(lambda: vector @ vector) == 2 * 7
    conv = nn.Conv1d(6, 6, 3, groups=3)
    once = count(lambda: conv(X))
    assert once == 2 * 2 * 6 * 6 * 2 * 3  # of two inputs, 6 places of 6 channels, each of 2 channels and 3 places
    assert count(lambda: conv(X).sum().backward()) == 2 * once  # the input needs no gradient


def test_what_is_remembered_of_results_on_meta_is_what_they_are() -> None:
    """Arguments that differ in strides, format or kind of number alone are not taken for one another."""
    x = torch.rand(4, 6, device="meta")

    def results() -> list[Any]:
        ways = (x, x.T, x.to(torch.bfloat16), x.to(torch.int64), x[:, ::2], x[:1])
        one = [
            result for way in ways for result in (way * 2, way * 2.0, way.sum(0), way.sum(-1), way.clone(), way @ way.T)
        ]
        return one + [torch.cat([x, way]) for way in (x, x.int())] + [torch.arange(3.0, device="meta"), x.add_(1)]

    def described() -> list[Any]:
        return [(each.shape, each.stride(), each.dtype, each.device) for each in results()]

    expected, found = described(), []
    count(lambda: found.extend([described(), described()]))
    assert found == [expected, expected]
    count(lambda: found.append(x.add_(1) is x))
    assert found[-1]
