"""Whether Kubernetes would take the pods that a stack's file describes, checked before anything is registered.

ZenML drops a misspelt setting of a pod, or writes it into the manifest, and warns at most.
"""

from __future__ import annotations

import typing
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mlops.stacks.in_the_clear import WAY_OUT_OF_PODS
from mlops.stacks.manifests import job_manifest
from mlops.stacks.pod_rules import (
    SETTINGS,
    check_mounts,
    check_resources,
    check_tolerations,
    check_volumes,
    texts_of,
)
from rlft.errors import StackError

if TYPE_CHECKING:
    from mlops.stacks.file import StackFile

_KINDS = {dict: "a section", list: "a list", str: "a text", bool: "true or false"}


def check_settings_of_pods(config: Mapping[str, Any]) -> None:
    """Check the settings of pods in an orchestrator's config, before ZenML reads them.

    Raises StackError for a setting that a pod does not have, for one of another kind, and for a reference to a secret
    of ZenML, which fills none in there.
    """
    for name in SETTINGS:
        if config.get(name) is not None:
            _check_settings(config[name], f"orchestrator.config.{name}")


def check_pods(stack: StackFile) -> None:
    """Check the job of a run in Kubernetes that ZenML makes of a stack, and the pods of single steps.

    The schemas are those of the newest version of the API that the package `kubernetes-validate` carries. Raises
    StackError, which names the setting.
    """
    job = job_manifest(stack, "IMAGE")
    _check_schema(job)
    where, pod = "orchestrator.config.orchestrator_pod_settings", job["spec"]["template"]["spec"]
    volumes = pod.get("volumes") or []
    check_volumes(volumes, f"{where}.volumes")
    check_tolerations(pod.get("tolerations") or [], f"{where}.tolerations")
    for container in [*(pod.get("initContainers") or []), *pod["containers"]]:
        check_resources(container.get("resources") or {}, f"{where}.resources")
        check_mounts(container.get("volumeMounts") or [], volumes, f"{where}.volume_mounts")
    if of_steps := stack.orchestrator.config.get("pod_settings"):
        check_resources(of_steps.get("resources") or {}, "orchestrator.config.pod_settings.resources")


def _check_settings(settings: Any, where: str) -> None:
    from kubernetes.client import V1PodSpec
    from zenml.integrations.kubernetes.pod_settings import KubernetesPodSettings

    fields = KubernetesPodSettings.model_fields
    _check_kind(settings, dict, where)
    _check_names(settings, fields, where)
    for name, value in settings.items():
        _check_kind(value, fields[name].annotation, f"{where}.{name}")
    for name, value in (settings.get("resources") or {}).items():
        _check_kind(value, dict, f"{where}.resources.{name}")
    _check_names(
        settings.get("additional_pod_spec_args") or {}, V1PodSpec.openapi_types, f"{where}.additional_pod_spec_args"
    )
    if any("{{" in text for text in texts_of(settings)):
        what = "ZenML fills in none of its secrets in the settings of a pod"
        raise StackError(what, where=where, fix=WAY_OUT_OF_PODS)


def _check_kind(value: Any, annotation: Any, where: str) -> None:
    """Raise StackError if a list, a section or a text stands where another of them belongs, or nothing does."""
    kind = typing.get_origin(annotation) or annotation
    if kind in _KINDS and not isinstance(value, kind):
        fix = f"write {_KINDS[kind]}" + (" in quotes" if isinstance(value, int | float) and kind is str else "")
        found = "nothing" if value is None else _KINDS.get(type(value), "a number")
        raise StackError(
            f"{_KINDS[kind]} belongs here, and {found} stands there", where=where, fix=f"{fix}, or leave it out"
        )
    if kind is dict and any(not isinstance(key, str) for key in value):
        raise StackError("a name here is no text", where=where, fix="put it in quotes")


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
            fix="correct what orchestrator.config in the stack's file says there"
            + (
                ", and leave container_security_context out, which ZenML 0.98 writes wrongly"
                if "securityContext" in cause.path
                else ""
            ),
        ) from cause
