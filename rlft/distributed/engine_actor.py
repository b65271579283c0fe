"""A process in Ray that has a `vllm serve` on its machine, for as long as it lives itself."""

from __future__ import annotations

from rlft.distributed.local_cluster import LOOPBACK, address_here
from rlft.engines.ordered import Order, Ordered, Served


class EngineActor:
    """Starts one server, and ends with it."""

    def __init__(self) -> None:
        self._ordered: Ordered | None = None

    def start(self, order: Order, cores: int, within: float, on_loopback: bool) -> Served:
        """Start the server and return it once it answers, which may take `within` seconds.

        On a CPU it computes with `cores` threads. It listens on loopback, or else on the address that Ray knows this
        machine by. Raises EngineError.
        """
        self._ordered = Ordered(order, LOOPBACK if on_loopback else address_here(), cores)
        self._ordered.wait(within)
        return self._ordered.served

    def stop(self) -> None:
        """End the server."""
        if self._ordered is not None:
            self._ordered.stop()
