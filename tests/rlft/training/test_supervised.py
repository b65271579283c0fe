"""Supervised fine-tuning: it learns, it ends when told, it repeats itself, and bad demonstrations name their line."""

import dataclasses
import json
import math
import string
from collections import Counter

import pytest
import torch

import rlft
from rlft.config import WarmStartConfig
from rlft.environments.contract.base import BaseEnv
from rlft.environments.contract.several import Several
from rlft.errors import PolicyError, TaskError
from rlft.harness.chat.conversation import open_chat
from rlft.messages import as_openai, make_call
from rlft.models import save_policy
from rlft.training.demonstration_file import Demonstration, read_demonstrations
from rlft.training.demonstrations import choose_demonstrations, encode, open_chats
from rlft.training.imitation import draw_batches, run_sft, train_sft
from rlft.training.trainer import prepare_optimizer
from tests.factories import make_policy, make_task, make_training, user
from tests.rlft.harness.chat.tokenizers import make_tokenizer


def shown(*said):
    """A prompt's messages, and the answer's text."""
    *prompt, answer = said
    return Demonstration(tuple(prompt), ({"role": "assistant", "content": answer},))


SUMS = [shown(user(f"{a}+{b}="), str(a + b)) for a in range(4) for b in range(4)]


def sft(policy, demonstrations=SUMS, *, seed=0, **numbers):
    numbers = {"batch_size": 8, "learning_rate": 3e-3, "warmup_steps": 2, "steps": 5} | numbers
    return train_sft(policy, demonstrations, WarmStartConfig(steps=1).model_copy(update=numbers), seed=seed)


def weights(policy):
    return torch.cat([p.detach().flatten() for p in policy.model.parameters()])


def test_the_loss_goes_down():
    policy = make_policy()
    first = sft(policy, steps=1)
    # two tokens an answer, 16 in the vocabulary, close to uniform
    assert first.loss == pytest.approx(math.log(policy.model.config.vocab_size), abs=0.2)
    assert sft(policy, steps=30, learning_rate=2e-2).loss < 0.6 * first.loss


def test_the_loss_is_the_mean_over_answer_tokens():
    policy = make_policy(sharpness=2.0)
    chat = open_chat(policy.tokenizer)
    rows = [encode(policy, chat, d) for d in (SUMS[0], shown(user("9+9+9+9="), "36"))]
    logprobs = []
    for ids, imitated in rows:
        everything = policy.model(torch.tensor([ids])).logits[0].log_softmax(-1)
        logprobs += [everything[i - 1, ids[i]].item() for i in range(len(ids)) if imitated[i]]
    assert len(logprobs) == 2 + 3, "answers of one and two characters, and their end tokens"
    (loss,) = sft(policy, [SUMS[0], shown(user("9+9+9+9="), "36")], steps=1).losses
    assert loss == pytest.approx(-sum(logprobs) / 5, abs=1e-5)


def curve(policy, **options):
    """The loss of every step."""
    return torch.tensor(sft(policy, **options).losses)


@pytest.mark.slow
def test_bfloat16_follows_float32():
    # Most weights of this size lie 2^-13 = 1e-4 apart: one step of 1e-5 is lost, and so are all where none is kept.
    long, short = make_policy(hidden_size=64), make_policy(hidden_size=64, dtype="bfloat16")
    with torch.no_grad():
        for one, other in zip(long.model.parameters(), short.model.parameters(), strict=True):
            one.copy_(other)
    before = weights(short)
    losses, found = (curve(policy, steps=200, learning_rate=1e-5) for policy in (long, short))
    assert losses[0] - losses[-1] > 0.4
    torch.testing.assert_close(found, losses, rtol=0, atol=2e-2)
    expected = weights(long).to(torch.bfloat16)
    share = (weights(short) != before).sum() / (expected != before).sum()
    assert share == pytest.approx(1, abs=0.02)
    moved, wanted = weights(short) - before, weights(long) - before
    assert torch.cosine_similarity(moved.float(), wanted.float(), dim=0) > 0.98


def test_the_weights_are_no_longer_those_that_were_saved(tmp_path):
    policy = make_policy()
    unsaved = policy.identity
    sft(policy, steps=1)
    assert policy.identity != unsaved, "rollouts from before are not this policy's"
    saved = save_policy(policy, tmp_path / "one")
    assert policy.identity == saved.metadata.weights_hash
    sft(policy, steps=0)
    assert policy.identity == saved.metadata.weights_hash, "nothing has changed"
    sft(policy, steps=2)
    assert (policy.metadata.weights_hash, policy.metadata.content_hash) == ("", "")
    changed = policy.identity
    again = save_policy(policy, tmp_path / "two")
    assert again.metadata.weights_hash not in ("", saved.metadata.weights_hash)
    sft(policy, steps=1)
    assert policy.identity not in (changed, unsaved, again.metadata.weights_hash)


def test_a_step_that_explodes_is_not_taken():
    policy = make_policy()
    with torch.no_grad():
        policy.model.model.norm.weight[0] = math.nan
    before = {name: p.detach().clone() for name, p in policy.trainable().items()}
    with pytest.raises(PolicyError, match="loss of step 1 is nan"):
        sft(policy)
    assert all(torch.equal(p, before[name]) for name, p in policy.trainable().items() if name != "model.norm.weight")


def test_it_takes_as_many_steps_as_it_is_told():
    policy = make_policy()
    before = weights(policy)
    report = sft(policy, steps=3)
    assert (report.steps, report.demonstrations) == (3, 16)
    assert not torch.equal(before, weights(policy))
    nothing = sft(make_policy(), steps=0)
    assert nothing.steps == 0
    assert math.isnan(nothing.loss)


def test_a_seed_decides_everything():
    policies = [make_policy() for _ in range(3)]
    for policy, seed in zip(policies, (1, 1, 2), strict=True):
        sft(policy, seed=seed)
    assert torch.equal(weights(policies[0]), weights(policies[1]))
    assert not torch.equal(weights(policies[0]), weights(policies[2]))


def test_an_epoch_shows_everything_once():
    batches = draw_batches(12, 4, seed=0)
    epochs = [[next(batches) for _ in range(3)] for _ in range(2)]
    assert [sorted(i for batch in epoch for i in batch) for epoch in epochs] == [list(range(12))] * 2
    assert epochs[0] != epochs[1]
    assert sorted(next(draw_batches(3, 64, seed=0))) == [0, 1, 2], "fewer than a batch"


def test_an_old_optimizer_is_not_carried_over():
    # Warm, the policy would keep moments that a cold start does not have: both must give the same bytes.
    policy = make_policy()
    prepare_optimizer(policy, make_training(), None)
    policy.metadata = dataclasses.replace(policy.metadata, update=5)
    sft(policy)
    assert policy.optimizer is None
    assert policy.metadata.update == 0
    assert all(p.grad is None for p in policy.model.parameters())


def test_a_rate_that_explodes_is_an_error():
    with pytest.raises(PolicyError, match="loss of step") as caught:
        sft(make_policy(), learning_rate=1e30, warmup_steps=0, steps=20)
    assert "warm_start.learning_rate" in caught.value.fix


@pytest.mark.parametrize(
    ("answer", "what"), [("2x", "no token for \\['x'\\]"), ("1" * 61, "66 tokens exceed the model's 64")]
)
def test_a_demonstration_the_model_cannot_read(answer, what):
    with pytest.raises(PolicyError, match=what) as caught:
        sft(make_policy(), [*SUMS, shown(user("1+1="), answer)])
    assert caught.value.fix


def test_a_demonstration_that_just_fits():
    assert sft(make_policy(), [shown(user("1+1="), "1" * 59)], steps=1).steps == 1


def row(*messages):
    return json.dumps({"messages": list(messages)}, ensure_ascii=False)


GOOD = row(user("1+1=\u2028"), {"role": "assistant", "content": "2"})


def test_demonstrations_are_read(tmp_path):
    path = tmp_path / "shown.jsonl"
    path.write_bytes(
        f"\ufeff{GOOD}\r\n\n{row(user('a'), user('b'), {'role': 'assistant', 'content': ''})}\n\n".encode()
    )
    assert read_demonstrations(path) == [
        shown(user("1+1=\u2028"), "2"),
        shown(user("a"), user("b"), ""),
    ]


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        "3",
        "{}",
        '{"messages": []}',
        f'{{"messages": [], {GOOD[1:]}',
        '{"messages": null}',
        '{"messages": ["a", "b"]}',
        row({"role": "assistant", "content": "2"}),
        row(user("1+1="), user("2")),
        row(user("1+1="), {"role": "assistant"}),
        row(user("1+1="), {"role": "assistant", "content": None}),
        row({"role": "user", "content": 3}, {"role": "assistant", "content": "2"}),
        row({"content": "1"}, {"role": "assistant", "content": "2"}),
        b"\xff\xfe",
    ],
)
def test_a_bad_demonstration_names_its_line(tmp_path, line):
    path = tmp_path / "shown.jsonl"
    path.write_bytes(GOOD.encode() + b"\n" + (line if isinstance(line, bytes) else line.encode()) + b"\n")
    with pytest.raises(TaskError) as caught:
        read_demonstrations(path)
    assert caught.value.where == f"{path}:2"
    assert "messages" in caught.value.fix


def test_a_bad_demonstration_names_its_message(tmp_path):
    path = tmp_path / "shown.jsonl"
    asks = {"role": "assistant", "tool_calls": [{"function": {"name": "f", "arguments": "{"}}]}
    path.write_text(row(user("1+1="), asks))
    with pytest.raises(
        TaskError,
        match="not a demonstration: message 2 has tool call 1 that cannot be read: it has arguments in a string",
    ):
        read_demonstrations(path)


def test_a_demonstration_that_cannot_be_read_names_its_task():
    class Wrong(Adder):
        def demonstration(self, task):
            return [{"role": "assistant", "content": "", "function_call": {"name": "add", "arguments": "{}"}}]

    with pytest.raises(TaskError, match="message 1 has the old function_call") as caught:
        choose_demonstrations(WarmStartConfig(steps=1, demonstrations=1), [make_task("t7")], Wrong())
    assert caught.value.where == "task t7"


@pytest.mark.parametrize("content", ["", "\n\n"])
def test_a_file_without_demonstrations(tmp_path, content):
    path = tmp_path / "shown.jsonl"
    path.write_text(content)
    with pytest.raises(TaskError, match="no demonstrations"):
        read_demonstrations(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(TaskError, match="no such file") as caught:
        read_demonstrations(tmp_path / "none.jsonl")
    assert caught.value.fix == "check warm_start.path"


def test_gold_answers_of_a_sample_of_the_tasks(tmp_path):
    tasks = [make_task(f"t{i}", prompt=f"{i}+0=", answer=answer) for i, answer in enumerate(["0", None, "2", "3"])]
    chosen = choose_demonstrations(WarmStartConfig(steps=1, demonstrations=4), tasks, BaseEnv())
    assert [(d.prompt[0]["content"], d.turns[0]["content"]) for d in chosen] == [
        ("0+0=", "0"), ("2+0=", "2"), ("3+0=", "3"),
    ]  # fmt: skip
    with pytest.raises(TaskError, match="no train task has a gold answer"):
        choose_demonstrations(WarmStartConfig(steps=1), tasks[1:2], BaseEnv())
    many = [make_task(f"t{i}", prompt=f"{i}+0=", answer=str(i)) for i in range(200)]
    some = choose_demonstrations(WarmStartConfig(steps=1, demonstrations=50), many, BaseEnv())
    numbers = [int(d.turns[0]["content"]) for d in some]
    assert numbers == sorted(set(numbers))
    assert len(numbers) == 50
    assert 15 <= sum(number >= 100 for number in numbers) <= 35  # 25 with a standard deviation of 3.1
    path = tmp_path / "shown.jsonl"
    path.write_text(f"{GOOD}\n{GOOD}\n")
    from_file = WarmStartConfig(steps=1, demonstrations=1, path=str(path))
    assert len(choose_demonstrations(from_file, tasks, BaseEnv())) == 1


class Adder(rlft.BaseEnv):
    """Shows how to ask for a sum."""

    @rlft.tool
    def add(self, a: int, b: int) -> int:
        """Add."""
        return a + b

    @rlft.reward
    def right(self, text, ground_truth):
        return float(text == ground_truth)

    def gold_completion(self, task):
        a, b = map(int, task.prompt[0]["content"].rstrip("=").split("+"))
        asks = make_call("add", {"a": a, "b": b}, "1")
        return [
            {"role": "assistant", "content": "", "tool_calls": [asks]},
            {"role": "assistant", "content": str(a + b)},
        ]


def test_demonstrations_of_many_turns_imitate_the_assistant_alone(tmp_path):
    policy = make_policy(characters=string.printable, max_position_embeddings=256)
    settings = WarmStartConfig(steps=1, demonstrations=1)
    (found,) = choose_demonstrations(settings, [make_task(prompt="12+3=", answer="15")], Adder())
    assert [message["role"] for message in found.turns] == ["assistant", "tool", "assistant"]
    assert found.turns[1]["content"] == "15"
    chat = open_chat(policy.tokenizer)
    ids, imitated = encode(policy, chat, found)
    call = '<tool_call>\n{"name": "add", "arguments": {"a": 12, "b": 3}}\n</tool_call>'
    assert policy.tokenizer.decode(ids) == f"12+3={call}<eos>\n15\n15<eos>"
    read = "".join(policy.tokenizer.decode([i]) for i, own in zip(ids, imitated, strict=True) if own)
    assert read == f"{call}<eos>15<eos>"
    path = tmp_path / "shown.jsonl"
    path.write_text(row(*found.prompt, *found.turns))
    assert read_demonstrations(path) == [found]
    path.write_text(row(*map(as_openai, (*found.prompt, *found.turns))))  # arguments are text there
    assert read_demonstrations(path) == [found]
    report = run_sft(policy, settings, [make_task(prompt="12+3=", answer="15")], Adder(), seed=0)
    assert report.steps == 1


def test_demonstrations_of_several_environments_describe_their_own_tools():
    class Plain(BaseEnv):
        """Has no tools."""

    class Tooled(BaseEnv):
        """Has one."""

        @rlft.tool
        def look(self, word: str) -> str:
            """Look a word up."""
            return word

    tokenizer = make_tokenizer("qwen3")
    policy = make_policy(max_position_embeddings=512)
    policy.tokenizer = tokenizer
    several = Several({"plain": Plain(), "tooled": Tooled()})
    tasks = [replace_task("plain"), replace_task("tooled")]
    found = choose_demonstrations(WarmStartConfig(steps=1), tasks, several)
    assert [each.environment for each in found] == ["plain", "tooled"]
    chats = open_chats(policy, several, None)
    prompts = [chats[each.environment].prompt(each.prompt) for each in found]
    rows = [encode(policy, chats, each) for each in found]
    assert [ids[: len(prompt)] for (ids, _), prompt in zip(rows, prompts, strict=True)] == prompts
    assert ["look" in tokenizer.decode(prompt) for prompt in prompts] == [False, True]
    assert choose_demonstrations(WarmStartConfig(steps=1), tasks[:1], Plain())[0].environment == ""


def test_demonstrations_of_several_environments_come_by_their_shares():
    class Plain(BaseEnv):
        def compute_reward(self, completion, ground_truth):
            return 1.0

    several = Several({"often": Plain(), "seldom": Plain(), "small": Plain()})
    sizes = {"often": 40, "seldom": 40, "small": 2}
    tasks = [
        dataclasses.replace(make_task(f"{name}/{n}", answer="1"), environment=name)
        for name, size in sizes.items()
        for n in range(size)
    ]

    def counts(demonstrations, shares):
        settings = WarmStartConfig(steps=1, demonstrations=demonstrations)
        return Counter(each.environment for each in choose_demonstrations(settings, tasks, several, shares=shares))

    assert counts(16, {"often": 3, "seldom": 1}) == {"often": 12, "seldom": 4}
    # of 20 in thirds of 7, 7 and 6 the small one has two, and nobody takes its place
    assert counts(20, dict.fromkeys(sizes, 1))["small"] == 2
    assert counts(20, dict.fromkeys(sizes, 1)).total() in (15, 16)
    assert counts(1000, {"often": 1, "seldom": 1}) == {"often": 40, "seldom": 40}


def replace_task(environment):
    return dataclasses.replace(make_task(f"{environment}/1", environment=environment))
