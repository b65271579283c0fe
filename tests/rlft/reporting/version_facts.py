"""Facts of a version for the tests of its card."""

from rlft.reporting.model_card import Facts
from rlft.texts.blocks import Table
from rlft.types import EvaluationReport, Interval

CONFIG = {
    "name": "capitals",
    "environment": {"name": "capitals.py:Capitals", "kwargs": {}},
    "tasks": {"source": "huggingface", "path": "openai/gsm8k", "generator": None, "off_distribution": None},
    "evaluation": {"metric": "accuracy"},
}


def report(split="test", mean=0.5, policy="abc"):
    interval = Interval(mean, mean - 0.1, mean + 0.1, 20, 20, 20.0)
    scores = {"accuracy": {"t1": mean}, "rewards/right": {"t1": mean}}
    return EvaluationReport(split, policy, 1, {"accuracy": interval}, scores)


def make_facts(**changes):
    given = {
        "name": "capitals",
        "run_name": "capitals-1",
        "run_id": "0123",
        "policy": {"kind": "adapter", "base_model": "Qwen/Qwen2.5-0.5B", "round": 3, "weights_hash": "ff00"},
        "shown": {"system_prompt": "Answer with the city.", "tools": [], "depends_on_task": False, "note": ""},
        "config": CONFIG,
        "tags": {"team": "a"},
        "code": {"commits": {"rlft": "beef"}},
        "reports": {"base": {"test": report(mean=0.3)}, "trained": {"test": report(), "gate": report("gate", 0.6)}},
        "source": "huggingface openai/gsm8k main train",
        "sizes": {"train": 400, "test": 20},
        "fingerprint": "f00d",
        "reward": ["right: paid with weight 1, at most 1."],
        "results": ["Better.", Table("accuracy", ("", "test"), (("base model", "0.300"),))],
        "simpler": ["The best constant answer reaches 10 %."],
        "reasons": ["passes: base"],
    }
    return Facts(**{**given, **changes})
