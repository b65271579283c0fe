"""A pod that Kubernetes would not take, or that is other than its file says, is refused with the setting."""

from __future__ import annotations

import sys

import pytest
from zenml.client import Client

from mlops.stacks.file import StackFile, validate_components
from mlops.stacks.pods import check_pods, check_settings_of_pods
from rlft.errors import StackError
from tests.mlops.stacks.test_manifests import USER, stack  # noqa: F401


@pytest.fixture(autouse=True)
def _user(monkeypatch):
    monkeypatch.setattr(Client, "active_user", USER)


def check(stack: StackFile) -> None:  # noqa: F811
    """What a file is asked before and after ZenML has read it."""
    check_settings_of_pods(stack.orchestrator.config)
    check_pods(stack)


def changed(stack: StackFile, setting: str, value: object) -> StackFile:  # noqa: F811
    """A copy of the stack with a setting of its pod: added to a list, put into a section, or new."""
    copy = stack.model_copy(deep=True)
    *sections, name = setting.split(".")
    section = copy.orchestrator.config["orchestrator_pod_settings"]
    for each in sections:
        section = section[each]
    if isinstance(section.get(name), list):
        section[name].append(value)
    else:
        section[name] = value
    return copy


def test_the_shipped_stack_is_taken(stack):  # noqa: F811
    check(stack)


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("node_selector", {"a": "b"}, "a pod has no setting node_selector"),
        ("additional_pod_spec_args.priority_class", "high", "a pod has no setting priority_class"),
        ("additional_pod_spec_args.security_context", {"fsgroup": 1}, "'fsgroup' was unexpected"),
        ("resources.request", {"cpu": "1"}, "'request' was unexpected"),
        ("resources.requests.memoy", "3Gi", "requests: Kubernetes has no resource memoy"),
        ("resources.limits.gpu", "1", "limits: Kubernetes has no resource gpu"),
        ("resources.limits.memory", "64GB", "limits: '64GB' is no amount of memory"),
        ("volumes", {"name": "x", "emptyDr": {}}, "'emptyDr' was unexpected"),
        ("volumes", {"name": "x", "emptyDir": {"sizeLimt": "1Gi"}}, "volumes.2.emptyDir"),
        ("volume_mounts", {"name": "cach", "mountPath": "/x"}, "no volume is named 'cach', which is mounted at /x"),
        ("volume_mounts", {"name": "cache", "mounthPath": "/x"}, "'mountPath' is a required property"),
        ("tolerations", {"kee": "x"}, "'kee' was unexpected"),
        ("env", {"name": "N", "value": 3}, "env.2.value"),
        ("env_from", {"secretRf": {"name": "x"}}, "'secretRf' was unexpected"),
        ("affinity", {"nodeAffinty": {}}, "'nodeAffinty' was unexpected"),
        ("resources.limits.memory", "64K", "limits: '64K' is no amount of memory"),
        ("resources.limits.memory", "-64Gi", "limits: '-64Gi' is no amount of memory"),
        ("resources.limits.memory", "NaN", "limits: 'NaN' is no amount of memory"),
        ("resources.limits.memory", "32Gi", "more memory is requested than the limit allows"),
        ("resources.limits", {"nvidia.com/gpu": "0.5"}, "there is no part of a nvidia.com/gpu"),
        ("resources.limits", {"nvidia.com/gpu": "2"}, "requests of nvidia.com/gpu must be as many as limits"),
        ("resources.limits", {"memory": "64Gi"}, "requests of nvidia.com/gpu must be as many as limits"),
        ("tolerations", {"key": "x", "effect": "NoSchedul"}, "no taint has the effect NoSchedul"),
        ("tolerations", {"key": "x", "operator": "Exist"}, "a toleration has no operator Exist"),
        ("volumes", {"name": "x", "emptyDir": {"medium": "memory"}}, "emptyDir has no medium memory"),
        ("volumes", {"name": "x", "emptyDir": {"sizeLimit": "16GB"}}, "volumes: x: '16GB' is no amount of memory"),
        ("volumes", {"name": "x", "emptyDir": {}, "nfs": {"server": "s", "path": "/"}}, "x has several sources"),
        ("volume_mounts", {"name": "cache", "mountPath": "/dev/shm"}, "two volumes are mounted at /dev/shm"),
        ("env", {"name": "KEY", "value": "{{openai.key}}"}, "ZenML fills in none of its secrets"),
        ("node_selectors", ["gpu"], "node_selectors: a section belongs here, and a list stands there"),
        ("resources", {"requests": ["cpu"]}, "requests: a section belongs here, and a list stands there"),
        ("host_ipc", None, "host_ipc: true or false belongs here, and nothing stands there"),
    ],
)
def test_what_is_misspelt_is_refused(stack, setting, value, said):  # noqa: F811
    wrong = changed(stack, setting, value)
    with pytest.raises(StackError) as refused:
        check(wrong)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("resources.limits.hugepages-2Mi", "100Mi"),
        ("resources.requests.cpu", "500m"),
        ("affinity", {"nodeAffinity": {}}),
        ("volumes", {"name": "x", "configMap": {"name": "y"}}),
        ("additional_pod_spec_args.priority_class_name", "high"),
        ("resources.limits.memory", "1e12"),
        ("resources.limits", {"nvidia.com/gpu": "1", "amd.com/gpu": "2"}),
        ("tolerations", {"operator": "Exists"}),
        ("volumes", {"name": "x", "emptyDir": {"medium": "Memory", "sizeLimit": ".5Gi"}}),
    ],
)
def test_what_is_right_is_taken(stack, setting, value):  # noqa: F811
    check(changed(stack, setting, value))


def test_the_settings_of_the_pods_of_single_steps_are_looked_at_too(stack):  # noqa: F811
    wrong = stack.model_copy(deep=True)
    wrong.orchestrator.config["pod_settings"] = {"node_selector": {}}
    with pytest.raises(StackError, match=r"orchestrator\.config\.pod_settings: a pod has no setting node_selector"):
        check(wrong)


@pytest.mark.parametrize("name", ["volumes", "volume_mounts", "env", "env_from", "tolerations"])
def test_a_list_without_anything_in_it_is_named(stack, name):  # noqa: F811
    wrong = stack.model_copy(deep=True)
    wrong.orchestrator.config["orchestrator_pod_settings"][name] = None
    with pytest.raises(StackError, match=f"{name}: a list belongs here, and nothing stands there"):
        check(wrong)


def test_amounts_of_containers_beside_and_of_single_steps_are_read(stack):  # noqa: F811
    container = {"name": "first", "image": "i", "resources": {"limits": {"memory": "4GB"}}}
    wrong = changed(stack, "additional_pod_spec_args.init_containers", [container])
    with pytest.raises(StackError, match="'4GB' is no amount of memory"):
        check(wrong)
    wrong = stack.model_copy(deep=True)
    wrong.orchestrator.config["pod_settings"] = {"resources": {"limits": {"memory": "4GB"}}}
    with pytest.raises(StackError, match=r"pod_settings\.resources\.limits: '4GB' is no amount of memory"):
        check(wrong)


def test_without_the_packages_of_kubernetes_it_says_what_installs_them(stack, monkeypatch):  # noqa: F811
    monkeypatch.setitem(sys.modules, "kubernetes.client", None)
    others = {"artifact_store", "experiment_tracker", "container_registry", "image_builder"}
    named = {kind: getattr(stack, kind).model_copy(update={"flavor": None}) for kind in others}  # registered already
    with pytest.raises(StackError, match="make setup-kubernetes"):
        validate_components(stack.model_copy(update=named))


def test_without_the_schemas_it_says_what_installs_them(stack, monkeypatch):  # noqa: F811
    monkeypatch.setitem(sys.modules, "kubernetes_validate", None)
    with pytest.raises(StackError, match="make setup-kubernetes"):
        check_pods(stack)
