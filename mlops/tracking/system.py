"""The use of processor, memory, disk, network and GPUs while a run goes on, as MLflow's system metrics.

MLflow's own monitor asks the server every ten seconds from a thread of its own, which a server that is away holds up.
Here a thread only measures, and what it has measured is written with the run's other metrics.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from mlflow.system_metrics.metrics.base_metrics_monitor import BaseMetricsMonitor
from mlflow.system_metrics.metrics.cpu_monitor import CPUMonitor
from mlflow.system_metrics.metrics.disk_monitor import DiskMonitor
from mlflow.system_metrics.metrics.gpu_monitor import GPUMonitor
from mlflow.system_metrics.metrics.network_monitor import NetworkMonitor

from mlops.tracking.run import Tracker

EVERY = 10.0  # seconds between two samples, as MLflow has it
_ATTEMPT = 1_000_000  # steps that are an attempt's own: more samples than a run of a hundred days has
_PREFIX = "system/"  # by which MLflow's page of a run knows them


class SystemMetrics:
    """Samples of how the machine was used, which wait to be written. `attempt` is that at the run, from 1 on."""

    def __init__(self, attempt: int, every: float = EVERY) -> None:
        self.every = every
        self._count = (attempt - 1) * _ATTEMPT
        self._samples: list[tuple[float, dict[str, float]]] = []
        self._ended = threading.Event()
        self._lock = threading.Lock()

    def log(self, tracker: Tracker) -> None:
        """Write the samples that wait."""
        with self._lock:
            waiting, self._samples = self._samples, []
        for when, sample in waiting:
            tracker.log_metrics(sample, step=self._count, when=when)
            self._count += 1

    @contextmanager
    def measuring(self) -> Iterator[None]:
        """Measure until the end of the block."""
        thread = threading.Thread(target=self._measure, name="system-metrics", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join(self.every)

    def _measure(self) -> None:
        monitors = _monitors()
        while not self._ended.wait(self.every):
            sample: dict[str, float] = {}
            for monitor in monitors:
                monitor.collect_metrics()
                sample |= {f"{_PREFIX}{name}": value for name, value in _values(monitor).items()}
                monitor.clear_metrics()
            with self._lock:
                self._samples.append((time.time(), sample))


def _values(monitor: BaseMetricsMonitor) -> dict[str, float]:
    return monitor.aggregate_metrics() or {}


def _monitors() -> list[BaseMetricsMonitor]:
    """Return MLflow's monitors; that of GPUs only where there are any and `nvidia-ml-py` is installed."""
    monitors = [CPUMonitor(), DiskMonitor(), NetworkMonitor()]
    try:
        return [*monitors, GPUMonitor()]
    except Exception:  # MLflow's own: the package is missing, or the driver is
        return monitors
