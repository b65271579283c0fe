"""The pipeline with vLLM in its process: every round proves its weights."""

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


def test_every_round_proves_its_weights_and_reports_the_engine(make_home):
    need_vllm()
    home = make_home("vllm")
    result = home.rlft("run", str(TINY), *VLLM)
    assert result.code == 0, result.output
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
