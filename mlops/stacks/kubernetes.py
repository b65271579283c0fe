"""The pods that a stack asks of Kubernetes: what a file says of them, checked before anything is registered.

ZenML drops a misspelt setting of a pod, or writes it into the manifest, and warns at most. What depends on the cluster,
`kubectl apply --dry-run=server` says of the pod that `write_pod` writes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from rlft.errors import StackError
from rlft.files import write_file

if TYPE_CHECKING:
    from mlops.stacks.file import StackFile

SETTINGS = ("orchestrator_pod_settings", "pod_settings")
"""The settings of an orchestrator that describe a pod."""
WAY_OUT_OF_PODS = (
    "take it from a secret of the cluster: env_from, or valueFrom: {secretKeyRef: {name: NAME, key: KEY}} of a variable"
)


def write_pod(stack: StackFile, file: Path, image: str) -> None:
    """Write the pod of a run with this image into a file. Raises StackError for a stack that is none of Kubernetes."""
    if stack.orchestrator.flavor != "kubernetes":
        flavor = stack.orchestrator.flavor or "registered already"
        fix = "configs/stacks/kubernetes-gpu.yaml is one of Kubernetes"
        raise StackError(f"its orchestrator is {flavor}, not kubernetes", where=stack.name, fix=fix)
    write_file(file, yaml.safe_dump(pod_manifest(stack, image), sort_keys=False))


def pod_manifest(stack: StackFile, image: str) -> dict[str, Any]:
    """Return the pod in which ZenML's orchestrator begins a run of the pipeline `train`, without what it is told."""
    from kubernetes.client import ApiClient
    from zenml.integrations.kubernetes.flavors.kubernetes_orchestrator_flavor import KubernetesOrchestratorSettings
    from zenml.integrations.kubernetes.manifest_utils import build_pod_manifest
    from zenml.pipelines.dynamic.entrypoint_configuration import DynamicPipelineEntrypointConfiguration as Entry

    config, known = stack.orchestrator.config, KubernetesOrchestratorSettings.model_fields
    settings = KubernetesOrchestratorSettings(**{name: value for name, value in config.items() if name in known})
    pod = build_pod_manifest(
        "rlft", image, Entry.get_entrypoint_command(), [], settings.privileged, settings.orchestrator_pod_settings,
        service_account_name=settings.service_account_name,
        termination_grace_period_seconds=settings.pod_stop_grace_period,
    )  # fmt: skip
    made: Any = ApiClient().sanitize_for_serialization(pod)
    made["metadata"]["namespace"] = config.get("kubernetes_namespace", "zenml")
    return made


def check_pods(stack: StackFile) -> None:
    """Check the names of the settings of pods in a stack's file, and the pod that ZenML makes of them.

    The schemas are those of the newest version of the API that the package `kubernetes-validate` carries. Raises
    StackError, which names the setting, and what ZenML raises for a value that it cannot read.
    """
    from kubernetes.client import V1PodSpec
    from zenml.integrations.kubernetes.pod_settings import KubernetesPodSettings

    for name in SETTINGS:
        settings, where = stack.orchestrator.config.get(name) or {}, f"orchestrator.config.{name}"
        _check_names(settings, KubernetesPodSettings.model_fields, where)
        more = settings.get("additional_pod_spec_args") or {}
        _check_names(more, V1PodSpec.openapi_types, f"{where}.additional_pod_spec_args")
        if "{{" in json.dumps(settings, default=str):
            what = "ZenML fills in none of its secrets in the settings of a pod"
            raise StackError(what, where=where, fix=WAY_OUT_OF_PODS)
    _check_schema(pod_manifest(stack, "IMAGE"))


def _check_names(named: Mapping[str, Any], known: Mapping[str, Any], where: str) -> None:
    if unknown := sorted(set(named) - set(known)):
        has = f"it has: {', '.join(sorted(known))}"
        raise StackError(f"a pod has no setting {', '.join(unknown)}", where=where, fix=has)


def _check_schema(pod: Mapping[str, Any]) -> None:
    import kubernetes_validate

    version = kubernetes_validate.latest_version()
    try:
        kubernetes_validate.validate(dict(pod), version, strict=True)
    except kubernetes_validate.ValidationError as cause:
        fix = "correct what orchestrator.config in the stack's file says there"
        if "securityContext" in cause.path:
            fix += ", and leave container_security_context out, which ZenML 0.98 writes wrongly"
        what = f"Kubernetes {version} would not take the pod of a run: {cause.message}"
        raise StackError(what, where="pod." + ".".join(map(str, cause.path)), fix=fix) from cause
