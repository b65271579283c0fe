"""DPO against TRL's own trainer: loss and gradient of its `_compute_loss` in float64, and a whole optimizer step.

TRL's `sigmoid` has no label smoothing; its `aot` on one pair is the same loss with it (sorting a single pair changes
nothing), so smoothing is compared with the mean of that over the pairs.
"""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM
from trl.trainer.dpo_config import DPOConfig
from trl.trainer.dpo_trainer import DPOTrainer

from rlft.config import TrainingConfig
from rlft.training.algorithms import chosen_algorithm
from rlft.training.loss import Part, Whole
from rlft.training.trainer import Round, prepare_optimizer, train_round
from rlft.types import Rewards, Rollouts
from tests.factories import make_policy, make_reward, make_rollout, make_training, save_base
from tests.parity.one_step import load, weights

FORMS = [
    ({"loss_type": "sigmoid"}, "sigmoid"),
    ({"loss_type": "sigmoid", "label_smoothing": 0.2}, "aot"),
    ({"loss_type": "ipo"}, "ipo"),
    ({"loss_type": "sigmoid_norm"}, "sigmoid_norm"),
]
METRICS = ("rewards/chosen", "rewards/rejected", "rewards/accuracies", "rewards/margins")
PAIRS = [([4, 5, 6], [7, 8, 1], [9, 1]), ([7, 8, 9, 10], [3], [11, 12, 13, 1]), ([12], [5, 6, 7, 8, 1], [5, 6, 9])]


class Model(torch.nn.Module):
    """In the place of a model: it hands out our log-probabilities, [chosen of all pairs, then rejected; tokens]."""

    is_gradient_checkpointing = False

    def __init__(self, logprobs: torch.Tensor) -> None:
        super().__init__()
        self.logprobs = logprobs

    def forward(self, **_: Any) -> Any:
        zeros = torch.zeros_like(self.logprobs)
        return SimpleNamespace(log_probs=self.logprobs, entropy=zeros, mean_logits=zeros, is_top1=zeros.bool())


def trl_loss(form: str, new: torch.Tensor, reference: torch.Tensor, mask: torch.Tensor, **options: Any) -> Any:
    """Loss, gradient by the log-probabilities `new`, and metrics."""
    given = new.clone().requires_grad_()
    model = Model(given.where(mask, 0.0))
    trainer: Any = SimpleNamespace(
        model=model,
        ref_model=Model(reference.where(mask, 0.0)),
        accelerator=SimpleNamespace(
            device=torch.device("cpu"), gather=lambda each: each, gather_for_metrics=lambda each: each
        ),
        args=SimpleNamespace(gradient_checkpointing_kwargs=None),
        aux_loss_enabled=False,
        ld_alpha=None,
        precompute_ref_logps=False,
        f_divergence_type="reverse_kl",
        loss_types=[form],
        loss_weights=[1.0],
        use_weighting=False,
        _metrics={"train": defaultdict(list)},
        _total_train_tokens=0,
        _tp_size=1,
        beta=options["beta"],
        label_smoothing=options.get("label_smoothing", 0.0),
    )
    after_a_prompt = torch.cat([torch.zeros(len(mask), 1, dtype=torch.bool), mask], dim=1).long()
    inputs = dict.fromkeys(("input_ids", "attention_mask", "completion_mask"), after_a_prompt)
    loss = DPOTrainer._compute_loss(trainer, model, inputs, return_outputs=False)
    loss.backward()
    return loss.item(), given.grad, {name: trainer._metrics["train"][name][0] for name in METRICS}


@pytest.mark.parametrize("beta", [0.1, 0.7])
@pytest.mark.parametrize(("options", "form"), FORMS)
def test_loss_and_gradient(options, form, beta):
    generator = torch.Generator().manual_seed(0)
    lengths = torch.tensor([5, 2, 7, 1, 3, 6, 4, 7])  # chosen and rejected of four pairs in turn
    mask = torch.arange(7) < lengths[:, None]
    new, reference = (-3 * torch.rand(8, 7, generator=generator, dtype=torch.float64) for _ in range(2))
    settings = TrainingConfig(algorithm="dpo", beta=beta, **options)
    given = new.clone().requires_grad_()
    part = Part(given.where(mask, 0.0), new, torch.ones(8), mask, ref_logprobs=reference)
    report = chosen_algorithm(settings).loss(settings)(part, Whole(num_rollouts=8))
    report.loss.backward()
    order = torch.tensor([0, 2, 4, 6, 1, 3, 5, 7])
    batches = [order] if form != "aot" else [torch.tensor([row, row + 1]) for row in range(0, 8, 2)]
    loss, gradient, told = 0.0, torch.zeros_like(new), defaultdict(float)
    for rows in batches:
        part_of = trl_loss(form, new[rows], reference[rows], mask[rows], beta=beta, **options)
        loss += part_of[0] / len(batches)
        gradient[rows] += part_of[1] / len(batches)
        for name, value in part_of[2].items():
            told[name] += value / len(batches)
    assert report.loss.item() == pytest.approx(loss, abs=1e-6)
    torch.testing.assert_close(given.grad, gradient, rtol=0, atol=1e-6)
    assert gradient.abs().max() > 1e-3
    assert {name: report.sums[name] / report.units for name in METRICS} == pytest.approx(told, abs=1e-6)


@pytest.fixture(scope="module")
def bases(tmp_path_factory):
    """The model that is trained, and its reference."""
    folder = tmp_path_factory.mktemp("bases")
    return [save_base(folder / name, sharpness=3.0, seed=seed) for name, seed in (("policy", 0), ("reference", 1))]


def step_by_trl(bases, form, folder, **options):
    size = 1 if form == "aot" else len(PAIRS)
    model, reference = (AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32) for base in bases)
    options["label_smoothing"] = options.get("label_smoothing", 0.0)
    fixed = {
        "output_dir": str(folder),
        "use_cpu": True,
        "bf16": False,
        "report_to": [],
        "save_strategy": "no",
        "disable_tqdm": True,
        "logging_steps": 1,
        "max_steps": 1,
        "lr_scheduler_type": "constant",
        "gradient_checkpointing": False,
        "per_device_train_batch_size": size,
        "gradient_accumulation_steps": len(PAIRS) // size,
        "loss_type": [form],
    }
    trainer = DPOTrainer(
        model,
        reference,
        DPOConfig(**(fixed | options)),
        train_dataset=Dataset.from_dict({"prompt": ["1+1="], "chosen": ["2"], "rejected": ["3"]}),
        processing_class=make_policy().tokenizer,
    )
    columns = zip(*PAIRS, strict=True)
    names = ("prompt_ids", "chosen_ids", "rejected_ids")
    trainer.train_dataset = Dataset.from_dict(dict(zip(names, map(list, columns), strict=True)))
    trainer.train()
    (logged,) = [entry for entry in trainer.state.log_history if "grad_norm" in entry]
    return weights(model), logged


def step_by_rlft(bases, **options):
    policy, reference = map(load, bases)
    settings = make_training(algorithm="dpo", max_kl=1e9, **options)
    prepare_optimizer(policy, settings, None)
    rows = [
        make_rollout(f"t{number}", sample, prompt=prompt, completion=answer)
        for number, (prompt, *answers) in enumerate(PAIRS)
        for sample, answer in enumerate(answers)
    ]
    rewards = tuple(make_reward(rollout, 1.0 - rollout.sample) for rollout in rows)
    report = train_round(
        policy,
        Rollouts(tuple(rows)),
        Rewards(rewards, weights={}),
        settings,
        Round(number=0, temperature=1.0, max_completion_length=9),
        reference=reference,
    )
    assert report.stopped is None
    return weights(policy.model), report.metrics


@pytest.mark.parametrize("budget", [None, 12])
@pytest.mark.parametrize(("options", "form"), FORMS)
@pytest.mark.slow
def test_one_step(options, form, budget, bases, tmp_path):
    # the norm of the gradient is above 0.3, so that it is scaled down; AdamW moves most weights by the rate
    shared = {"beta": 0.3, "learning_rate": 3e-5, "max_grad_norm": 0.3}
    smoothing = {key: value for key, value in options.items() if key == "label_smoothing"}
    theirs, logged = step_by_trl(bases, form, tmp_path, **shared, **smoothing)
    ours, metrics = step_by_rlft(bases, per_step_token_budget=budget, **shared, **options)
    before = weights(load(bases[0]).model)
    moved = torch.cat([(theirs[name] - before[name]).flatten() for name in before]).abs()
    assert moved.median() > 0.9 * 3e-5
    for name in before:
        torch.testing.assert_close(
            ours[name], theirs[name], rtol=0, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}"
        )
    assert metrics["policy_loss"] == pytest.approx(logged["loss"], abs=1e-4)  # TRL rounds what it logs
    assert metrics["grad_norm"] == pytest.approx(logged["grad_norm"], rel=1e-4)
    for name in METRICS:
        assert metrics[name] == pytest.approx(logged[name], rel=1e-4, abs=1e-6)
