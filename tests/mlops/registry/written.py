"""Clients of a registry whose writes are counted, and which are killed or cut off at one of them."""

from __future__ import annotations

from mlflow import MlflowClient

from mlops.registry.client import RegistryClient
from mlops.registry.names import PROMOTE_TAG
from mlops.registry.versions import open_name

WRITES = ("set_registered_model_tag", "set_registered_model_alias", "set_model_version_tag")


class Killed(BaseException):
    """What ends a process, which nothing catches."""


class CountedClient(RegistryClient):
    """Is killed at its write number `at`, from 1: before it is made, or `after`."""

    def __init__(self, address: str, at: int = 0, *, after: bool = False) -> None:
        super().__init__(address)
        self.written: list[str] = []
        self.at, self.after = at, after

    def _write(self, kind: str, *arguments: str) -> None:
        self.written.append(kind)
        if len(self.written) == self.at and not self.after:
            raise Killed
        getattr(super(), kind)(*arguments)
        if len(self.written) == self.at:
            raise Killed

    def set_registered_model_tag(self, name, key, value):
        self._write("set_registered_model_tag", name, key, value)

    def set_registered_model_alias(self, name, alias, version):
        self._write("set_registered_model_alias", name, alias, version)

    def set_model_version_tag(self, name, version=None, key=None, value=None, stage=None):
        self._write("set_model_version_tag", name, version, key, value)


def add_version(client: MlflowClient, name: str, promote: bool = True, **tags: str) -> int:
    """Add a version without files, as a registration has left it before it sets aliases."""
    open_name(client, name)
    own = {PROMOTE_TAG: str(promote).lower()}
    return int(client.create_model_version(name, source=f"file:/{name}", tags=own | tags).version)
