"""Our Triton kernels compile for a Hopper GPU, which needs none: to its matrix instructions, within its memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests.reference import ROOT

SCRIPT = """
import json, sys, warnings
warnings.simplefilter("ignore")
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from harness.kernels import triton_backward, triton_decode, triton_prefill

wanted, consts, options = json.loads(sys.argv[1])
kernel = {"prefill": triton_prefill.prefill_kernel, "decode": triton_decode.decode_kernel,
          "combine": triton_decode.combine_kernel, "query gradient": triton_backward.query_gradient_kernel,
          "key gradient": triton_backward.key_gradient_kernel}[wanted]
wide = {"partial_ptr": "*fp32", "log_ptr": "*fp32", "lengths_ptr": "*i32", "table_ptr": "*i32", "scale": "fp32",
        "root": "fp32", "logs_ptr": "*fp32", "delta_ptr": "*fp32"}
names = kernel.arg_names
signature = {name: "constexpr" if name in consts else wide.get(name, "*bf16" if name.endswith("_ptr") else "i32")
             for name in names}
attrs = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(names) if name.endswith("_ptr") or "stride" in name}
source = ASTSource(fn=kernel, signature=signature, constexprs={(names.index(k),): v for k, v in consts.items()},
                   attrs=attrs)
made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
ptx = made.asm["ptx"]
print(json.dumps({"shared": made.metadata.shared, "wgmma": ptx.count("wgmma.mma_async"), "mma": ptx.count("mma.sync"),
                  "cp_async": ptx.count("cp.async")}))
"""
WIDTHS = {"D": 128, "DV": 128, "BLOCK_D": 128, "BLOCK_DV": 128}
LOGS = {"LOGS": True}
MASKS = {"CAUSAL": True, "WINDOW": 0, "PADDED": False}
MEMORY = 227 * 1024


@pytest.mark.slow
@pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed: pip install triton")
@pytest.mark.parametrize(
    ("kernel", "consts", "options"),
    [
        ("prefill", WIDTHS | MASKS | LOGS | {"BLOCK_M": 128, "BLOCK_N": 128}, {"num_warps": 8, "num_stages": 2}),
        ("query gradient", WIDTHS | MASKS | {"BLOCK_M": 128, "BLOCK_N": 64}, {"num_warps": 8, "num_stages": 2}),
        ("key gradient", WIDTHS | MASKS | {"BLOCK_M": 64, "BLOCK_N": 128}, {"num_warps": 8, "num_stages": 2}),
        ("decode", WIDTHS | MASKS | {"PAGE": 16, "BLOCK_R": 16, "BLOCK_N": 64}, {"num_warps": 4, "num_stages": 3}),
        ("decode", WIDTHS | MASKS | {"PAGE": 0, "BLOCK_R": 16, "BLOCK_N": 64}, {"num_warps": 4, "num_stages": 3}),
        ("combine", {"DV": 128, "BLOCK_R": 16, "BLOCK_DV": 128, "BLOCK_S": 16, "CHUNK": 16}, {"num_warps": 4}),
    ],
)
def test_kernels_compile_for_hopper(kernel: str, consts: dict, options: dict) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    arguments = [sys.executable, "-c", SCRIPT, json.dumps([kernel, consts, options])]
    done = subprocess.run(arguments, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["shared"] <= MEMORY
    if kernel in ("prefill", "query gradient", "key gradient"):
        # 128 rows of queries fill the warpgroups' matrix unit; keys are fetched ahead.
        assert found["wgmma"] > 0
    if kernel == "decode":
        assert found["mma"] > 0
    assert (found["cp_async"] > 0) == (kernel != "combine")
