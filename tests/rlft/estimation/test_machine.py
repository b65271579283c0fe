"""What a machine has, without torch where that is possible."""

import pytest

from rlft.errors import PolicyError
from rlft.estimation import machine
from rlft.estimation.machine import check_device


@pytest.mark.parametrize(
    ("build", "library", "reason"),
    [
        ("2.13.0+cpu", True, "torch is built for CPUs alone"),
        ("2.13.0+cu130", False, "there is no NVIDIA driver"),
        ("2.13.0", False, "there is no NVIDIA driver"),
        ("2.13.0", True, None),  # torch itself must tell
        ("2.13.0+rocm7.0", False, None),
    ],
)
def test_a_gpu_is_ruled_out_without_torch_only_where_that_is_certain(monkeypatch, build, library, reason):
    def load(name):
        if not library:
            raise OSError(name)

    monkeypatch.setattr(machine, "version", lambda name: build)
    monkeypatch.setattr(machine.ctypes, "CDLL", load)
    assert machine.why_no_gpu() == reason
    check_device("auto")
    check_device("cpu")
    if reason:
        with pytest.raises(PolicyError, match=f"there is no GPU: {reason}"):
            check_device("cuda")
    else:
        check_device("cuda")
