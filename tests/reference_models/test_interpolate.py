"""Learned positions at another size of picture: our two passes against PyTorch's interpolation."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from reference_models.interpolate import Resize, cubic, interpolated  # noqa: E402

GRIDS = [((14, 14), (16, 16)), ((14, 14), (7, 9)), ((3, 5), (11, 5)), ((1, 1), (2, 3)), ((2, 2), (1, 1))]


@pytest.mark.parametrize(("old", "new"), GRIDS)
@pytest.mark.parametrize("how", ["bicubic", "bilinear", "bilinear-corners", "bilinear-smooth"])
@pytest.mark.parametrize("special", [0, 1, 2])
def test_equals_pytorch(old: tuple[int, int], new: tuple[int, int], special: int, how: Resize) -> None:
    torch.manual_seed(0)
    positions = torch.randn(special + old[0] * old[1], 6, dtype=torch.float64, requires_grad=True)
    found = interpolated(positions, old, new, special, how)
    picture = positions[special:].T.view(1, 6, *old)
    corners = how == "bilinear-corners"
    mode, smooth = how.split("-")[0], how == "bilinear-smooth"
    expected = torch.nn.functional.interpolate(picture, size=new, mode=mode, align_corners=corners, antialias=smooth)
    assert found.shape == (special + new[0] * new[1], 6)
    torch.testing.assert_close(found[special:], expected[0].flatten(1).T)
    assert torch.equal(found[:special], positions[:special])
    (gradient,) = torch.autograd.grad(found.sum(), positions)
    # Weights of each result add up to one.
    assert gradient.sum().item() == pytest.approx(6 * len(found))


def test_the_same_size_is_the_same_table() -> None:
    positions = torch.randn(1 + 6, 4)
    assert interpolated(positions, (2, 3), (2, 3)) is positions
    with pytest.raises(ValueError, match=r"expected 1 \+ 2 \* 2 rows, found 7"):
        interpolated(positions, (2, 2), (4, 4))


def test_half_precision_stays() -> None:
    assert interpolated(torch.ones(5, 2, dtype=torch.bfloat16), (2, 2), (3, 3)).dtype == torch.bfloat16


def test_weights_of_the_kernel() -> None:
    """1 at a point itself, 0 at all others, and half way -0.09375, 0.59375, 0.59375, -0.09375."""
    assert cubic(torch.tensor([0.0, 1.0, 2.0, -1.0, 3.0])).tolist() == [1.0, 0.0, 0.0, 0.0, 0.0]
    assert cubic(torch.tensor([-1.5, -0.5, 0.5, 1.5])).tolist() == [-0.09375, 0.59375, 0.59375, -0.09375]
