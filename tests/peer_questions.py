"""What `tests.peers` asks other calculators, each by a small program that prints one number last."""

from __future__ import annotations

import tomllib
from typing import Any, NamedTuple

import calc
from tests.reference import ROOT

LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 4096,
    "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "vocab_size": 128256, "max_position_embeddings": 8192, "rms_norm_eps": 1e-05, "rope_theta": 500000.0,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
"""Llama 3 8B's config.json (https://huggingface.co/meta-llama/Meta-Llama-3-8B)."""
LATENT = tomllib.loads((ROOT / "calc" / "data" / "models" / "deepseek-v3.toml").read_text())["config"]
"""DeepSeek-V3's, as its preset has it."""


class Peer(NamedTuple):
    """A calculator as the index has it. needs: what it imports and does not say."""

    name: str
    version: str
    needs: tuple[str, ...] = ()


class Question(NamedTuple):
    """One number. program: prints it last. quantity: of `calc` at these words. choice: what a calculator may choose to
    count, where the number is no matter of fact. cause: of a wrong answer, as its own code shows."""

    peer: str
    asked: str
    program: str
    model: str
    quantity: str
    words: dict[str, int]
    choice: str = ""
    cause: str = ""

    def config(self) -> dict[str, Any]:
        """What lies beside the program as config.json: the published one of its model."""
        return LATENT if self.model == "deepseek-v3" else LLAMA

    def ours(self) -> float:
        """The answer of this package."""
        if self.quantity in ("N", "D"):
            best = calc.optimal("besiroglu", compute=1e24)
            return best.params if self.quantity == "N" else best.tokens
        return float(calc.estimate(calc.load_model(self.model), self.quantity, **self.words).value)


PEERS = (
    Peer("llm-flops", "0.0.1"),
    Peer("calflops", "0.3.2", ("torch", "transformers")),
    Peer("llm-analysis", "0.2.2"),
    Peer("servcalc", "0.1.0"),
    Peer("chinchilla", "0.2.0"),
    Peer("aiconfigurator", "0.12.0"),
    Peer("ridgepoint", "0.1.2"),
    Peer("vramcalc", "0.1.2"),
    Peer("hf-mem", "0.5.6"),
    Peer("accelerate", "1.15.0", ("torch", "transformers")),
)
_FLOPS = """
import json, subprocess, sys
from pathlib import Path
command = [str(Path(sys.executable).parent / "llm-flops"), "estimate", {model!r}, "--no-hf", "-s", "2048", "-g", "none"]
print(json.loads(subprocess.run([*command, "--json"], capture_output=True, text=True).stdout)[{key!r}])
"""
_CALFLOPS = """
import calflops, torch
from transformers import AutoConfig, AutoModelForCausalLM
with torch.device("meta"):
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained("."))
tokens = {{"input_ids": torch.zeros(1, 2048, dtype=torch.long, device="meta")}}
print(calflops.calculate_flops(model=model, kwargs=tokens, print_results=False, output_as_string=False)[{at}])
"""
_ANALYSIS = """
from llm_analysis.analysis import LLMAnalysis
from llm_analysis.config import ModelConfig, get_gpu_config_by_name
model = ModelConfig(name="llama", num_layers=32, n_head=32, hidden_dim=4096, vocab_size=128256, max_seq_len=8192,
                    num_key_value_heads=8, ffn_embed_dim=14336, expansion_ratio=3.5, model_type="llama")
print(LLMAnalysis(model, get_gpu_config_by_name("a100-sxm-80gb")).{call})
"""
_SERVCALC = """
import json, subprocess, sys
from pathlib import Path
command = [str(Path(sys.executable).parent / "servcalc"), "config.json", "--gpu", "H100 80GB", "--json"]
found = json.loads(subprocess.run([*command, "--concurrency", "16"], capture_output=True, text=True).stdout)
print(found{path})
"""
_CHINCHILLA = """
from chinchilla import Chinchilla
law = {{"E": {E}, "A": {A}, "B": {B}, "alpha": {alpha}, "beta": {beta}}}
print(float(Chinchilla.allocate_compute(1e24, law)[{at}]))
"""
_AICONFIGURATOR = """
from aiconfigurator.sdk import common, config, models
quant = {{f"{{name}}_quant_mode": getattr(common, kind).bfloat16 for name, kind in [
    ("gemm", "GEMMQuantMode"), ("moe", "MoEQuantMode"), ("kvcache", "KVCacheQuantMode"), ("fmha", "FMHAQuantMode")]}}
own = config.ModelConfig(tp_size=1, moe_tp_size=1, moe_ep_size=1, **quant)
model = models.get_model(".", own, "vllm")
print({what})
"""
_RIDGEPOINT = """
import json, ridgepoint
found = json.loads(ridgepoint.fit("llama-3-8b", "h100-80gb", ctx=4096, as_json=True))
print(found{path})
"""
_VRAMCALC = """
import json, subprocess, sys
from pathlib import Path
command = [str(Path(sys.executable).parent / "vramcalc"), "estimate", "config.json", "--seq", "2048", "--json"]
print(json.loads(subprocess.run(command, capture_output=True, text=True).stdout)["estimate"][{key!r}] // {by})
"""
_HF_MEM = """
import json
from pathlib import Path
from hf_mem.safetensors.kv_cache import compute_safetensors_kv_cache_size
print(compute_safetensors_kv_cache_size(json.loads(Path("config.json").read_text()), "BF16", 1))
"""
_ACCELERATE = """
import torch
from accelerate import init_empty_weights
from accelerate.utils import calculate_maximum_sizes
from transformers import AutoConfig, AutoModelForCausalLM
with init_empty_weights():
    model = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained("."), dtype=torch.bfloat16)
print(calculate_maximum_sizes(model)[0] // 2)
"""
_LAW = {"E": 1.8172, "A": 482.01, "B": 2085.43, "alpha": 0.3478, "beta": 0.3658}
"""Besiroglu et al. 2024, arXiv:2404.10102, table 1."""
NORMS = "it counts norms, activations and rotations too, here are products alone"
NO_GATE = "it knows no gated MLP, and takes the head's table to be the embedding's"
NO_NORMS = "it leaves out the weights of norms"
BUFFERS = "it counts buffers, the angles of rotary positions, too"
NO_LATENT = "it gives every head keys and values, of hidden_size / heads"
DEEP = "bytes of DeepSeek-V3's cache for a token"
BY_BYTES = "parameters of Llama 3 8B, by its bytes of weights in bf16"
CACHE = "bytes of Llama 3 8B's cache for a token"
META, MIXTRAL = "meta-llama/Meta-Llama-3-8B", "mistralai/Mixtral-8x7B-v0.1"
QUESTIONS = (
    Question("llm-flops", "parameters of Llama 3 8B", _FLOPS.format(model=META, key="parameters"),
             "llama-3-8b", "params", {}),
    Question("llm-flops", "parameters of Mixtral 8x7B that a token visits",
             _FLOPS.format(model=MIXTRAL, key="active_parameters"), "mixtral-8x7b", "params.active", {}),
    Question("llm-flops", "FLOPs forward of Llama 3 8B, 2,048 tokens",
             _FLOPS.format(model=META, key="forward_flops"),
             "llama-3-8b", "flops.forward", {"seq": 2048}, NORMS),
    Question("calflops", "parameters of Llama 3 8B", _CALFLOPS.format(at=2), "llama-3-8b", "params", {}),
    Question("calflops", "FLOPs forward of Llama 3 8B, 2,048 tokens", _CALFLOPS.format(at=0),
             "llama-3-8b", "flops.forward", {"seq": 2048}, "it leaves out the products of attention"),
    Question("llm-analysis", "parameters of Llama 3 8B", _ANALYSIS.format(call="get_num_params_total()"),
             "llama-3-8b", "params", {}, cause=NO_GATE),
    Question("llm-analysis", "FLOPs forward of Llama 3 8B, 2,048 tokens",
             _ANALYSIS.format(call="get_num_flops_fwd_total(1, 2048)"), "llama-3-8b", "flops.forward", {"seq": 2048},
             cause=NO_GATE),
    Question("servcalc", BY_BYTES,
             _SERVCALC.format(path='["weight_bytes"] // 2'), "llama-3-8b", "params", {}),
    Question("servcalc", CACHE, _SERVCALC.format(path='["kv_bytes_per_token"]'),
             "llama-3-8b", "kv_cache", {"seq": 1}),
    Question("servcalc", DEEP, _SERVCALC.format(path='["kv_bytes_per_token"]'), "deepseek-v3", "kv_cache", {"seq": 1}),
    Question("chinchilla", "best parameters for 1e24 FLOPs by Besiroglu's law", _CHINCHILLA.format(**_LAW, at=0),
             "", "N", {}),
    Question("chinchilla", "best tokens for 1e24 FLOPs by Besiroglu's law", _CHINCHILLA.format(**_LAW, at=1),
             "", "D", {}),
    Question("aiconfigurator", BY_BYTES,
             _AICONFIGURATOR.format(what="sum(each.get_weights() for each in model.context_ops) // 2"),
             "llama-3-8b", "params", {}, NO_NORMS),
    Question("aiconfigurator", CACHE, _AICONFIGURATOR.format(what="model.get_kvcache_bytes_per_sequence(1)"),
             "llama-3-8b", "kv_cache", {"seq": 1}),
    Question("aiconfigurator", DEEP, _AICONFIGURATOR.format(what="model.get_kvcache_bytes_per_sequence(1)"),
             "deepseek-v3", "kv_cache", {"seq": 1}),
    Question("ridgepoint", "parameters of Llama 3 8B", _RIDGEPOINT.format(path='["model"]["params"]'),
             "llama-3-8b", "params", {}),
    Question("ridgepoint", "bytes of Llama 3 8B's cache for 4,096 tokens",
             _RIDGEPOINT.format(path='["capacity"]["bytes_per_seq"]'), "llama-3-8b", "kv_cache", {"seq": 4096}),
    Question("vramcalc", BY_BYTES, _VRAMCALC.format(key="weights", by=2), "llama-3-8b", "params", {}),
    Question("vramcalc", CACHE, _VRAMCALC.format(key="kv_cache", by=2048), "llama-3-8b", "kv_cache", {"seq": 1}),
    Question("vramcalc", DEEP, _VRAMCALC.format(key="kv_cache", by=2048), "deepseek-v3", "kv_cache", {"seq": 1}),
    Question("hf-mem", CACHE, _HF_MEM, "llama-3-8b", "kv_cache", {"seq": 1}),
    Question("hf-mem", DEEP, _HF_MEM, "deepseek-v3", "kv_cache", {"seq": 1}, cause=NO_LATENT),
    Question("accelerate", BY_BYTES, _ACCELERATE, "llama-3-8b", "params", {}, BUFFERS),
)  # fmt: skip
