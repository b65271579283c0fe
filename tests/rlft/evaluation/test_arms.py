"""rlft.evaluation.arms: what every arm declares, and the search of a better prompt."""

from __future__ import annotations

from typing import get_args

import pytest

from rlft.config import Config, RewardConfig
from rlft.engines.chat_endpoint import AskedModel
from rlft.environments.contract.base import BaseEnv
from rlft.errors import ConfigError
from rlft.evaluation.arms import ARMS, PolicyArm, PromptArm
from rlft.evaluation.arms.base import Beginning
from rlft.evaluation.arms.model import Model
from rlft.evaluation.searches.validator import Terms, Validator
from rlft.harness.asked import AskedPlayer
from rlft.harness.rollout import SamplingSettings
from rlft.progress import silent
from tests.factories import make_task, make_task_set
from tests.rlft.engines.chat_servers import ChatServer

MINIMAL = {
    "name": "some",
    "tasks": {"source": "jsonl", "path": "rows.jsonl"},
    "environment": {"name": "a:B"},
    "policy": {"model": "a"},
}


@pytest.mark.parametrize("kind", ARMS.values())
def test_every_arm_says_what_it_is_and_a_config_can_name_it(kind):
    assert kind.label
    assert kind.__doc__
    assert kind.begins in get_args(Beginning)
    written = dict(kind.example) or kind.name
    if kind.in_every_run:
        with pytest.raises(ValueError, match="is no control"):
            Config.model_validate({**MINIMAL, "controls": [written]})
        return
    config = Config.model_validate({**MINIMAL, "controls": [written]})
    (arm,) = config.arms()
    assert type(arm) is kind
    assert isinstance(arm, PolicyArm | PromptArm)
    assert Config.model_validate(config.model_dump()) == config
    assert Config.model_validate_json(config.model_dump_json()).arms() == [arm]


def test_without_controls_a_run_has_those_that_need_no_settings():
    assert [arm.name for arm in Config.model_validate(MINIMAL).arms()] == ["few_shot", "rejection_sampling", "sft"]
    assert Config.model_validate({**MINIMAL, "controls": []}).arms() == []


def test_the_terms_of_a_model_behind_an_address_do_not_follow_from_the_rounds():
    one, other = (Terms(flops=flops, validation_flops=1.0, rounds=int(flops)) for flops in (3.0, 4.0))
    asked, loaded = Model(model="b", endpoint="http://127.0.0.1:9/v1", api_key="env:KEY"), Model(model="b")
    assert asked.terms(one) == asked.terms(other)
    assert loaded.terms(one) == one.model_copy(update={"validation_flops": None})
    assert asked.decisive() == loaded.decisive()  # another key, and it is not asked again


class Sums(BaseEnv):
    system_prompt = "You add."

    def compute_reward(self, completion, answer):
        return float(completion.text.strip() == answer)


VALIDATION = [make_task(f"v{a}", f"{a}+{a}=", str(a + a), split="validation") for a in range(4)]


def searched(texts, solved, terms):
    """What the search of a prompt finds, where `solved` says how many of four tasks are right with a system prompt."""

    def answer(body, number):
        system, task = body["messages"][0]["content"], body["messages"][-1]["content"]
        place = int(task[0])
        return str(2 * place) if place < solved(system) else "?"

    sampling = SamplingSettings(temperature=0.0, max_completion_length=8, batch_size=16, seed=0)
    validator = Validator(make_task_set(*VALIDATION), Sums(), None, sampling, RewardConfig(), 1, "accuracy")
    with ChatServer(answer) as server:
        player = AskedPlayer(AskedModel(server.url, "small"))
        return ARMS["prompt"](prompt=texts).choose(player, validator, terms, silent)


def test_the_best_instructions_are_joined_as_long_as_they_do_better():
    # a alone 1 of 4, b alone 2, c alone 0; b with a 3; b, a with c no more: so b and a are kept, in this order
    def solved(system):
        assert system.startswith("You add.")
        return ("a!" in system) + 2 * ("b!" in system)

    report = searched(["a!", "b!", "c!"], solved, Terms())
    tried = [(trial.instructions, trial.validation) for trial in report.trials]
    assert tried == [("", 0.0), ("a!", 0.25), ("b!", 0.5), ("c!", 0.0), ("b!\n\na!", 0.75), ("b!\n\na!\n\nc!", 0.75)]
    assert report.chosen.instructions == "b!\n\na!"
    assert report.read_examples().before([{"role": "user", "content": "q"}]) == [
        {"role": "system", "content": "b!\n\na!"},
        {"role": "user", "content": "q"},
    ]
    assert report.demonstrations == 0


def test_where_no_instructions_do_better_the_prompt_stays_as_it_is():
    report = searched(["a!"], lambda system: 1, Terms())
    assert (report.chosen.instructions, report.read_examples()) == ("", None)


def test_instructions_with_a_blank_line_are_one_text_and_equal_ones_are_tried_once():
    # What joins two texts is a blank line, too: "b!", which solves 2 of 4 with the line below it, and "a!" are two.
    def solved(system):
        return ("a!" in system) + 2 * ("b!\n\nThink." in system)

    report = searched(["b!\n\nThink.", "a!", "b!\n\nThink."], solved, Terms())
    tried = [(trial.instructions, trial.validation) for trial in report.trials]
    assert tried == [("", 0.0), ("b!\n\nThink.", 0.5), ("a!", 0.25), ("b!\n\nThink.\n\na!", 0.75)]
    assert report.chosen.instructions == "b!\n\nThink.\n\na!"


TRAIN = [make_task(f"t{a}", f"{a}+{a}=", str(a + a)) for a in range(9)]


def rewritten(says, terms, *, told=None, trials=400):
    """What the search finds where a model that reflects answers `says`; it is asked at an address of its own.

    With "Carry." in the system prompt all tasks are right, else none is.
    """

    def answer(body, number):
        system, task = body["messages"][0]["content"], body["messages"][-1]["content"]
        return str(2 * int(task[0])) if "Carry." in system else "?"

    sampling = SamplingSettings(temperature=0.0, max_completion_length=8, batch_size=16, seed=0)
    validator = Validator(make_task_set(*TRAIN, *VALIDATION), Sums(), None, sampling, RewardConfig(), 1, "accuracy")
    with ChatServer(answer) as server, ChatServer(says) as reflecting:
        player = AskedPlayer(AskedModel(server.url, "small"))
        reflection = {"model": "large", "endpoint": reflecting.url}
        arm = ARMS["prompt"](prompt=["Add well."], reflection=reflection, trials=trials)
        report = arm.choose(player, validator, terms, silent)
    if told is not None:
        told += [body["messages"][0]["content"] for body in reflecting.bodies]
    asked = sum(body["messages"][-1]["content"] in {task.text for task in TRAIN} for body in server.bodies)
    return report, asked - 4 * len([trial for trial in report.trials if trial.validation is not None])


def test_instructions_are_rewritten_by_what_went_wrong_at_train_tasks_and_validated():
    told = []
    report, asked = rewritten(lambda body, number: "```\nAdd. Carry.\n```", Terms(), told=told, trials=60)
    # None of the written ones does better than none, which is what is rewritten.
    tried = [(trial.instructions, trial.validation) for trial in report.trials]
    assert tried == [("", 0.0), ("Add well.", 0.0), ("Add. Carry.", 1.0)]
    assert report.chosen.instructions == "Add. Carry."
    assert asked <= 60
    assert 'It earned 0 (reward 0). The right answer is "' in told[0]
    assert "?" in told[0]


def test_a_model_that_does_not_answer_is_asked_once_and_leaves_the_written_instructions(caplog):
    told = []
    report, _ = rewritten(lambda body, number: 401, Terms(), told=told)
    assert [trial.instructions for trial in report.trials] == ["", "Add well."]
    assert len(told) == 1
    assert "instructions are not rewritten any more: " in caplog.text


def test_nothing_is_rewritten_that_the_trials_do_not_pay_for():
    told = []
    report, asked = rewritten(lambda body, number: "```\nCarry.\n```", Terms(), told=told, trials=10)
    assert (told, asked, len(report.trials)) == ([], 0, 2)


def test_a_model_that_reflects_has_an_address_and_its_key_is_there(monkeypatch):
    with pytest.raises(ValueError, match="endpoint"):
        ARMS["prompt"](prompt=["a"], reflection={"model": "large"})
    monkeypatch.delenv("SOME_KEY", raising=False)
    reflection = {"model": "large", "endpoint": "http://127.0.0.1:9/v1", "api_key": "env:SOME_KEY"}
    arm = ARMS["prompt"](prompt=["a"], reflection=reflection)
    with pytest.raises(ConfigError) as missing:
        arm.check_here()
    assert missing.value.where == "controls.reflection.api_key"
    monkeypatch.setenv("SOME_KEY", "sk-that-no-text-holds-4711")
    arm.check_here()
