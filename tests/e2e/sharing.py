"""People with a home and an account of their own, and a ZenML without a server that several of them use."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.e2e.conftest import Home

ON = ("--stack", "rlft-local")


@dataclass(frozen=True)
class Sharing(Home):
    """One of them; `shared` is the folder of ZenML's database, and of MLflow's."""

    shared: Path

    @classmethod
    def at(cls, place: Path, name: str) -> Sharing:
        """Somebody of this name, among those that share what lies in a folder."""
        (place / name).mkdir()
        return cls(place / name, place)

    @property
    def database(self) -> Path:
        """ZenML's."""
        return self.shared / "stores" / "default_zen_store" / "zenml.db"

    def environment(self) -> dict[str, str]:
        base = {key: value for key, value in super().environment().items() if key != "ZENML_STORE_URL"}
        zenml = {
            "ZENML_CONFIG_PATH": str(self.shared / "zenml"),
            "ZENML_LOCAL_STORES_PATH": str(self.shared / "stores"),
        }
        own = {"XDG_CONFIG_HOME": str(self.folder / "config"), "TOKEN": f"the token of {self.folder.name}"}
        return base | zenml | {"HOME": str(self.shared)} | own
