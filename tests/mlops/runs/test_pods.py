"""Which steps the pod begins again that takes the place of another; tests/e2e ends real processes."""

from types import SimpleNamespace

import pytest
from zenml.config.step_configurations import Step
from zenml.enums import ExecutionStatus
from zenml.execution.pipeline.dynamic import run_context

from mlops.runs.runtime import in_kubernetes, keep_warm, take_over


class Orchestrator:
    run_init_cleanup_at_step_level = True


class Runner:
    """A runner that notes with which retries, and how many of them left, it ran its steps."""

    def __init__(self, **steps: ExecutionStatus) -> None:
        self.ran: list[tuple[str, int | None, int | None]] = []
        self._existing_step_runs = {
            name: SimpleNamespace(status=status, version=version)
            for version, (name, status) in enumerate(steps.items())
        }
        self.orchestrator = Orchestrator()

    def _run_sync_step(self, step, remaining_retries=None):
        retry = step.config.retry
        self.ran.append((step.spec.invocation_id, retry and retry.max_retries, remaining_retries))


@pytest.fixture
def runner(monkeypatch):
    made = Runner(done=ExecutionStatus.COMPLETED, failed=ExecutionStatus.FAILED, cut=ExecutionStatus.RUNNING)
    context = SimpleNamespace(get=lambda: SimpleNamespace(runner=made))
    monkeypatch.setattr(run_context, "DynamicPipelineRunContext", context)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    return made


def step(name: str) -> Step:
    source = "steps.tasks.ingest_tasks"
    return Step.model_validate(
        {"spec": {"source": source, "upstream_steps": [], "invocation_id": name}, "config": {"name": name}}
        | {"step_config_overrides": {"name": name}}
    )


def test_a_step_that_was_being_run_gets_one_more_attempt_and_no_other_step_does(runner):
    take_over()
    assert set(runner._existing_step_runs) == {"done", "failed"}
    for name in ("cut", "new", "cut"):
        runner._run_sync_step(step=step(name), remaining_retries=None)
    # ZenML takes another attempt while the earlier ones are no more than the retries; `cut` is of version 2.
    assert runner.ran == [("cut", 2, 0), ("new", None, None), ("cut", None, None)]


def test_elsewhere_than_in_kubernetes_nothing_is_begun_again(runner, monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST")
    assert not in_kubernetes()
    take_over()
    assert "cut" in runner._existing_step_runs


def test_steps_of_one_process_share_its_state(runner, monkeypatch):
    keep_warm()
    assert Orchestrator.run_init_cleanup_at_step_level is False
    monkeypatch.setattr(Orchestrator, "run_init_cleanup_at_step_level", True)
    monkeypatch.setattr(run_context, "DynamicPipelineRunContext", SimpleNamespace(get=lambda: None))
    keep_warm()  # a step in a process of its own: its pipeline is elsewhere
    take_over()
    assert Orchestrator.run_init_cleanup_at_step_level is True
