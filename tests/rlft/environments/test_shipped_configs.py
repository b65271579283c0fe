"""What every shipped environment must do on real data: gold full, silence nothing, all else less, always alike."""

from __future__ import annotations

import pytest

from rlft.environments.contract.loading import load_environment
from rlft.harness.scripted import Part, as_script, play_scripts
from rlft.rewards.scoring import score_rollouts
from rlft.tasks import ingest_tasks
from rlft.types import Rollouts, storage
from tests.needs import need_bubblewrap
from tests.shipped import ALL, IN_A_SANDBOX, WITH_TOOLS, load_shipped

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow]


@pytest.fixture(params=ALL)
def shipped(request, shared_data):
    if request.param in IN_A_SANDBOX:
        need_bubblewrap()
    config = load_shipped(request.param, shared_data)
    environment = load_environment(config.environment.name, config.environment.kwargs)
    tasks = ingest_tasks(config.tasks, environment=config.environment.name, seed=0).split("train")
    count = 3 if request.param in IN_A_SANDBOX else 8  # a score runs two sandboxes
    return request.param, config, environment, tasks[:: len(tasks) // count][:count]


def test_gold_is_full_silence_nothing_and_all_else_less(shipped, tmp_path):
    name, config, environment, tasks = shipped
    golds = [as_script(environment.gold_completion(task)) for task in tasks]
    parts = []
    for number, task in enumerate(tasks):
        others = [gold for gold, other in zip(golds, tasks, strict=True) if other.answer != task.answer]
        echo = "\n".join(message["content"] for message in task.prompt)
        said = [golds[number], "", golds[number], echo, others[0], "I do not know."]
        parts += [Part(f"{number}-{place}", task, as_script(words)) for place, words in enumerate(said)]
    rollouts = Rollouts(tuple(play_scripts(parts, environment)))

    def score(rollouts):
        return score_rollouts(
            rollouts,
            {task.id: task for task in tasks},
            environment,
            config.reward.model_copy(update={"timeout_seconds": 60.0}),
        ).rows

    rows = score(rollouts)
    assert [row.error for row in rows] == [None] * len(rows)
    for start in range(0, len(rows), 6):
        gold, silence, again, *attacks = rows[start : start + 6]
        assert gold.solved, gold
        assert (again.total, again.parts, again.answer) == (gold.total, gold.parts, gold.answer)
        assert silence.total <= 0
        assert not silence.solved
        wrong = [attack for attack in attacks if attack.answer is None or attack.answer != gold.answer]
        assert len(wrong) >= 2
        assert all(attack.total < gold.total and not attack.solved for attack in wrong), (gold, wrong)
    storage_rows = stored(rollouts)
    assert [(row.total, row.parts) for row in score(storage_rows)] == [(row.total, row.parts) for row in rows]
    if name in WITH_TOOLS:
        assert any(rollout.tool_calls for rollout in rollouts)
        assert not any(rollout.tool_errors for rollout in rollouts if rollout.rollout_id.endswith("-0"))


def stored(rollouts):
    """As they come back from a file."""
    return storage.rollouts_from_table(storage.rollouts_to_table(rollouts))
