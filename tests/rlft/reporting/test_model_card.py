"""The model card is what the Hub reads, whatever stands in it."""

import yaml
from huggingface_hub import ModelCard
from hypothesis import given, settings
from hypothesis import strategies as st

from rlft.reporting.model_card import model_card
from rlft.texts.blocks import Caution, Table
from tests.rlft.reporting.version_facts import CONFIG, make_facts, report

NASTY = "x\n---\nlicense: mit\n# Owned <script>|`````{{ jinja }}"


def body(text):
    return text.split("\n---\n", 1)[1]


def test_the_front_matter():
    data = ModelCard(model_card(make_facts())).data
    assert (data.base_model, data.library_name) == ("Qwen/Qwen2.5-0.5B", "peft")
    assert data.datasets == ["openai/gsm8k"]
    assert "rlft" in data.tags
    assert data.model_name == "capitals"


def test_a_path_of_this_machine_is_no_name_of_the_hub(tmp_path):
    tasks = {**CONFIG["tasks"], "source": "jsonl", "path": "/home/me/rows.jsonl"}
    policy = {"kind": "full", "base_model": str(tmp_path), "round": 1}
    data = ModelCard(model_card(make_facts(policy=policy, config={**CONFIG, "tasks": tasks}))).data
    assert (data.base_model, data.datasets, data.library_name) == (None, None, "transformers")


def test_the_data_of_several_environments_are_all_named():
    sums = {"source": "reasoning_gym", "path": None, "generator": "chain_sum", "off_distribution": None}
    words = {**CONFIG["tasks"], "off_distribution": {"source": "jsonl", "path": "/home/me/harder.jsonl"}}
    tasks = {**CONFIG["tasks"], "source": "environments", "path": None, "members": {"sums": sums, "words": words}}
    trained = {split: report(split) for split in ("test", "off_distribution")}
    facts = make_facts(config={**CONFIG, "tasks": tasks}, reports={"trained": trained})
    data = ModelCard(model_card(facts)).data
    assert data.datasets == ["openai/gsm8k"]


def test_the_body_tells_results_data_reward_limits_and_loading():
    text = body(model_card(make_facts(caveats=["Two tasks are not new."], shown={"tools": [tool("look_up", "Look.")]})))
    titles = [line for line in text.splitlines() if line.startswith("#")]
    assert titles == [
        "# capitals",
        "## Results",
        "### Would something simpler do?",
        "## Decision on promotion",
        "## Data",
        "## Reward",
        "## What it is shown before a task",
        "## Limits",
        "## How to load it",
    ]
    assert "| base model | test | 0.300 | 0.200 to 0.400 | 20 | 0 |" in text
    assert "| this version | gate | 0.600 | 0.500 to 0.700 | 20 | 0 |" in text
    for said in (
        "The best constant answer reaches 10 %.",
        "passes: base",
        "400 train, 20 test",
        "right: paid with weight",
    ):
        assert said in text
    for said in (
        "look\\_up: Look.",
        "Two tasks are not new.",
        "models:/capitals@champion",
    ):
        assert said in text


def tool(name, description):
    return {"type": "function", "function": {"name": name, "description": description, "parameters": {}}}


def test_nothing_that_a_user_or_a_model_wrote_breaks_the_card():
    nasty = make_facts(
        name=NASTY,
        run_name=NASTY,
        policy={"kind": "adapter", "base_model": NASTY, "weights_hash": NASTY},
        shown={"system_prompt": NASTY, "tools": [tool(NASTY, NASTY)], "note": NASTY},
        config={**CONFIG, "environment": {"name": NASTY}, "tasks": {"source": "jsonl", "path": NASTY}},
        source=NASTY,
        reward=[NASTY],
        results=[Caution(NASTY), NASTY, Table(NASTY, (NASTY, NASTY), ((NASTY, NASTY),))],
        simpler=[NASTY],
        reasons=[NASTY],
        caveats=[NASTY],
    )
    card = model_card(nasty)
    data = ModelCard(card).data
    assert data.base_model is None
    outside, fenced_in = list[str](), False
    for line in body(card).splitlines():
        if line.startswith("```"):
            fenced_in = not fenced_in if line.strip("`") in ("", "text", "python") else fenced_in
        elif not fenced_in:
            outside.append(line)
    assert not any("<script>" in line and "\\<script" not in line for line in outside)
    assert sum(line.startswith("# ") for line in outside) == 1


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=60))
def test_the_front_matter_is_yaml_whatever_the_names(name):
    card = model_card(make_facts(name=name or "x", source=name))
    front = yaml.safe_load(card[4:].split("\n---\n")[0])
    assert front["library_name"] == "peft"
    assert ModelCard(card).data.library_name == "peft"
