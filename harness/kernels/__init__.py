"""Attention kernels: a registry of ways to compute attention, ours and others'. Loading it loads no torch.

To add one: a file with a class of `Backend`, an instance of it here. The tests then hold it to a float64 reference over
random shapes, forward and backward, wherever it can run.
"""

from __future__ import annotations

from calc.attention.shape import AttentionShape
from harness.kernels.base import Backend
from harness.kernels.flash_attn import FlashAttn, FlashAttn3
from harness.kernels.flex import Flex
from harness.kernels.latent import LatentAbsorbed, LatentNaive
from harness.kernels.linear import Linear, LinearReference
from harness.kernels.reference import Reference
from harness.kernels.sdpa import SdpaCudnn, SdpaEfficient, SdpaFlash, SdpaMath
from harness.kernels.tiled import Tiled
from harness.kernels.triton import Triton, TritonDecode, TritonPaged

__all__ = ["KERNELS", "REFERENCES", "AttentionShape", "Backend"]

KERNELS: dict[str, Backend] = {
    backend.name: backend
    for backend in (
        Reference(),
        Tiled(),
        SdpaMath(),
        SdpaEfficient(),
        SdpaFlash(),
        SdpaCudnn(),
        Flex(),
        Triton(),
        TritonDecode(),
        TritonPaged(),
        FlashAttn(),
        FlashAttn3(),
        LinearReference(),
        Linear(),
        LatentNaive(),
        LatentAbsorbed(),
    )
}
"""Name -> backend."""

REFERENCES = {"softmax": "reference", "linear": "linear_reference", "latent": "mla_naive"}
"""What a backend computes -> the backend that writes it out; in fp64 the others are held against it."""
