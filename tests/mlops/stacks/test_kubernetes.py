"""The pod of a run, checked against Kubernetes' schemas; one that is other than its file says is refused by setting.

The shipped manifests are checked, too, and Ray's cluster against KubeRay's definition.
"""

from __future__ import annotations

import re
import sys

import jsonschema
import kubernetes_validate
import pytest
import yaml

from mlops.stacks.file import ComponentFile, StackFile, read_stack_file, validate_components
from mlops.stacks.kubernetes import check_pods, pod_manifest, write_pod
from rlft.errors import StackError
from tests.e2e.conftest import ROOT

VERSIONS = ("1.30", "1.37")
IMAGE = "registry.example/rlft:1"
STACK = ROOT / "configs" / "stacks" / "kubernetes-gpu.yaml"
[CACHE] = yaml.safe_load_all((ROOT / "configs" / "kubernetes" / "cache.yaml").read_text())
RUNS, RAY = yaml.safe_load_all((ROOT / "configs" / "kubernetes" / "ray.yaml").read_text())
RAYS_PODS = [RAY["spec"]["headGroupSpec"]["template"], RAY["spec"]["workerGroupSpecs"][0]["template"]]


@pytest.fixture(scope="module")
def stack() -> StackFile:
    with pytest.MonkeyPatch.context() as variables:
        for name in ("KUBERNETES_CONTEXT", "ARTIFACTS_PATH", "IMAGE_REGISTRY", "MLFLOW_URI"):
            variables.setenv(f"RLFT_{name}", "value")
        return read_stack_file(STACK)


@pytest.fixture(scope="module")
def pod(stack, tmp_path_factory) -> dict:
    write_pod(stack, file := tmp_path_factory.mktemp("made") / "pod.yaml", IMAGE)
    return yaml.safe_load(file.read_text())


@pytest.mark.parametrize("version", VERSIONS)
def test_all_are_as_the_api_takes_them(pod, version):
    for manifest in (pod, CACHE, RUNS, *({"apiVersion": "v1", "kind": "Pod", **each} for each in RAYS_PODS)):
        kubernetes_validate.validate(manifest, version, strict=True)


def fields(required: dict, optional: dict | None = None) -> dict:
    """The schema of an object that has these fields and no others; pods are checked by Kubernetes' own."""
    properties = required | (optional or {})
    return {
        "type": "object",
        "properties": properties,
        "required": list(required),
        "additionalProperties": False,
    }


# Names, types and what is required of fields in KubeRay's definition of a RayCluster (Apache-2.0), of those that are
# written: github.com/ray-project/kuberay, helm-chart/kuberay-operator/crds/ray.io_rayclusters.yaml at 017710c, and
# ray-operator/apis/ray/v1/raycluster_types.go at 3275ee0. `authOptions` came with KubeRay 1.5.1, and asks for a
# rayVersion of 2.52 or newer.
TEXT, COUNT, POD = {"type": "string"}, {"type": "integer"}, {"type": "object"}
PARAMETERS = {"type": "object", "additionalProperties": TEXT}
GROUP = {"groupName": TEXT, "minReplicas": COUNT, "maxReplicas": COUNT, "rayStartParams": PARAMETERS, "template": POD}
RAY_CLUSTER = fields(
    {
        "apiVersion": {"const": "ray.io/v1"},
        "kind": {"const": "RayCluster"},
        "metadata": fields({"name": TEXT, "namespace": TEXT}),
        "spec": fields(
            {"headGroupSpec": fields({"rayStartParams": PARAMETERS, "template": POD})},
            {
                "rayVersion": TEXT,
                "authOptions": fields({}, {"mode": {"enum": ["disabled", "token"]}}),
                "workerGroupSpecs": {"type": "array", "items": fields(GROUP, {"replicas": COUNT})},
            },
        ),
    }
)


def test_rays_cluster_is_as_kuberay_takes_it_and_of_the_pinned_version():
    jsonschema.validate(RAY, RAY_CLUSTER)
    version = (ROOT / "requirements" / "ray.txt").read_text().partition("ray==")[2].split()[0]
    assert RAY["spec"]["rayVersion"] == version
    wrong = yaml.safe_load(yaml.safe_dump(RAY))
    wrong["spec"]["headGroupSpec"]["rayStartParams"]["num-cpus"] = 0  # a text there, as KubeRay makes options of it
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, RAY_CLUSTER)


def test_the_pod_of_a_run_has_the_gpu_its_memory_and_no_secret_but_by_reference(pod):
    spec = pod["spec"]
    [main] = spec["containers"]
    assert (main["image"], main["command"]) == (IMAGE, ["python", "-m", "zenml.entrypoints.entrypoint"])
    assert main["resources"]["limits"] == {"memory": "64Gi", "nvidia.com/gpu": "1"}
    assert spec["nodeSelector"] == {"nvidia.com/gpu.present": "true"}
    assert [each["key"] for each in spec["tolerations"]] == ["nvidia.com/gpu"]
    mounted = {mount["mountPath"]: mount["name"] for mount in main["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    assert volumes[mounted["/dev/shm"]]["emptyDir"] == {"medium": "Memory", "sizeLimit": "16Gi"}
    assert volumes[mounted["/cache"]]["persistentVolumeClaim"] == {"claimName": CACHE["metadata"]["name"]}
    assert main["envFrom"] == [{"secretRef": {"name": "rlft", "optional": True}}]
    assert spec["terminationGracePeriodSeconds"] == 60
    assert pod["metadata"]["namespace"] == CACHE["metadata"]["namespace"]


def test_rays_pods_are_like_that_of_a_run_and_ray_hands_out_nothing_of_the_head(pod):
    run, head = pod["spec"], RAYS_PODS[0]["spec"]
    assert RAYS_PODS[0] == RAYS_PODS[1]
    assert head["containers"][0]["resources"] == run["containers"][0]["resources"]
    assert (head["nodeSelector"], head["tolerations"]) == (run["nodeSelector"], run["tolerations"])
    started = RAY["spec"]["headGroupSpec"]["rayStartParams"]
    assert started == {"dashboard-host": "127.0.0.1", "num-cpus": "0", "num-gpus": "0"}


def test_rays_pods_share_code_home_and_models_on_a_disk_that_all_may_write_to():
    assert RUNS["spec"]["accessModes"] == ["ReadWriteMany"]
    assert RUNS["metadata"]["namespace"] == RAY["metadata"]["namespace"]
    [container] = RAYS_PODS[0]["spec"]["containers"]
    volumes = {volume["name"]: volume for volume in RAYS_PODS[0]["spec"]["volumes"]}
    mounted = {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"]}
    assert set(mounted) == {"/dev/shm", "/runs"}  # not the cache, which one node at a time writes to
    assert mounted["/runs"]["persistentVolumeClaim"] == {"claimName": RUNS["metadata"]["name"]}
    variables = {each["name"]: each["value"] for each in container["env"]}
    assert set(variables) == {"PYTHONPATH", "RLFT_HOME", "HF_HOME"}
    assert all(value.startswith("/runs/") for value in variables.values())


def test_rays_pods_are_not_root_and_have_no_token_of_kubernetes():
    assert re.search(r"^USER 1000$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert RAYS_PODS[0]["spec"]["securityContext"] == {"fsGroup": 1000, "runAsNonRoot": True}
    assert RAYS_PODS[0]["spec"]["automountServiceAccountToken"] is False


@pytest.mark.parametrize("version", VERSIONS)
def test_what_the_stacks_file_says_of_users_and_system_calls_reaches_the_pods(stack, version):
    comment = " ".join(line for line in STACK.read_text().splitlines() if "runAsNonRoot" in line or "seccomp" in line)
    assert "runAsNonRoot: true" in comment
    assert "seccompProfile: {type: RuntimeDefault}" in comment
    named = {"fsGroup": 1000, "runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    other = stack.model_copy(deep=True)
    other.orchestrator.config["orchestrator_pod_settings"]["additional_pod_spec_args"] = {"security_context": named}
    made = pod_manifest(other, IMAGE)
    kubernetes_validate.validate(made, version, strict=True)
    assert made["spec"]["securityContext"] == named


def test_a_stack_of_this_machine_has_none(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    local = read_stack_file(ROOT / "configs" / "stacks" / "local.yaml")
    with pytest.raises(StackError, match="its orchestrator is registered already, not kubernetes"):
        write_pod(local, tmp_path / "pod.yaml", IMAGE)


def changed(stack: StackFile, setting: str, value: object) -> StackFile:
    """A copy of the stack with a setting of its pod: added to a list, put into a section, or new."""
    copy = stack.model_copy(deep=True)
    *sections, name = setting.split(".")
    section = copy.orchestrator.config["orchestrator_pod_settings"]
    for each in sections:
        section = section[each]
    if isinstance(section.get(name), list) and value is not None:
        section[name].append(value)
    else:
        section[name] = value
    return copy


OTHERS = ("artifact_store", "experiment_tracker", "container_registry", "image_builder")
REGISTERED = {kind: ComponentFile(name="there-already") for kind in OTHERS}


def test_the_shipped_stack_is_taken(stack):
    check_pods(stack)


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("node_selector", {"a": "b"}, "a pod has no setting node_selector"),
        ("additional_pod_spec_args.priority_class", "high", "a pod has no setting priority_class"),
        ("additional_pod_spec_args.security_context", {"fsgroup": 1}, "'fsgroup' was unexpected"),
        ("resources.request", {"cpu": "1"}, "'request' was unexpected"),
        ("volumes", {"name": "x", "emptyDr": {}}, "'emptyDr' was unexpected"),
        ("volumes", {"name": "x", "emptyDir": {"sizeLimt": "1Gi"}}, "volumes.2.emptyDir"),
        ("volume_mounts", {"name": "cache", "mounthPath": "/x"}, "'mountPath' is a required property"),
        ("tolerations", {"kee": "x"}, "'kee' was unexpected"),
        ("env", {"name": "N", "value": 3}, "env.2.value"),
        ("env_from", {"secretRf": {"name": "x"}}, "'secretRf' was unexpected"),
        ("affinity", {"nodeAffinty": {}}, "'nodeAffinty' was unexpected"),
        ("env", {"name": "KEY", "value": "{{openai.key}}"}, "ZenML fills in none of its secrets"),
        ("node_selectors", ["gpu"], "node_selectors"),
        ("resources", {"requests": ["cpu"]}, "orchestrator_pod_settings.resource"),
        ("host_ipc", None, "host_ipc"),
        ("volumes", None, "none is left empty"),
    ],
)
def test_what_is_misspelt_is_refused(stack, setting, value, said):
    wrong = changed(stack, setting, value).model_copy(update=REGISTERED)
    with pytest.raises(StackError) as refused:
        validate_components(wrong)
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
def test_what_is_right_is_taken(stack, setting, value):
    check_pods(changed(stack, setting, value))


def test_the_settings_of_the_pods_of_single_steps_are_looked_at_too(stack):
    wrong = stack.model_copy(deep=True)
    wrong.orchestrator.config["pod_settings"] = {"node_selector": {}}
    with pytest.raises(StackError, match=r"orchestrator\.config\.pod_settings: a pod has no setting node_selector"):
        check_pods(wrong)


@pytest.mark.parametrize("package", ["kubernetes.client", "kubernetes_validate"])
def test_without_its_packages_it_says_what_installs_them(stack, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(StackError, match="make setup-kubernetes"):
        validate_components(stack.model_copy(update=REGISTERED))
