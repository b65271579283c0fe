"""What a stack asks of a cluster, checked against the schemas of Kubernetes' API, and KubeRay's where it is used."""

from __future__ import annotations

import re

import jsonschema
import kubernetes_validate
import pytest
import yaml
from zenml.client import Client

from mlops.stacks.file import StackFile, read_stack_file
from mlops.stacks.manifests import job_manifest, write_manifests
from rlft.errors import StackError
from tests.e2e.conftest import ROOT

VERSIONS = ("1.30", "1.37")  # ZenML's failure policy is of 1.26 and stable since 1.31
IMAGE = "registry.example/rlft:1"
STACK = ROOT / "configs" / "stacks" / "kubernetes-gpu.yaml"


@pytest.fixture(scope="module")
def stack() -> StackFile:
    with pytest.MonkeyPatch.context() as variables:
        for name in ("KUBERNETES_CONTEXT", "ARTIFACTS_PATH", "IMAGE_REGISTRY", "MLFLOW_URI"):
            variables.setenv(f"RLFT_{name}", "value")
        return read_stack_file(STACK)


@pytest.fixture(scope="module")
def made(stack, tmp_path_factory) -> dict[str, dict]:
    folder = tmp_path_factory.mktemp("manifests") / "made"
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(Client, "active_user", USER)
        files = write_manifests(stack, folder, IMAGE)
    return {file.stem: yaml.safe_load(file.read_text()) for file in files}


class User:
    id = "00000000-0000-0000-0000-000000000001"
    oidc_claims: dict[str, int] = {}  # noqa: RUF012


USER = User()


@pytest.mark.parametrize("version", VERSIONS)
def test_all_are_as_the_api_takes_them(made, version):
    assert set(made) == {"job", "raycluster", "claim-rlft-cache", "claim-rlft-runs"}
    for name in ("job", "claim-rlft-cache", "claim-rlft-runs"):
        kubernetes_validate.validate(made[name], version, strict=True)
    for pod in pods_of_ray(made):
        kubernetes_validate.validate({"apiVersion": "v1", "kind": "Pod", **pod}, version, strict=True)


def test_a_setting_that_the_api_does_not_know_is_found(made):
    wrong = yaml.safe_load(yaml.safe_dump(made["job"]))
    wrong["spec"]["template"]["spec"]["nodeSelectors"] = {}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[-1], strict=True)


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


def test_rays_cluster_is_as_kuberay_takes_it(made):
    cluster = made["raycluster"]
    jsonschema.validate(cluster, RAY_CLUSTER)
    assert cluster["spec"]["authOptions"] == {"mode": "token"}
    assert tuple(map(int, cluster["spec"]["rayVersion"].split("."))) >= (2, 52, 0)
    cluster = yaml.safe_load(yaml.safe_dump(cluster))
    cluster["spec"]["headGroupSpec"]["rayStartParams"]["num-cpus"] = 0  # a text there, as KubeRay makes options of it
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(cluster, RAY_CLUSTER)


def test_rays_pods_are_asked_by_rays_own_program_as_the_image_has_no_other(made):
    for pod in pods_of_ray(made):
        [container] = pod["spec"]["containers"]
        for probe in ("readinessProbe", "livenessProbe"):
            assert container[probe]["exec"]["command"] == ["ray", "health-check"]
            assert container[probe]["timeoutSeconds"] < container[probe]["periodSeconds"]


def pods_of_ray(made) -> list[dict]:
    spec = made["raycluster"]["spec"]
    return [spec["headGroupSpec"]["template"], *(group["template"] for group in spec["workerGroupSpecs"])]


def test_the_pod_of_a_run_has_the_gpu_its_memory_and_no_secret_but_by_reference(made, stack):
    pod = made["job"]["spec"]["template"]["spec"]
    [main] = pod["containers"]
    assert (main["image"], main["command"]) == (IMAGE, ["python", "-m", "zenml.entrypoints.entrypoint"])
    assert main["resources"]["limits"] == {"memory": "64Gi", "nvidia.com/gpu": "1"}
    assert pod["nodeSelector"] == {"nvidia.com/gpu.present": "true"}
    assert [each["key"] for each in pod["tolerations"]] == ["nvidia.com/gpu"]
    mounted = {mount["mountPath"]: mount["name"] for mount in main["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert volumes[mounted["/dev/shm"]]["emptyDir"] == {"medium": "Memory", "sizeLimit": "16Gi"}
    assert volumes[mounted["/cache"]]["persistentVolumeClaim"] == {
        "claimName": made["claim-rlft-cache"]["metadata"]["name"]
    }
    variables = {each["name"]: each for each in main["env"]}
    assert "secretKeyRef" in variables["ZENML_STORE_API_TOKEN"]["valueFrom"]
    assert main["envFrom"] == [{"secretRef": {"name": "rlft", "optional": True}}]
    assert "given to each run" not in yaml.safe_dump(made)


def test_a_pod_that_is_taken_away_is_replaced_and_a_run_that_has_failed_is_not(made):
    spec = made["job"]["spec"]
    ignore, fail, count = spec["podFailurePolicy"]["rules"]
    assert (ignore["action"], ignore["onPodConditions"][0]["type"]) == ("Ignore", "DisruptionTarget")
    assert (fail["action"], fail["onExitCodes"]["values"]) == ("FailJob", [45])  # ZenML's for a run that has failed
    assert (count["action"], spec["backoffLimit"]) == ("Count", 3)  # SIGTERM's 143, say
    assert spec["template"]["spec"]["restartPolicy"] == "Never"  # what such a policy asks for
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] == 60


def test_rays_pods_are_like_that_of_a_run_and_ray_hands_out_nothing_of_the_head(made):
    head, worker = (pod["spec"] for pod in pods_of_ray(made))
    job = made["job"]["spec"]["template"]["spec"]
    for pod in (head, worker):
        assert pod["containers"][0]["resources"] == job["containers"][0]["resources"]
        assert (pod["nodeSelector"], pod["tolerations"]) == (job["nodeSelector"], job["tolerations"])
        assert pod["containers"][0]["image"] == IMAGE
    version = (ROOT / "requirements" / "ray.txt").read_text().partition("ray==")[2].split()[0]
    assert made["raycluster"]["spec"]["rayVersion"] == version
    started = made["raycluster"]["spec"]["headGroupSpec"]["rayStartParams"]
    assert started == {"dashboard-host": "127.0.0.1", "num-cpus": "0", "num-gpus": "0"}


def test_rays_pods_share_code_home_and_models_on_a_disk_that_all_may_write_to(made):
    claim = made["claim-rlft-runs"]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    assert claim["metadata"]["namespace"] == made["raycluster"]["metadata"]["namespace"]
    for pod in pods_of_ray(made):
        [container] = pod["spec"]["containers"]
        volumes = {volume["name"]: volume for volume in pod["spec"]["volumes"]}
        mounted = {mount["mountPath"]: volumes[mount["name"]] for mount in container["volumeMounts"]}
        assert set(mounted) == {"/dev/shm", "/runs"}  # not the cache, which one node at a time writes to
        assert mounted["/runs"]["persistentVolumeClaim"] == {"claimName": claim["metadata"]["name"]}
        variables = {each["name"]: each["value"] for each in container["env"]}
        assert set(variables) == {"PYTHONPATH", "RLFT_HOME", "HF_HOME"}
        assert all(value.startswith("/runs/") for value in variables.values())


@pytest.mark.parametrize("version", VERSIONS)
def test_what_the_stacks_file_says_of_users_and_system_calls_reaches_the_pods(stack, version, monkeypatch):
    comment = " ".join(line for line in STACK.read_text().splitlines() if "runAsNonRoot" in line or "seccomp" in line)
    assert "runAsNonRoot: true" in comment
    assert "seccompProfile: {type: RuntimeDefault}" in comment
    named = {"fsGroup": 1000, "runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    changed = stack.model_copy(deep=True)
    pod = changed.orchestrator.config["orchestrator_pod_settings"]
    pod["additional_pod_spec_args"] = {"security_context": named}
    monkeypatch.setattr(Client, "active_user", USER)
    job = job_manifest(changed, IMAGE)
    kubernetes_validate.validate(job, version, strict=True)
    assert job["spec"]["template"]["spec"]["securityContext"] == named


def test_rays_pods_are_not_root_as_the_user_of_the_image(made):
    assert re.search(r"^USER 1000$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    for pod in pods_of_ray(made):
        assert pod["spec"]["securityContext"] == {"fsGroup": 1000, "runAsNonRoot": True}


def test_rays_pods_have_no_token_of_kubernetes(made):
    assert [pod["spec"]["automountServiceAccountToken"] for pod in pods_of_ray(made)] == [False, False]


def test_a_stack_of_this_machine_has_none(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    local = read_stack_file(ROOT / "configs" / "stacks" / "local.yaml")
    with pytest.raises(StackError, match="its orchestrator is registered already, not kubernetes"):
        write_manifests(local, tmp_path, IMAGE)
