"""The prompt of a control is chosen by validation, within its budget, among those that fit the model."""

from __future__ import annotations

import json
import string
from typing import ClassVar

import pytest

from rlft.config import RewardConfig, WarmStartConfig
from rlft.engines.chat_endpoint import AskedModel
from rlft.engines.transformers_engine import TransformersEngine
from rlft.environments.contract.base import BaseEnv
from rlft.errors import EngineError
from rlft.evaluation.arms import ARMS
from rlft.evaluation.searches import prompts as few_shot
from rlft.evaluation.searches.prompts import (
    Prompts,
    PromptTrial,
    candidates,
    choose_examples,
    find_examples,
)
from rlft.evaluation.searches.validator import Terms, Validator
from rlft.harness.asked import AskedPlayer
from rlft.harness.attempt import Examples
from rlft.harness.chat.templates import apply_chat_template_setting
from rlft.harness.rollout import SamplingSettings
from rlft.models.flops import ROLLOUT_FLOPS
from rlft.progress import silent
from tests.factories import make_policy, make_task, make_task_set, user
from tests.rlft.engines.chat_servers import ChatServer, completion, function_call


class Sums(BaseEnv):
    def gold_completion(self, task):
        return task.answer

    def compute_reward(self, completion, answer):
        return float(completion.text.strip() == answer)


class SomeGold(Sums):
    def gold_completion(self, task):
        return task.answer if task.answer == "2" else None


TRAIN = [make_task(f"{a}+{b}", f"{a}+{b}=", str(a + b)) for a in range(3) for b in range(3)]
VALIDATION = [make_task(f"v{a}", f"{a}+{a}=", str(a + a), split="validation") for a in range(4)]
CHARACTERS = "0123456789+=\n :ExamplesAnswer in the same way"
ORDER = [(4, "turns"), (4, "text"), (8, "turns"), (8, "text"), (2, "turns"), (2, "text"), (0, "")]


class FakeValidator(Validator):
    """Gives each prompt its mean, and remembers which it was asked for; a validation costs 100."""

    means: ClassVar[dict[tuple[int, str], float]] = {}
    asked: ClassVar[list[tuple[int, str]]] = []

    def validate_player(self, player):
        examples = self.sampling.examples
        key = (len(examples.shown), examples.form) if examples else (0, "")
        self.asked.append(key)
        report, measured = super().validate_player(player)
        mean = self.means.get(key, 0.25)
        object.__setattr__(report, "per_task", {"accuracy": {f"v{place}": mean for place in range(4)}})
        return report, measured | ({ROLLOUT_FLOPS: 1e9} if ROLLOUT_FLOPS in measured else {})


def chosen(means, *, flops=1e12, context=512, environment=None, train=TRAIN, expected=0.0, kind=FakeValidator):
    sampling = SamplingSettings(temperature=0.0, max_completion_length=2, batch_size=16, seed=0)
    policy = make_policy(characters=CHARACTERS, max_position_embeddings=context)
    tasks = make_task_set(*train, *VALIDATION)
    validator = kind(tasks, environment or Sums(), TransformersEngine(16), sampling, RewardConfig(), 1, "accuracy")
    FakeValidator.means, FakeValidator.asked = means, []
    player = validator.player_of(policy)
    return choose_examples(player, validator, Terms(flops=flops, validation_flops=expected)), FakeValidator.asked


def test_the_best_validated_number_and_form_are_kept():
    report, asked = chosen({(8, "text"): 0.75, (2, "text"): 0.75, (0, ""): 0.5})
    assert asked == ORDER
    assert [(trial.examples, trial.form) for trial in report.trials] == ORDER
    assert report.chosen == PromptTrial(8, "text", 0.75, answers="gold")  # the first of two equally good ones
    examples = report.read_examples()
    assert (examples.form, len(examples.shown)) == ("text", 8)
    assert json.loads(json.dumps(report.examples)) == report.examples
    assert (report.spent, report.budget) == (7e9, 1e12)


def test_without_examples_it_is_the_base_model_itself():
    report, _ = chosen({(0, ""): 0.5})
    assert (report.chosen, report.examples, report.read_examples()) == (PromptTrial(0, "", 0.5), None, None)


def test_it_stops_when_the_budget_is_spent():
    # Reading some hundred tokens with 17,000 weights takes little beside the 1e9 of a validation, so two fit 2.5e9.
    report, asked = chosen({(8, "turns"): 1.0}, flops=2.5e9)
    assert asked == ORDER[:2]
    assert report.spent == 2e9
    assert {trial.left_out for trial in report.trials[2:]} == {"its validation does not fit the budget any more"}
    assert report.chosen == PromptTrial(4, "turns", 0.25, answers="gold")


def test_a_first_validation_that_costs_more_than_the_budget_is_not_begun():
    report, asked = chosen({}, flops=2.5e9, expected=3e9)
    assert (asked, report.chosen, report.spent) == ([], PromptTrial(0, ""), 0.0)


def test_of_another_model_the_first_validation_is_begun_and_tells_what_the_others_cost():
    _, asked = chosen({}, flops=1.5e9, expected=None)
    assert asked == ORDER[:1]


def test_a_prompt_that_does_not_fit_the_context_is_left_out():
    # Four sums as turns: 4 * (4 + 1 + 1 + 1) + 4 = 32 characters, and eight 60; a text has 34 more at least.
    report, asked = chosen({}, context=48)
    assert asked == [(4, "turns"), (2, "turns"), (0, "")]
    reasons = {(trial.examples, trial.form): trial.left_out for trial in report.trials if trial.left_out}
    assert reasons[8, "turns"] == "with it 4 of 4 prompts do not fit the context of the model"


def test_examples_are_those_of_the_file_and_of_train_tasks_that_have_gold(tmp_path):
    shown = find_examples(None, TRAIN, SomeGold())["gold"]
    assert sorted(one.prompt[0]["content"] for one in shown) == ["0+2=", "1+1=", "2+0="]
    assert [(len(found.shown), found.form) for found in candidates(shown)] == [(2, "turns"), (2, "text")]
    file = tmp_path / "shown.jsonl"
    file.write_text(json.dumps({"messages": [user("7+1="), {"role": "assistant", "content": "8"}]}) + "\n")
    found = find_examples(WarmStartConfig(steps=5, path=str(file)), TRAIN, Sums())["gold"]
    assert (len(found), found[0].prompt, found[0].turns[0]["content"]) == (8, [user("7+1=")], "8")
    assert len(find_examples(None, TRAIN, Sums())["gold"]) == max(few_shot.NUMBERS) == 8


class Worked(Sums):
    def demonstration(self, task):
        return f"{task.prompt[0]['content']}{task.answer}"


def test_examples_have_the_answers_that_do_better_in_validation():
    class ByLength(FakeValidator):
        """Likes long answers, or short ones."""

        longest: ClassVar[bool] = True

        def validate_player(self, player):
            examples = self.sampling.examples
            is_long = bool(examples) and len(examples.shown[0].turns[0]["content"]) > 2
            FakeValidator.means = dict.fromkeys(ORDER, 0.75 if is_long == self.longest else 0.25)
            return super().validate_player(player)

    for ByLength.longest, answers in ((True, "demonstration"), (False, "gold")):
        report, asked = chosen({}, environment=Worked(), kind=ByLength)
        assert asked == [(4, "turns"), (4, "turns"), *ORDER[1:]]
        assert [trial.answers for trial in report.trials] == ["gold", "demonstration", *5 * [answers], ""]
        assert report.chosen == PromptTrial(4, "turns", 0.75, answers=answers)
    # the first prompt with long answers that fits is compared, whatever its number
    report, asked = chosen({}, environment=Worked(), kind=ByLength, context=48)
    fitting = [(trial.examples, trial.answers) for trial in report.trials if not trial.left_out]
    assert fitting[:2] == [(4, "gold"), (2, "demonstration")]


def test_what_the_environment_says_after_the_answer_is_no_part_of_an_example():
    class Talks(Sums):
        max_turns = 1

        def respond(self, rollout_id, trajectory):
            return "Right!"

    (one, *_) = find_examples(None, TRAIN, Talks())["gold"]
    assert [message["role"] for message in one.turns] == ["assistant"]


class Adds(Sums):
    def list_tools(self):
        return [{"name": "add", "description": "Add.", "parameters": {"a": "A number."}}]

    def run_tool(self, rollout_id, tool_name, **args):
        return "2"

    def gold_completion(self, task):
        call = {"type": "function", "function": {"name": "add", "arguments": {"a": "1"}}}
        return [{"role": "assistant", "content": "", "tool_calls": [call]}, {"role": "assistant", "content": "2"}]


def test_calls_of_tools_are_not_shown_to_a_model_without_a_chat_template():
    report, asked = chosen({}, environment=Adds())
    assert asked == [(0, "")]
    reasons = {trial.form: trial.left_out for trial in report.trials if trial.left_out}
    assert reasons["turns"] == "the model has no chat template, which would show the calls of tools"
    assert reasons["text"] == "examples of several messages, or with calls of tools, can only be shown as turns"


def test_calls_of_tools_are_shown_as_turns_by_a_chat_template():
    policy = make_policy(characters=string.printable, max_position_embeddings=4096)
    apply_chat_template_setting(policy.tokenizer, "qwen3", {})
    sampling = SamplingSettings(temperature=0.0, max_completion_length=2, batch_size=16, seed=0)
    tasks = make_task_set(*TRAIN, *VALIDATION)
    validator = Validator(tasks, Adds(), TransformersEngine(16), sampling, RewardConfig(), 1, "accuracy")
    shown = find_examples(None, TRAIN, Adds())["gold"][:2]
    assert [message["role"] for message in shown[0].turns] == ["assistant", "tool", "assistant"]
    prompts = Prompts(validator.player_of(policy), validator)
    assert prompts.reading_flops(Examples(form="turns", shown=shown)) > prompts.reading_flops(None) > 0
    with pytest.raises(ValueError, match="can only be shown as turns"):
        prompts.reading_flops(Examples(form="text", shown=shown))


def chosen_by_asking(answer, environment=None, attempts=1):
    """The prompt that is chosen for an endpoint that answers so, and what the endpoint was asked."""
    sampling = SamplingSettings(temperature=0.0, max_completion_length=8, batch_size=16, seed=0)
    validator = Validator(
        make_task_set(*TRAIN, *VALIDATION), environment or Sums(), None, sampling, RewardConfig(), 1, "accuracy"
    )
    with ChatServer(answer) as server:
        player = AskedPlayer(AskedModel(server.url, "small", attempts=attempts))
        report = choose_examples(player, validator, Terms(validation_flops=0.0))
    return report, server


def test_a_model_behind_an_address_gets_the_prompt_with_which_it_does_best():
    def answer(body, number):
        """The sum, if two examples stand before it as turns; else nothing."""
        a, b = body["messages"][-1]["content"].rstrip("=").rpartition("\n")[2].split("+")
        right = len(body["messages"]) == 5
        return completion(str(int(a) + int(b)) if right else "?", usage={"prompt_tokens": 9, "completion_tokens": 2})

    report, server = chosen_by_asking(answer)
    assert [(trial.examples, trial.form) for trial in report.trials] == ORDER
    assert report.chosen == PromptTrial(2, "turns", 1.0, answers="gold")
    assert len(report.read_examples().shown) == 2
    # Seven prompts for each of four tasks; nobody knows the FLOPs.
    assert (len(server.bodies), report.prompt_tokens, report.completion_tokens) == (28, 28 * 9, 28 * 2)
    assert (report.spent, report.budget) == (None, None)


def test_an_endpoint_that_tells_no_tokens_and_ones_that_refuse_or_are_away():
    report, _ = chosen_by_asking(lambda body, number: "?")
    assert (report.prompt_tokens, report.completion_tokens, report.chosen.validation) == (None, None, 0.0)
    report, _ = chosen_by_asking(lambda body, number: 400)
    assert (report.chosen, report.examples, report.spent) == (PromptTrial(0, ""), None, None)
    with pytest.raises(EngineError, match="it left 4 of 4 attempts without an answer"):
        chosen_by_asking(lambda body, number: 503)


def test_calls_of_tools_are_shown_to_an_endpoint_as_turns_alone():
    call = {"content": "", "tool_calls": [function_call("add", {"a": "1"})]}
    report, server = chosen_by_asking(
        lambda body, number: "2" if body["messages"][-1]["role"] == "tool" else completion(call), Adds()
    )
    assert [(t.examples, t.form) for t in report.trials if not t.left_out] == [
        (4, "turns"),
        (8, "turns"),
        (2, "turns"),
        (0, ""),
    ]
    assert {t.left_out for t in report.trials if t.form == "text"} == {
        "examples of several messages, or with calls of tools, can only be shown as turns"
    }
    first = server.bodies[0]["messages"]
    assert [message["role"] for message in first] == ["user", "assistant", "tool", "assistant"] * 4 + ["user"]
    assert json.loads(first[1]["tool_calls"][0]["function"]["arguments"]) == {"a": "1"}
    assert first[2]["tool_call_id"] == first[1]["tool_calls"][0]["id"]


def test_rewriting_spends_no_more_than_the_budget():
    def spent(flops, **more):
        sampling = SamplingSettings(temperature=0.0, max_completion_length=2, batch_size=16, seed=0)
        policy = make_policy(characters=CHARACTERS, max_position_embeddings=512)
        tasks = make_task_set(*TRAIN, *VALIDATION)
        validator = Validator(tasks, Sums(), TransformersEngine(16), sampling, RewardConfig(), 1, "accuracy")
        arm = ARMS["prompt"](prompt=["Answer"], **more)
        return arm.choose(validator.player_of(policy), validator, Terms(flops=flops), silent).spent

    written = spent(1e15)  # two validations of four tasks
    with ChatServer(lambda body, number: "```\nin the same way\n```") as server:
        budget = 8 * written
        rewritten = spent(budget, reflection={"model": "large", "endpoint": server.url})
    assert len(server.bodies) > 1
    assert 2 * written < rewritten <= budget
