"""A model of a folder is compared with itself, and with another model, with examples in the prompt."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.e2e.conftest import TINY
from tests.factories import save_base

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow]


@pytest.fixture(scope="module")
def prompted(finished, make_home):
    """A run from what `finished` trained, whose context is made four times as long: its positions are rotations."""
    (policy,) = (finished[0].folder / ".rlft" / "mlflow-artifacts").rglob("artifacts/policy")
    home = make_home("prompted")
    model = home.folder / "model"
    for part in ("model", "tokenizer"):
        shutil.copytree(policy / part, model, dirs_exist_ok=True)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps(config | {"max_position_embeddings": 128}))
    other = save_base(home.folder / "saved", seed=1, characters="0123456789,= \n", max_position_embeddings=256)
    other.rename(home.folder / "other")
    changes = {
        "policy": {"model": "model"},
        "warm_start": None,
        "training.rounds": 1,
        "controls": ["few_shot", {"model": "other"}],
    }
    options = [part for key, value in changes.items() for part in ("--set", f"{key}={json.dumps(value)}")]
    result = home.rlft("run", str(TINY), *options)
    assert result.code == 0, result.output
    return home, result.summary


@pytest.mark.parametrize("name", ["few_shot", "model"])
def test_the_chosen_prompt_is_an_arm_and_what_was_tried_is_kept(prompted, name):
    home, summary = prompted
    assert set(summary["controls"]) == {"few_shot", "model", "constant"}
    assert {"accuracy", "gate/accuracy", "off_distribution/accuracy"} <= set(summary["controls"][name])
    (file,) = (home.folder / ".rlft" / "mlflow-artifacts").rglob(f"controls/{name}.json")
    report = json.loads(file.read_text())
    assert 0 < report["spent"] <= report["budget"]
    assert any(trial["examples"] and trial["validation"] is not None for trial in report["trials"])
    assert report["chosen"]["validation"] == max(trial["validation"] or 0 for trial in report["trials"])
    (base, rows), (control, same) = home.query(f"""
run = client.get_pipeline_run("{summary["pipeline_run_id"]}")
steps = [run.steps[f"generate_rollouts_{{name}}"] for name in ("base", "{name}_control")]
found = [step.outputs["rollouts"][0].load() for step in steps]
print(json.dumps([[sum(row.prompt_length for row in each.rows), len(each.rows)] for each in found]))
""")
    assert rows == same
    shown = report["examples"]["shown"] if report["examples"] else []
    assert (control > base) == bool(shown)
    if report["chosen"]["form"] != "text":  # a character is a token, and so is the newline after a message
        texts = [message["content"] for one in shown for message in (*one["prompt"], *one["turns"])]
        assert control - base == rows * sum(len(text) + 1 for text in texts)


def test_another_model_is_an_arm_that_is_called_by_its_name(prompted):
    home, summary = prompted
    assert summary["control_model"] == "other"
    assert set(summary["controls"]["model"]) == set(summary["controls"]["few_shot"])
    assert summary["difference_controls"]["model"]["tasks"] == 12
    (file,) = (home.folder / ".rlft" / "mlflow-artifacts").rglob("controls/model.json")
    assert json.loads(file.read_text())["metric"] == "accuracy"
    steps = home.steps(summary["pipeline_run_id"])
    policies = [steps[name]["weights"] for name in ("initialize_policy", "initialize_policy_model_control")]
    assert len(set(policies)) == 2
