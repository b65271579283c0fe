"""The audit of several environments: each by its own settings, and all have to pass."""

import json
from dataclasses import replace

import pytest

from rlft.config import RewardConfig
from rlft.config.file import check_config
from rlft.environments.contract.several import Several
from rlft.rewards.audit.rewards import audit_reward, way_out
from tests.rlft.rewards.audit.test_rewards import Pays, exact
from tests.rlft.several import of

TASKS = [of(name, n) for n in range(6) for name in ("good", "bad")]


def audit(one, other, **settings):
    several = Several({"good": Pays(one), "bad": Pays(other)})
    members = {"good": RewardConfig(), "bad": RewardConfig(**settings)}
    return audit_reward(TASKS, several, RewardConfig(members=members))


def pays_anything(text, gold, prompt):
    return 1.0


def test_the_way_out_names_what_the_reward_is_written_in():
    spec = {"criteria": {"right": {"says": "So.", "grader": {"type": "exact"}}}}
    tasks = {"source": "jsonl", "path": "rows.jsonl"}
    base = {"name": "x", "policy": {"model": "m"}}
    own = {"name": "own.py:Own"}
    one = {**base, "tasks": tasks}
    coded = check_config({**one, "environment": own}, where="")
    written = check_config({**one, "reward": {"spec": spec}}, where="")
    several = check_config(
        {
            **base,
            "environments": {
                "a": {"tasks": tasks, "environment": own},
                "b": {"tasks": tasks, "reward": {"spec": spec}},
            },
        },
        where="",
    )
    assert way_out(coded).startswith("mend compute_reward until")
    assert way_out(written).startswith("mend the criteria of reward.spec until")
    assert way_out(several).startswith("mend the rewards until")


@pytest.mark.slow
def test_all_have_to_pass():
    assert audit(exact, exact).passed
    found = audit(exact, pays_anything)
    assert not found.passed
    assert found.members == ("good", "bad")
    assert found.num_tasks == 12
    assert all(said.startswith(("good: ", "bad: ")) for said in found.findings)
    assert all(kind.startswith("bad/") for kind in found.exploits)
    assert found.attacks["good/gold"].mean == found.attacks["bad/gold"].mean == 1.0
    assert found.best.startswith("bad/")  # and not a gold
    assert [row["attack"] for row in found.shown()[:2]] == ["good/gold", "bad/gold"]
    assert "gold" not in {row["attack"].rpartition("/")[2] for row in found.shown()[2:]}
    assert json.loads(json.dumps(found.to_json()))["members"] == ["good", "bad"]
    assert "bad/" in found.text()


def test_each_is_audited_by_its_own_settings():
    kinds = audit(exact, pays_anything).exploits
    accepted = [kind.removeprefix("bad/") for kind in kinds]
    found = audit(exact, pays_anything, accept_exploits=accepted)
    assert set(found.accepted) >= {f"bad/{kind}" for kind in accepted}


def test_tasks_from_use_are_not_audited():
    tasks = [task for task in TASKS if task.environment == "good"]
    wrong = replace(tasks[0], id="use", answer={"not": "a text"}, info={"use_trace_id": "tr-1"})
    assert audit_reward([*tasks, wrong], Pays(exact), RewardConfig()).num_tasks == len(tasks)


def test_the_golds_of_all_stand_first_whatever_attacks_earn():
    found = audit(exact, lambda text, gold, prompt: 0.5 if text == gold else 1.0)
    assert [row["attack"] for row in found.shown()[:2]] == ["good/gold", "bad/gold"]
    assert found.shown()[2]["mean"] == 1.0
