"""The cluster of KubeRay on whose pods a run trains and samples; the run itself is started on its head."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

RUNS = "rlft-runs"
"""The claim that all pods of the cluster share."""
_RAY_VERSION = "2.60.0"
_PLACE = "/runs"
# The image holds no code. Policies are handed on through the home, and base models are read by all pods.
_VARIABLES = {"PYTHONPATH": f"{_PLACE}/rlft", "RLFT_HOME": f"{_PLACE}/home", "HF_HOME": f"{_PLACE}/huggingface"}
# KubeRay's own probes ask Ray's dashboard by wget, and the image has neither. Python takes seconds to start.
_PROBE = {"exec": {"command": ["ray", "health-check"]}, "periodSeconds": 30, "timeoutSeconds": 20}
_PROBES = {
    "readinessProbe": {**_PROBE, "failureThreshold": 10},
    "livenessProbe": {**_PROBE, "failureThreshold": 20, "initialDelaySeconds": 60},
}


def ray_manifest(job: dict[str, Any], image: str) -> dict[str, Any]:
    """Return a cluster of KubeRay with two workers, whose pods are like that of the job and run Ray's command.

    Ray hands out nothing of the head: its GPU is for the process of the run. Ray's token is a secret that KubeRay makes
    from version 1.5.1 on. The claims of the job are left out, as pods of different nodes cannot share them; all pods
    have `RUNS` at `/runs`, with the clone of rlft and the home.
    """
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": {"name": "rlft", "namespace": job["metadata"]["namespace"]},
        "spec": {
            "rayVersion": _RAY_VERSION,
            "authOptions": {"mode": "token"},
            "headGroupSpec": {
                "rayStartParams": {"dashboard-host": "127.0.0.1", "num-cpus": "0", "num-gpus": "0"},
                "template": _pod(job, image, "ray-head"),
            },
            "workerGroupSpecs": [
                {
                    "groupName": "workers",
                    "replicas": 2,
                    "minReplicas": 0,
                    "maxReplicas": 100,
                    "rayStartParams": {},
                    "template": _pod(job, image, "ray-worker"),
                }
            ],
        },
    }


def _pod(job: dict[str, Any], image: str, name: str) -> dict[str, Any]:
    spec = deepcopy(job["spec"]["template"]["spec"])
    own = [volume for volume in spec.get("volumes", []) if "persistentVolumeClaim" not in volume]
    [container] = spec["containers"]
    mounts = [mount for mount in container.get("volumeMounts", []) if mount["name"] in {each["name"] for each in own}]
    kept = ("resources", "securityContext", "envFrom")
    made = {"name": name, "image": image, **{key: container[key] for key in kept if key in container}, **_PROBES}
    made["env"] = [{"name": variable, "value": value} for variable, value in _VARIABLES.items()]
    made["volumeMounts"] = [*mounts, {"name": RUNS, "mountPath": _PLACE}]
    shared = {"name": RUNS, "persistentVolumeClaim": {"claimName": RUNS}}
    place = {key: spec[key] for key in ("securityContext", "tolerations", "nodeSelector") if key in spec}
    place["securityContext"] = {**place.get("securityContext", {}), "runAsNonRoot": True}  # as the image's user is
    # Ray asks Kubernetes nothing, and code in these pods shall not.
    return {"spec": {"automountServiceAccountToken": False, "containers": [made], "volumes": [*own, shared], **place}}
