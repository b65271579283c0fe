"""Whether Kubernetes would take the pods that a stack's file describes, checked before anything is registered.

ZenML drops a misspelt setting of a pod, or writes it into the manifest, and warns at most.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from mlops.stacks.manifests import job_manifest
from rlft.errors import StackError

if TYPE_CHECKING:
    from mlops.stacks.file import StackFile

_SETTINGS = ("orchestrator_pod_settings", "pod_settings")
_RESOURCES = ("cpu", "memory", "ephemeral-storage")  # the API takes others only with a domain: nvidia.com/gpu


def check_pod_settings(stack: StackFile) -> None:
    """Check the job of a run in Kubernetes: ZenML's settings of pods, and what ZenML makes of them.

    The schemas are those of the newest version of the API that the package `kubernetes-validate` carries. Raises
    StackError, which names the setting.
    """
    for name in _SETTINGS:
        _check_settings(stack.orchestrator.config.get(name) or {}, f"orchestrator.config.{name}")
    job = job_manifest(stack, "IMAGE")
    _check_schema(job)
    pod = job["spec"]["template"]["spec"]
    for container in pod["containers"]:
        _check_resources(container.get("resources") or {})
        _check_mounts(container, pod)


def _check_settings(settings: Mapping[str, Any], where: str) -> None:
    from kubernetes.client import V1PodSpec
    from zenml.integrations.kubernetes.pod_settings import KubernetesPodSettings

    _check_names(settings, KubernetesPodSettings.model_fields, where)
    arguments = settings.get("additional_pod_spec_args") or {}
    _check_names(arguments, V1PodSpec.openapi_types, f"{where}.additional_pod_spec_args")


def _check_names(named: Mapping[str, Any], known: Mapping[str, Any], where: str) -> None:
    if unknown := sorted(set(named) - set(known)):
        has = f"it has: {', '.join(sorted(known))}"
        raise StackError(f"a pod has no setting {', '.join(unknown)}", where=where, fix=has)


def _check_schema(job: Mapping[str, Any]) -> None:
    try:
        import kubernetes_validate
    except ImportError:
        what = "the schemas of Kubernetes' API are not installed"
        raise StackError(what, where="kubernetes-validate", fix="make setup-kubernetes") from None

    version = kubernetes_validate.latest_version()
    try:
        kubernetes_validate.validate(dict(job), version, strict=True)
    except kubernetes_validate.ValidationError as cause:
        raise StackError(
            f"Kubernetes {version} would not take the job of a run: {cause.message}",
            where="job." + ".".join(map(str, cause.path)),
            fix="correct what orchestrator.config in the stack's file says there",
        ) from cause


def _check_resources(resources: Mapping[str, Mapping[str, Any]]) -> None:
    from kubernetes.utils.quantity import parse_quantity

    for kind, name, amount in _amounts(resources):
        where = f"orchestrator.config.orchestrator_pod_settings.resources.{kind}"
        if "/" not in name and name not in _RESOURCES and not name.startswith("hugepages-"):
            has = f"it has {', '.join(_RESOURCES)}, and devices with their domain, such as nvidia.com/gpu"
            raise StackError(f"Kubernetes has no resource {name}", where=where, fix=has)
        try:
            parse_quantity(amount)
        except ValueError:
            fix = 'write it as Kubernetes does: "8", 500m, 64Gi'
            raise StackError(f"{amount!r} is no amount of {name}", where=where, fix=fix) from None


def _amounts(resources: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str, Any]]:
    for kind in ("requests", "limits"):
        yield from ((kind, name, amount) for name, amount in (resources.get(kind) or {}).items())


def _check_mounts(container: Mapping[str, Any], pod: Mapping[str, Any]) -> None:
    there = {volume["name"] for volume in pod.get("volumes") or []}
    for mount in container.get("volumeMounts") or []:
        if mount["name"] not in there:
            raise StackError(
                f"no volume is named {mount['name']!r}, which is mounted at {mount['mountPath']}",
                where="orchestrator.config.orchestrator_pod_settings.volume_mounts",
                fix=f"name one of volumes: {', '.join(sorted(there)) or 'there is none'}",
            )
