"""The state that the steps of a pod share; tests/e2e ends real pods."""

from types import SimpleNamespace

from zenml.execution.pipeline.dynamic import run_context

from mlops.runs.runtime import keep_warm


class Orchestrator:
    run_init_cleanup_at_step_level = True


def test_steps_of_one_process_share_its_state(monkeypatch):
    runner = SimpleNamespace(orchestrator=Orchestrator())
    context = SimpleNamespace(get=lambda: SimpleNamespace(runner=runner))
    monkeypatch.setattr(run_context, "DynamicPipelineRunContext", context)
    keep_warm()
    assert Orchestrator.run_init_cleanup_at_step_level is False
    monkeypatch.setattr(Orchestrator, "run_init_cleanup_at_step_level", True)
    monkeypatch.setattr(run_context, "DynamicPipelineRunContext", SimpleNamespace(get=lambda: None))
    keep_warm()  # a step in a process of its own: its pipeline is elsewhere
    assert Orchestrator.run_init_cleanup_at_step_level is True
