"""Rewards as people have them for TRL and verl, for the tests of the adapters."""

import asyncio
import re


def exact(completions, solution, **kwargs):
    """Standard format, with a column."""
    return [float(text.strip() == gold) for text, gold in zip(completions, solution, strict=True)]


def brief(completions, **kwargs):
    return [1.0 if len(text) <= 10 else 0.5 for text in completions]


def twice(completions, solution, **kwargs):
    """2 for the answer, -1 without it."""
    return [2.0 if gold in text else -1.0 for text, gold in zip(completions, solution, strict=True)]


def overlong(completions, **kwargs):
    """Takes away alone."""
    return [0.0 if len(text) <= 9 else -0.5 for text in completions]


def only_hard(prompts, completions, difficulty, **kwargs):
    """Applies to some rows alone."""
    return [float(len(p) > 0) if d > 0.5 else None for p, d in zip(prompts, difficulty, strict=True)]


def tagged(completions, **kwargs):
    """Conversational format."""
    pattern = r"<think>.+</think><answer>.+</answer>"
    return [1.0 if re.fullmatch(pattern, messages[0]["content"]) else 0.0 for messages in completions]


async def judged(prompts, completions, solution, completion_ids=None, trainer_state=None):
    """A coroutine that names its columns and takes no others; None stands for what TRL's trainer would give."""
    await asyncio.sleep(0)
    assert completion_ids is None
    assert trainer_state is None
    found = [re.search(r"<answer>(.*?)</answer>", messages[-1]["content"]) for messages in completions]
    return [
        float(bool(match) and match.group(1) == gold and prompt[-1]["role"] == "user")
        for prompt, match, gold in zip(prompts, found, solution, strict=True)
    ]


def greedy(completions, notes, **kwargs):
    """Changes what it is given."""
    notes[0].append("seen")
    return [float(len(notes[0]))]


def columns(prompts, completions, **kwargs):
    """Full if the columns are the row's, as TRL gives them."""
    return [float(kwargs == {"solution": ["Lima"], "difficulty": [0.2], "answer": ["Lima"]})]


def two_scores(completions, **kwargs):
    return [0.0, 1.0]


def by_length(completions, completion_ids, **kwargs):
    return [float(len(ids)) for ids in completion_ids]


def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    """verl's form with a plain number."""
    assert data_source == "openai/gsm8k"
    found = re.findall(r"#### (-?[0-9]+)", solution_str)
    return 1.0 if found and found[-1] == ground_truth else 0.0


async def compute_score_dict(data_source, solution_str, ground_truth, extra_info, penalty=0.0, **kwargs):
    correct = solution_str.endswith(ground_truth)
    score = 1.0 if correct else -penalty
    return {"score": score, "acc": correct, "index": extra_info["index"], "pred": solution_str[-3:]}


def five_points(data_source, solution_str, ground_truth, extra_info=None):
    return 5.0 if solution_str == ground_truth else 2.0 if ground_truth in solution_str else -1.0


def score_without_score(data_source, solution_str, ground_truth, extra_info=None):
    return {"acc": 1.0}


def old_form(solution_str, ground_truth):
    return 0.0


A_NUMBER = 3


def greedy_score(data_source, solution_str, ground_truth, extra_info):
    """Changes what it is given."""
    extra_info["seen"] = extra_info.get("seen", 0) + 1
    return float(extra_info["seen"])
