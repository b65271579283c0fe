"""A policy is made ready for the conversations of one environment, or of several at once."""

import rlft
from rlft.config import HarnessConfig, PolicyConfig
from rlft.environments.contract.base import BaseEnv, prompt_messages
from rlft.environments.contract.several import Several
from rlft.harness.preparing import prepare_policy
from rlft.models.tokens import check_prompts
from tests.factories import make_policy, make_task
from tests.rlft.harness.chat.tokenizers import make_tokenizer


class Plain(BaseEnv):
    """Has no tools."""


class Tooled(BaseEnv):
    """Has a tool, and several turns."""

    @rlft.tool
    def look(self, word: str) -> str:
        """Look a word up."""
        return word


def prepared(environment):
    policy = make_policy()
    policy.tokenizer = make_tokenizer("qwen3")
    return policy, prepare_policy(policy, environment, HarnessConfig(), PolicyConfig(model="m"))


def test_each_environment_describes_its_own_tools():
    policy, prompt = prepared(Several({"plain": Plain(), "tooled": Tooled()}))
    texts = [policy.tokenizer.decode(prompt(make_task(environment=name))) for name in ("plain", "tooled", "plain")]
    assert ["look" in text for text in texts] == [False, True, False]
    _, alone = prepared(Tooled())
    assert prompt(make_task(environment="tooled")) == alone(make_task())
    assert policy.tokenizer.convert_tokens_to_ids("<|im_end|>") in policy.stop_token_ids()


def test_all_share_the_template_that_the_most_demanding_one_needs():
    policy, _ = prepared(Several({"plain": Plain(), "tooled": Tooled()}))
    other, _ = prepared(Tooled())
    assert policy.tokenizer.chat_template == other.tokenizer.chat_template


def test_prompts_are_checked_as_their_own_environment_shows_them():
    several = Several({"plain": Plain(), "tooled": Tooled()})
    policy, prompt = prepared(several)
    tasks = [make_task("a", environment="plain"), make_task("b", environment="tooled")]
    lengths = [len(prompt(task)) for task in tasks]
    found = check_prompts(
        policy.tokenizer,
        [(task.id, prompt_messages(task, several)) for task in tasks],
        max_completion_length=1,
        context_length=lengths[0] + 2,
        encoded=map(prompt, tasks),
    )
    assert lengths[0] + 2 < lengths[1]
    assert found.too_long == ("b",)
