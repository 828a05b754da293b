"""`python -m tests.peers [FOLDER]` writes docs/peers.md: what other calculators answer where there is one answer.

Each is installed from the package index into an environment of its own below FOLDER (by default a new one, which takes
minutes and some gigabytes), is asked by a small program, and judged by what it prints: equal, of another convention
where what is counted is a choice, wrong where it is not, or refused where its program ends without a number.
"""

from __future__ import annotations

import datetime
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import calc
from tests.reference import ROOT

PAGE = ROOT / "docs" / "peers.md"
LLAMA = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": 4096,
    "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "vocab_size": 128256, "max_position_embeddings": 8192, "rms_norm_eps": 1e-05, "rope_theta": 500000.0,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16",
}  # fmt: skip
"""Llama 3 8B's config.json (https://huggingface.co/meta-llama/Meta-Llama-3-8B), which lies beside a program as such."""


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
_LAW = {"E": 1.8172, "A": 482.01, "B": 2085.43, "alpha": 0.3478, "beta": 0.3658}
"""Besiroglu et al. 2024, arXiv:2404.10102, table 1."""
NORMS = "it counts norms, activations and rotations too, here are products alone"
NO_GATE = "it knows no gated MLP, and takes the head's table to be the embedding's"
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
    Question("servcalc", "parameters of Llama 3 8B, by its bytes of weights in bf16",
             _SERVCALC.format(path='["weight_bytes"] // 2'), "llama-3-8b", "params", {}),
    Question("servcalc", "bytes of Llama 3 8B's cache for a token", _SERVCALC.format(path='["kv_bytes_per_token"]'),
             "llama-3-8b", "kv_cache", {"seq": 1}),
    Question("chinchilla", "best parameters for 1e24 FLOPs by Besiroglu's law", _CHINCHILLA.format(**_LAW, at=0),
             "", "N", {}),
    Question("chinchilla", "best tokens for 1e24 FLOPs by Besiroglu's law", _CHINCHILLA.format(**_LAW, at=1),
             "", "D", {}),
)  # fmt: skip


class Answer(NamedTuple):
    """What came out. theirs: None where the program ended without a number."""

    question: Question
    theirs: float | None

    def outcome(self) -> str:
        """equal (to 5 digits where the number is no whole one), another convention, wrong by so much, or refused."""
        if self.theirs is None:
            return "refused"
        off = self.theirs / self.question.ours() - 1
        exact = not self.question.quantity.isupper()
        if off == 0 if exact else abs(off) < 1e-3:
            return "equal"
        if self.question.choice:
            return f"other convention, {off:+.2%}: {self.question.choice}"
        return f"wrong, {off:+.1%}: {self.question.cause}"


def python_of(peer: Peer, folder: Path) -> Path:
    """The interpreter of the environment that has it, made where there is none."""
    found = folder / peer.name / "bin" / "python"
    if not found.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder / peer.name)], check=True)
        wanted = [f"{peer.name}=={peer.version}", *peer.needs]
        subprocess.run([str(found), "-m", "pip", "install", "-q", *wanted], check=True)
    return found


def ask(question: Question, python: Path, folder: Path) -> Answer:
    """Run its program beside the config.json."""
    (folder / "config.json").write_text(json.dumps(LLAMA))
    done = subprocess.run([str(python), "-c", question.program], capture_output=True, text=True, cwd=folder)
    last = (done.stdout.strip().splitlines() or [""])[-1]
    return Answer(question, float(last) if re.fullmatch(r"[\d.]+(e[+-]?\d+)?", last) else None)


def page(answers: list[Answer], day: str) -> str:
    """The document."""
    lines = [
        "# What other calculators answer",
        "",
        f"Asked on {day} by `python -m tests.peers`, which installs each from the package index into an environment of",
        "its own. Questions are those that have one answer; where a calculator may choose what it counts, another",
        "choice is no error and is named. A test works our column out again.",
        "",
        "| calculator | asked | theirs | ours | outcome |",
        "|---|---|---:|---:|---|",
    ]
    of = {peer.name: peer.version for peer in PEERS}
    for each in answers:
        it = each.question
        theirs = "–" if each.theirs is None else f"{each.theirs:,.0f}"
        row = (f"{it.peer} {of[it.peer]}", it.asked, theirs, f"{it.ours():,.0f}", each.outcome())
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="peers-"))
    answers = []
    for peer in PEERS:
        python = python_of(peer, folder)
        for question in QUESTIONS:
            if question.peer == peer.name:
                answers.append(ask(question, python, folder))
                print(f"{peer.name}: {question.asked}: {answers[-1].outcome()}", file=sys.stderr)
    PAGE.write_text(page(answers, datetime.date.today().isoformat()))


if __name__ == "__main__":
    main()
