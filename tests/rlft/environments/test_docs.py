"""The examples of docs/environments/adapters.md and the tables of gsm8k.md hold."""

import asyncio
import json
import re
from pathlib import Path

import pandas as pd
import pytest
import yaml

from rlft.config import EnvironmentConfig, RewardConfig, TasksConfig
from rlft.environments.contract.loading import load_environment
from rlft.environments.gsm8k import GSM8K
from rlft.environments.maths import Maths
from rlft.harness.scripted import Part, as_script, play_scripts
from rlft.messages import make_call
from rlft.rewards.scoring import score_rollouts
from rlft.tasks import ingest_tasks
from rlft.types import Rollouts, Trajectory
from tests.rlft.attempts import audited, make_task

DOCS = Path(__file__).parents[3] / "docs" / "environments"


def section(title):
    """{language: code} of a section of adapters.md."""
    text = (DOCS / "adapters.md").read_text()
    (found,) = re.findall(rf"^## {title}\n(.*?)(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    return dict(re.findall(r"```(\w+)\n(.*?)```", found, re.DOTALL))


def write_trl():
    rows = [{"prompt": f"Name the capital of country {n}.", "solution": f"City {n}"} for n in range(40)]
    Path("capitals.jsonl").write_text("\n".join(map(json.dumps, rows)))


def write_verl():
    rows = [
        {
            "data_source": "sums",
            "prompt": [{"role": "user", "content": f"{n} + 1?"}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": str(n + 1)},
            "extra_info": {"index": n},
        }
        for n in range(40)
    ]
    pd.DataFrame(rows).to_parquet("train.parquet")


@pytest.mark.parametrize(("title", "write"), [("TRL", write_trl), ("verl", write_verl), ("reasoning-gym", None)])
def test_the_examples_score_and_pass_the_audit(title, write, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = section(title)
    if write is not None:
        Path(code["python"].splitlines()[0].removeprefix("# ")).write_text(code["python"])
        write()
    config = yaml.safe_load(code["yaml"])
    counts = dict.fromkeys(("train", "validation", "gate", "test"), 10)
    named = EnvironmentConfig.model_validate(config["environment"])
    tasks = ingest_tasks(
        TasksConfig.model_validate({**config["tasks"], "splits": counts}), environment=named.name, seed=0
    ).tasks
    environment = load_environment(named.name, named.kwargs)
    weights = config.get("reward", {}).get("weights", {})
    report = audited(tasks, environment, weights=weights, timeout_seconds=10.0)
    assert report.passed, report.text()
    assert report.attacks["gold"].count == len(tasks) == 40


def score(environment, text, gold, prompt="?"):
    completion = Trajectory([{"role": "assistant", "content": text}], task=make_task("d", prompt, gold))
    return asyncio.run(environment.compute_reward(completion, gold))


def rows(title):
    (table,) = re.findall(
        rf"^## {title}\n.*?\|---.*?\n(.*?)\n\n", (DOCS / "gsm8k.md").read_text(), re.DOTALL | re.MULTILINE
    )
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]


def test_the_table_of_numbers():
    for answers, correct, form in rows("Numbers"):
        for text in re.findall(r"`([^`]+)`", answers):
            parts = score(GSM8K("boxed"), text, "18")
            assert parts == {"correct": float(correct), "format": float(form)}, text


def test_the_table_of_expressions():
    seen = 0
    for answers, gold, correct in rows("Expressions"):
        for text in re.findall(r"`([^`]+)`", answers):
            parts = score(Maths(), rf"\boxed{{{text}}}", gold.strip("`"), "Factor x^2-1.")
            assert parts["correct"] == float(correct), (text, gold)
            seen += 1
    assert seen == 8


def test_the_example_of_the_guide_pays_gold(tmp_path):
    text = (DOCS.parent / "guide" / "environments.md").read_text()
    (source,) = re.findall(r"```python\n(# capitals\.py\n.*?)```", text, re.DOTALL)
    (tmp_path / "capitals.py").write_text(source)
    environment = load_environment(f"{tmp_path / 'capitals.py'}:Capitals", {})
    task = make_task("t", "What is the capital of Peru?", "Lima")
    asks = make_call("look_up", {"country": "Peru"}, "1")
    script = ({"role": "assistant", "content": "", "tool_calls": [asks]}, {"role": "assistant", "content": "Lima"})
    (rollout,) = play_scripts([Part("r", task, script)], environment)
    assert rollout.messages[-2]["content"] == "Its capital is Lima."
    rewards = score_rollouts(Rollouts((rollout,)), {"t": task}, environment, RewardConfig(timeout_seconds=5)).rows
    assert (rewards[0].parts, rewards[0].solved) == ({"right": 1.0, "looked_up": 1.0}, True)


CLIENT = """

class Client:
    def __init__(self, url):
        self.url = url

    async def search(self, query, limit):
        return [f"{query} at {self.url}"] * limit
"""


def test_the_example_of_a_class_written_elsewhere_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (DOCS.parent / "guide" / "environments.md").read_text()
    (source,) = re.findall(r"```python\n(class Papers.*?)```", text, re.DOTALL)
    (config,) = re.findall(r"```yaml\n(environment:\n  name: papers.*?)```", text, re.DOTALL)
    (tmp_path / "papers.py").write_text(f"import rlft\n\n\n{source}{CLIENT}")
    named = EnvironmentConfig.model_validate(yaml.safe_load(config)["environment"])
    environment = load_environment(named.name, named.kwargs)
    task = make_task("t", "?", "moon at http://localhost:9200")
    asks = {"function": {"name": "search", "arguments": '{"query": "moon", "limit": 2}'}}
    script = as_script([{"role": "assistant", "tool_calls": [asks]}, {"role": "assistant", "content": "There."}])
    (rollout,) = play_scripts([Part("r", task, script)], environment)
    assert json.loads(rollout.messages[-2]["content"]) == ["moon at http://localhost:9200"] * 2
    (reward,) = score_rollouts(Rollouts((rollout,)), {"t": task}, environment, RewardConfig(timeout_seconds=5)).rows
    assert reward.parts == {"found": 1.0}
