"""The files of a version hold what they say, without secrets."""

import json
import math
from dataclasses import replace

import yaml

from rlft.reporting.model_card import version_files
from tests.rlft.reporting.version_facts import CONFIG, make_facts, report


def test_every_file():
    files = version_files(make_facts(audit={"passed": True}))
    assert set(files) == {"context.json", "config.yaml", "lineage.json", "evaluation.json", "README.md", "audit.json"}
    assert json.loads(files["context.json"])["system_prompt"] == "Answer with the city."
    assert yaml.safe_load(files["config.yaml"]) == CONFIG
    assert json.loads(files["evaluation.json"])["trained"]["gate"]["metrics"]["accuracy"]["mean"] == 0.6
    origin = json.loads(files["lineage.json"])
    assert (origin["run"], origin["mlflow_run_id"], origin["round"]) == ("capitals-1", "0123", 3)
    assert origin["tasks"] == {
        "source": "huggingface openai/gsm8k main train",
        "fingerprint": "f00d",
        "splits": {"train": 400, "test": 20},
    }
    assert (origin["tags"], origin["code"]) == ({"team": "a"}, {"commits": {"rlft": "beef"}})
    assert "audit.json" not in version_files(make_facts())


def test_secrets_and_what_is_no_json_stay_out():
    key = "hf_abcdefghijklmnopqrstuvwxyz012345"
    odd = replace(report(), per_task={"accuracy": {"t1": math.nan}}, frequent={"\ud800": 2})
    environment = {"name": "a.py:A", "kwargs": {"api_key": key}}
    facts = make_facts(config={**CONFIG, "environment": environment}, reports={"trained": {"test": odd}})
    files = version_files(facts)
    for text in files.values():
        assert key not in text
        text.encode()  # raises for lone surrogates
    assert yaml.safe_load(files["config.yaml"])["environment"]["kwargs"]["api_key"] == "***"
    assert json.loads(files["evaluation.json"])["trained"]["test"]["per_task"]["accuracy"]["t1"] is None
