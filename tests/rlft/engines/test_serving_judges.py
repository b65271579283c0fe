"""rlft.engines.serving: the command of a judge's vLLM, bounded beside the policy's engine."""

import torch

from rlft.engines.serving import serve_judge_command
from rlft.rewards.specification.judge import JudgeSettings, JudgeVllm
from tests.rlft.rewards.judges.judge_models import save_judge


def value(command, option):
    return command[command.index(option) + 1]


def test_on_a_cpu_its_cache_and_its_threads_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr("rlft.engines.serving.cores_here", lambda: 2)
    model = str(save_judge(tmp_path / "model"))
    own = JudgeVllm(cache_gib=0.25, max_model_len=512, dtype="float32")
    settings = JudgeSettings(engine="vllm", model=model, concurrency=4, vllm=own)
    command, variables = serve_judge_command(settings, None, tmp_path, port=4711)
    assert value(command, "--host") == "127.0.0.1"
    assert (value(command, "--port"), value(command, "--served-model-name")) == ("4711", model)
    assert value(command, "--kv-cache-memory-bytes") == str(2**28)
    assert (value(command, "--max-model-len"), value(command, "--max-num-seqs")) == ("512", "4")
    assert value(command, "--dtype") == "float32"
    assert "--gpu-memory-utilization" not in command
    assert variables == {"VLLM_NO_USAGE_STATS": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"}
    # The model has no chat template, and messages are joined by newlines.
    assert value(command, "--chat-template").startswith(str(tmp_path))


def test_on_a_gpu_it_takes_its_share_of_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("rlft.engines.serving.choose_device", lambda name: torch.device("cuda"))
    model = str(save_judge(tmp_path / "model"))
    settings = JudgeSettings(engine="vllm", model=model)
    command, variables = serve_judge_command(settings, "abc", tmp_path, port=1)
    assert (value(command, "--gpu-memory-utilization"), value(command, "--revision")) == ("0.3", "abc")
    assert value(command, "--max-num-seqs") == "8"
    assert value(command, "--max-model-len") == "4096"  # as the model's config says
    assert "--enforce-eager" not in command
    assert variables == {"VLLM_NO_USAGE_STATS": "1"}
