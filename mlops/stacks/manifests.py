"""What a stack in Kubernetes asks of its cluster, as manifests: the job of a run, its cache, and Ray's cluster.

The job is made by the code with which ZenML's orchestrator submits one, up to the call of the cluster.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest import mock
from uuid import UUID

import yaml

from mlops.stacks.ray_manifest import RUNS, ray_manifest
from rlft.errors import StackError

if TYPE_CHECKING:
    from mlops.stacks.file import StackFile

NO_ID = UUID(int=0)  # ZenML gives the ids of a run only when there is one
_CLAIM_SIZE = "200Gi"


def write_manifests(stack: StackFile, folder: Path, image: str) -> list[Path]:
    """Write the manifests of a stack into a folder, a file each, and return them. Nothing is asked of a cluster.

    `image` is that of the pods. Raises StackError for a stack that is none of Kubernetes.
    """
    if stack.orchestrator.flavor != "kubernetes":
        flavor = stack.orchestrator.flavor or "registered already"
        fix = "configs/stacks/kubernetes-gpu.yaml is one of Kubernetes"
        raise StackError(f"its orchestrator is {flavor}, not kubernetes", where=stack.name, fix=fix)
    job = job_manifest(stack, image)
    made = {"job": job, "raycluster": ray_manifest(job, image)}
    made |= {f"claim-{name}": claim_manifest(name, stack) for name in _claims(job)}
    made[f"claim-{RUNS}"] = claim_manifest(RUNS, stack, shared=True)
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    for name, manifest in made.items():
        files.append(folder / f"{name}.yaml")
        files[-1].write_text(yaml.safe_dump(manifest, sort_keys=False), encoding="utf-8")
    return files


def job_manifest(stack: StackFile, image: str) -> dict[str, Any]:
    """Return the job that ZenML's orchestrator makes for a run of the pipeline `train`."""
    from kubernetes.client import ApiClient
    from zenml.integrations.kubernetes import kube_utils
    from zenml.integrations.kubernetes.flavors.kubernetes_orchestrator_flavor import KubernetesOrchestratorSettings
    from zenml.pipelines.dynamic.entrypoint_configuration import DynamicPipelineEntrypointConfiguration as Entry

    orchestrator = _orchestrator(stack)
    known = KubernetesOrchestratorSettings.model_fields
    settings = KubernetesOrchestratorSettings(
        **{name: value for name, value in stack.orchestrator.config.items() if name in known}
    )
    run: Any = SimpleNamespace(id=NO_ID, name="RUN")
    snapshot: Any = SimpleNamespace(
        id=NO_ID, project_id=NO_ID, schedule=None, pipeline_configuration=SimpleNamespace(name="train")
    )
    kind = type(orchestrator)
    with (
        mock.patch.object(kind, "get_settings", return_value=settings),
        mock.patch.object(kind, "get_image", return_value=image),
        mock.patch.object(kind, "get_kube_client"),  # of no cluster: these calls would change it
        mock.patch.object(kube_utils, "create_edit_service_account"),
        mock.patch.object(kube_utils, "create_or_update_secret"),
        mock.patch.object(kube_utils, "create_job") as made,
    ):
        orchestrator._submit_orchestrator_job(
            snapshot=snapshot,
            command=Entry.get_entrypoint_command(),
            args=Entry.get_entrypoint_arguments(snapshot_id=NO_ID, run_id=NO_ID),
            environment={"ZENML_STORE_API_TOKEN": "given to each run"},
            placeholder_run=run,
        )
    job: Any = ApiClient().sanitize_for_serialization(made.call_args.kwargs["job_manifest"])
    namespace = stack.orchestrator.config.get("kubernetes_namespace", "zenml")
    job["metadata"]["namespace"] = namespace
    return {"apiVersion": "batch/v1", "kind": "Job", **{name: job[name] for name in ("metadata", "spec")}}


def _orchestrator(stack: StackFile) -> Any:
    from zenml.enums import StackComponentType
    from zenml.integrations.kubernetes.flavors import KubernetesOrchestratorConfig
    from zenml.integrations.kubernetes.orchestrators import KubernetesOrchestrator

    now = datetime.now(UTC)
    return KubernetesOrchestrator(
        name=stack.orchestrator.name,
        id=NO_ID,
        config=KubernetesOrchestratorConfig(**stack.orchestrator.config),
        flavor="kubernetes",
        type=StackComponentType.ORCHESTRATOR,
        user=None,
        created=now,
        updated=now,
    )


def claim_manifest(name: str, stack: StackFile, *, shared: bool = False) -> dict[str, Any]:
    """Return a claim of a disk that one node at a time writes to, or all at once if it is `shared`."""
    namespace = stack.orchestrator.config.get("kubernetes_namespace", "zenml")
    mode = "ReadWriteMany" if shared else "ReadWriteOnce"
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"accessModes": [mode], "resources": {"requests": {"storage": _CLAIM_SIZE}}},
    }


def _claims(job: dict[str, Any]) -> list[str]:
    volumes = job["spec"]["template"]["spec"].get("volumes", [])
    return [claim["claimName"] for each in volumes if (claim := each.get("persistentVolumeClaim"))]
