"""The pipeline with vLLM in its process: killed while vLLM samples and resumed; metrics of every round."""

from __future__ import annotations

import pytest

from tests.e2e.conftest import TINY
from tests.needs import need_vllm

pytestmark = [pytest.mark.timeout(1200), pytest.mark.slow]
SETTINGS = (
    "rollout.engine=vllm",
    "rollout.vllm.cache_gib=0.1",
    "policy.from_scratch.num_attention_heads=1",  # on a CPU vLLM takes heads of 32 and more
    "training.rounds=2",
)
VLLM = tuple(part for setting in SETTINGS for part in ("--set", setting))


@pytest.fixture(scope="module")
def with_vllm(make_home):
    """A run that was left alone."""
    need_vllm()
    home = make_home("vllm")
    result = home.rlft("run", str(TINY), *VLLM)
    assert result.code == 0, result.output
    return home, result


def policies(home, result):
    found = home.steps(result.summary["pipeline_run_id"])
    return [found[f"train_grpo_r{number:03d}"]["outputs"]["policy"] for number in range(2)]


def test_a_run_killed_while_vllm_samples_ends_with_the_same_bytes(with_vllm, make_home):
    whole_home, whole = with_vllm
    home = make_home("vllm-killed")
    # canaries, baseline, validation, r000; then the cache is warmed, canaries are asked, and r001 dies
    killed = home.rlft("run", str(TINY), *VLLM, kill_at="rlft.engines.vllm_engine:VllmEngine._sample:7")
    assert killed.code == -9, killed.output
    (run_id,) = [file.name.split(".")[0] for file in (home.folder / ".rlft" / "runs").glob("*.process.json")]
    resumed = home.rlft("resume", run_id)
    assert resumed.code == 0, resumed.output
    assert policies(home, resumed) == policies(whole_home, whole)
    assert resumed.summary["final"] == whole.summary["final"]


def test_every_round_proves_its_weights_and_reports_the_engine(with_vllm):
    home, _ = with_vllm
    curves = home.query("""
run = mlflow_client.search_runs([mlflow_client.get_experiment_by_name("tiny").experiment_id])[0].info.run_id
names = ["engine/canary_logp_difference", "engine/push_seconds", "sampling/sampling_logp_difference/max",
         "sampling/importance_sampling_ratio/mean"]
print(json.dumps({name: [m.value for m in mlflow_client.get_metric_history(run, name)] for name in names}))
""")
    assert [len(values) for values in curves.values()] == [2, 2, 2, 2]
    assert all(0 < value < 1e-4 for value in curves["engine/canary_logp_difference"])
    assert all(0 < value < 1e-4 for value in curves["sampling/sampling_logp_difference/max"])
    assert curves["sampling/importance_sampling_ratio/mean"] == pytest.approx([1, 1], abs=1e-4)
