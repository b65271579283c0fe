"""A model of a folder is compared with itself with examples in the prompt."""

from __future__ import annotations

import json
import shutil

import pytest

from tests.e2e.conftest import TINY

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
    changes = {
        "policy": {"model": "model"},
        "warm_start": None,
        "training.rounds": 1,
        "controls": ["few_shot"],
    }
    options = [part for key, value in changes.items() for part in ("--set", f"{key}={json.dumps(value)}")]
    result = home.rlft("run", str(TINY), *options)
    assert result.code == 0, result.output
    return home, result.summary


def test_the_chosen_prompt_is_an_arm_and_what_was_tried_is_kept(prompted):
    home, summary = prompted
    assert set(summary["controls"]) == {"few_shot", "constant"}
    assert {"accuracy", "gate/accuracy", "off_distribution/accuracy"} <= set(summary["controls"]["few_shot"])
    (file,) = (home.folder / ".rlft" / "mlflow-artifacts").rglob("controls/few_shot.json")
    report = json.loads(file.read_text())
    assert 0 < report["spent"] <= report["budget"]
    assert any(trial["examples"] and trial["validation"] is not None for trial in report["trials"])
    assert report["chosen"]["validation"] == max(trial["validation"] or 0 for trial in report["trials"])
    tokens = home.query(f"""
run = client.get_pipeline_run("{summary["pipeline_run_id"]}")
steps = [run.steps[f"generate_rollouts_{{name}}"] for name in ("base", "few_shot_control")]
found = [step.outputs["rollouts"][0].load() for step in steps]
print(json.dumps([[sum(row.prompt_length for row in each.rows), len(each.rows)] for each in found]))
""")
    (base, rows), (control, same) = tokens
    assert rows == same
    # One token for each character, the newlines between messages included.
    shown = report["examples"]["shown"] if report["examples"] else []
    if report["chosen"]["form"] == "turns":
        texts = [message["content"] for one in shown for message in (*one["prompt"], *one["turns"])]
        assert control - base == rows * sum(len(text) + 1 for text in texts)
    assert (control > base) == bool(shown)
