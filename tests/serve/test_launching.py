"""Command lines of engines say all that was planned, in words that engines know, or it is said what they leave out."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from calc.architectures.models import load_model
from calc.errors import Refused
from calc.serve.launching import TOOLS, cautions, launch
from calc.serve.layout import layout_of
from calc.serve.service import Guessing, Service, service_of

KNOWN = {
    "vllm": {
        "--tensor-parallel-size",
        "--pipeline-parallel-size",
        "--data-parallel-size",
        "--enable-expert-parallel",
        "--max-model-len",
        "--max-num-seqs",
        "--max-num-batched-tokens",
        "--gpu-memory-utilization",
        "--kv-cache-dtype",
        "--quantization",
    },
    "sglang": {
        "--model-path",
        "--tp-size",
        "--pp-size",
        "--dp-size",
        "--enable-dp-attention",
        "--ep-size",
        "--context-length",
        "--max-running-requests",
        "--chunked-prefill-size",
        "--mem-fraction-static",
        "--kv-cache-dtype",
        "--quantization",
    },
    "trtllm": {
        "--tp_size",
        "--pp_size",
        "--ep_size",
        "--max_batch_size",
        "--max_num_tokens",
        "--max_seq_len",
        "--kv_cache_free_gpu_memory_fraction",
        "--kv_cache_dtype",
    },
}
"""Options that the engines' documentation lists (vLLM 0.15, SGLang 0.5, TensorRT-LLM
1.3.0rc7): all that tell what was planned."""


ENGINES = {"vllm": "vllm", "sglang": "sglang", "trtllm": "trtllm", "dynamo": "vllm", "llm-d": "vllm"}


def planned(tool: str, dtype: str = "fp8", cache: str | None = None, gpu: str = "b200") -> Service:
    """Experts over all GPUs of two stages, of two groups of attention, but where a line cannot say them."""
    spec = load_model("qwen3-30b-a3b")
    layout = layout_of(spec, tp=2, pp=1 if tool == "llm-d" else 2, attention_dp=1 if tool == "trtllm" else 2, ep=2)
    return service_of(spec, gpu, layout, ENGINES[tool], dtype, cache)


def line(tool: str, service: Service) -> str:
    return " ".join(launch(tool, "path/to/model", [service], 1280, [16]))


@pytest.mark.parametrize("tool", list(KNOWN))
def test_every_option_is_said_and_known(tool: str) -> None:
    words = line(tool, planned(tool)).split()
    assert {word for word in words if word.startswith("--")} == KNOWN[tool]


@pytest.mark.parametrize("tool", list(TOOLS))
def test_lines_name_the_model_and_how_many_run(tool: str) -> None:
    """vLLM counts sequences of each of the two ranks of attention, the others of all."""
    text = line(tool, planned(tool))
    assert "path/to/model" in text
    assert re.search(r"(max[-_]num[-_]seqs|max-running-requests|max_batch_size)(\"\s+-)? \"?(16|8)\b", text)


@pytest.mark.parametrize(
    ("tool", "cache", "said"),
    [
        ("vllm", "bf16", "--kv-cache-dtype auto"),
        ("vllm", "fp8", "--kv-cache-dtype fp8"),
        ("dynamo", "fp8", "--kv-cache-dtype fp8"),
        ("sglang", "bf16", "--kv-cache-dtype bf16"),
        ("sglang", "fp8", "--kv-cache-dtype fp8_e4m3"),
        ("trtllm", "fp8", "--kv_cache_dtype fp8"),
        ("trtllm", "nvfp4", "--kv_cache_dtype nvfp4"),
    ],
)
def test_the_planned_format_of_the_cache_is_said(tool: str, cache: str, said: str) -> None:
    assert f"{said} " in f"{line(tool, planned(tool, cache=cache))} "


def test_an_option_newer_than_the_engine_is_said_where_it_is_needed_alone() -> None:
    """TensorRT-LLM's format of the cache, which releases before v1.3.0rc7 refuse: by default it is the model's."""
    plain, narrow = planned("trtllm", "bf16", "bf16"), planned("trtllm", "bf16", "fp8")
    assert "--kv_cache_dtype" not in line("trtllm", plain)
    assert list(cautions("trtllm", [plain])) == []
    assert list(cautions("trtllm", [narrow])) == [
        "keys and values in fp8 are asked for by an option that TensorRT-LLM 1.3.0rc7 brought"
    ]


@pytest.mark.parametrize("tool", ["vllm", "llm-d", "sglang"])
def test_a_cache_that_an_engine_has_no_word_for_is_refused(tool: str) -> None:
    with pytest.raises(Refused, match=r"--as: expected a cache in bf16 or fp8 under .*found fp16"):
        line(tool, planned(tool, cache="fp16"))


@pytest.mark.parametrize(
    ("tool", "engine", "dtype", "gpu", "said"),
    [
        ("vllm", "llama.cpp", "q4_k_m", "h100-sxm", "llama.cpp, as planned: vLLM does not load q4_k_m on h100-sxm"),
        ("trtllm", "vllm", "fp8", "a100-sxm-80gb", "vllm, as planned: TensorRT-LLM does not load fp8 on a100-sxm-80gb"),
        ("dynamo", "trtllm", "bf16", "h100-sxm", None),
    ],
)
def test_a_plan_of_another_engine_is_started_in_formats_that_this_one_loads(
    tool: str, engine: str, dtype: str, gpu: str, said: str | None
) -> None:
    spec = load_model("llama-3.1-8b")
    service = service_of(spec, gpu, layout_of(spec), engine, dtype)
    if said is None:
        assert line(tool, service)
    else:
        with pytest.raises(Refused, match=f"--as: expected what starts {said}, found {tool}"):
            line(tool, service)


@pytest.mark.parametrize(("tool", "option"), [("vllm", "--speculative-config"), ("sglang", "--speculative-algorithm")])
def test_planned_guesses_are_said_not_to_be_started(tool: str, option: str) -> None:
    plain = planned(tool)
    guessing = replace(plain, guessing=Guessing(3, 0.7, 0.1))
    (said,) = set(cautions(tool, [guessing])) - set(cautions(tool, [plain]))
    assert said == f"planned with 3 tokens guessed a step, and started without: name what guesses them by {option}"


def test_what_a_checkpoint_decides_is_said() -> None:
    """An 8-bit checkpoint may name a cache of its own; plain ones name none, and SGLang is told."""
    narrow, plain = planned("vllm"), planned("vllm", dtype="bf16")
    assert list(cautions("vllm", [plain])) == []
    assert list(cautions("vllm", [narrow])) == [
        "keys and values are planned in bf16: a checkpoint that names another format for them gets that"
    ]
    assert list(cautions("sglang", [planned("sglang")])) == []
    assert "planned under vllm, and not under sglang" in list(cautions("sglang", [plain]))


@pytest.mark.parametrize("tool", list(TOOLS))
def test_a_server_beyond_a_machine_is_said_to_be_joined_first(tool: str) -> None:
    """Data parallelism alone goes beyond a machine under llm-d; one server of eight GPUs needs no word, but of racks
    whose trays have four."""
    spec = load_model("qwen3-30b-a3b")
    wide = {"attention_dp": 4} if tool == "llm-d" else {"pp": 4}
    for gpu, each, said in (("h200", 2, 0), ("h200", 4, 1), ("gb200", 2, 1)):
        layout = layout_of(spec, tp=each, **wide)
        service = service_of(spec, gpu, layout, ENGINES[tool])
        assert sum("stands on several machines" in word for word in cautions(tool, [service])) == said
        assert line(tool, service)


@pytest.mark.parametrize("words", [{"tp": 16}, {"tp": 4, "pp": 2}])
def test_llm_d_starts_no_ranks_of_attention_on_several_machines(words: dict[str, int]) -> None:
    spec = load_model("llama-3.1-405b")
    service = service_of(spec, "h200", layout_of(spec, **words), "vllm", "fp8")
    with pytest.raises(Refused, match=r"--as: expected one of vllm, .*, found llm-d"):
        line("llm-d", service)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"tp": 8}, ""),
        ({"tp": 16}, " --distributed-executor-backend ray"),
        ({"tp": 8, "pp": 2}, " --distributed-executor-backend ray"),
        ({"tp": 4, "pp": 2, "attention_dp": 2}, " --data-parallel-backend ray --data-parallel-size-local 1"),
        ({"tp": 2, "attention_dp": 8}, " --data-parallel-backend ray --data-parallel-size-local 4"),
        ({"tp": 8, "pp": 2, "attention_dp": 2}, " --data-parallel-backend ray"),
    ],
)
def test_vllm_is_told_to_reach_other_machines(words: dict[str, int], said: str) -> None:
    """By Ray, and how many ranks of attention the first machine has; those that no machine holds span several."""
    spec = load_model("deepseek-v3")
    text = line("vllm", service_of(spec, "h200", layout_of(spec, **words), dtype="fp8"))
    assert text.endswith(f"--kv-cache-dtype auto{said}")
    assert text.startswith("VLLM_RAY_DP_PACK_STRATEGY=span ") is (words == {"tp": 8, "pp": 2, "attention_dp": 2})


@pytest.mark.parametrize(("ranks", "running", "each"), [(1, 16, 16), (2, 16, 8), (2, 17, 9), (8, 3, 1)])
def test_vllm_lets_in_as_many_as_were_planned(ranks: int, running: int, each: int) -> None:
    """--max-num-seqs is of one rank of attention."""
    spec = load_model("qwen3-30b-a3b")
    service = service_of(spec, "h200", layout_of(spec, attention_dp=ranks))
    assert f" --max-num-seqs {each} " in launch("vllm", "path", [service], 1280, [running])[0]


def test_workers_of_dynamo_have_roles_and_gpus_of_their_own() -> None:
    spec = load_model("llama-3.1-8b")
    reader = service_of(spec, "h100-sxm", layout_of(spec, gpus=6, tp=2))
    maker = service_of(spec, "h100-sxm", layout_of(spec, gpus=8, tp=4))
    lines = launch("dynamo", "path", [reader, maker], 1280, [8, 16])
    assert lines[4] == "# on machine 2:"
    workers = [text for text in lines if "dynamo.vllm" in text]
    gpus = [tuple(map(int, re.findall(r"\d+", text.split("CUDA_VISIBLE_DEVICES=")[1].split()[0]))) for text in workers]
    assert gpus == [(0, 1), (2, 3), (4, 5), (0, 1, 2, 3), (4, 5, 6, 7)]
    assert [re.findall(r"--disaggregation-mode (\w+)", text) for text in workers] == [["prefill"]] * 3 + [
        ["decode"]
    ] * 2
    for text in workers:
        (config,) = re.findall(r"--kv-transfer-config '(.+?)'", text)
        assert json.loads(config)["kv_connector"] == "NixlConnector"
    assert len({text.split()[0] for text in workers}) == len(workers)
    (alone,) = [text for text in launch("dynamo", "path", [planned("dynamo")], 1280, [8]) if "dynamo.vllm" in text]
    assert alone.startswith("CUDA_VISIBLE_DEVICES=0,1,2,3,4,5,6,7 python -m dynamo.vllm ")
    assert "disaggregation" not in alone
    assert "the lines are of Dynamo 1.4" in list(cautions("dynamo", [reader, maker]))


def test_workers_wider_than_a_machine_have_all_gpus_of_several() -> None:
    spec = load_model("llama-3.1-405b")
    wide = service_of(spec, "h100-sxm", layout_of(spec, gpus=32, tp=8, pp=2), "vllm", "fp8")
    front, first, comment, second = launch("dynamo", "path", [wide], 1280, [8])
    assert "frontend" in front
    assert comment == "# on machine 3:"
    assert first == second
    assert "CUDA_VISIBLE_DEVICES" not in first


def test_arguments_of_llm_d_are_strings() -> None:
    text = line("llm-d", planned("llm-d"))
    arguments = [word for word in text.split("args:")[1].split() if word != "-"]
    assert arguments
    assert all(word == json.dumps(json.loads(word)) for word in arguments)


@pytest.mark.parametrize(
    ("tool", "said"), [("vllm", "--runner pooling"), ("sglang", "--is-embedding"), ("trtllm", None)]
)
def test_a_model_that_generates_nothing_is_started_as_such_or_noted(tool: str, said: str | None) -> None:
    spec = load_model("bert-base")
    service = service_of(spec, "h200", layout_of(spec), ENGINES[tool])
    noted = f"bert-base generates no tokens: it is not known whether {tool} starts such a model"
    assert (noted in list(cautions(tool, [service]))) is (said is None)
    if said is not None:
        assert line(tool, service).endswith(f" {said}")
        assert said not in line(tool, planned(tool))
