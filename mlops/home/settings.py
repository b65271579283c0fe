"""ZenML's settings in a home, `zenml/config.yaml`: they name its database and its stack, and are made from that.

ZenML's processes have copies of them (`mlops.home.folder`), so that they are written once.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from uuid import UUID

import yaml

from mlops.home.databases import ZENML, opened
from mlops.home.folder import Home
from rlft.errors import StorageError
from rlft.files import write_file


def settings_file(home: Home) -> Path:
    """Return the path of ZenML's settings in a home."""
    return home.root / "zenml" / "config.yaml"


def read_settings(home: Home) -> dict[str, Any]:
    """Return ZenML's settings; nothing if they are missing, or cannot be read as settings that name a database."""
    try:
        content = yaml.safe_load(settings_file(home).read_text(encoding="utf-8"))
    except (FileNotFoundError, UnicodeDecodeError, yaml.YAMLError):
        return {}
    store = content.get("store") if isinstance(content, dict) else None
    url = store.get("url") if isinstance(store, dict) else None
    return content if str(url).startswith("sqlite:///") and str(url).endswith(f"/{ZENML.path}") else {}


def check_place(home: Home) -> None:
    """Raise StorageError if the home was moved or copied here: ZenML and MLflow store where their files lie."""
    url = (read_settings(home).get("store") or {}).get("url") or ""
    was = Path(url.removeprefix("sqlite:///").removesuffix(f"/{ZENML.path}"))
    if url and was != home.root:
        raise StorageError(
            f"this folder was moved or copied here from {was}, whose paths are in its databases",
            where=str(home.root),
            fix="move it back to where it was made, or set RLFT_HOME to a new folder",
        )


def are_whole(home: Home) -> bool:
    """Return whether the settings are there to their last line, which is the id of the user or the version."""
    content = read_settings(home)
    return all(_is_id(content.get(name)) for name in ("active_stack_id", "user_id"))


def mend_settings(home: Home) -> bool:
    """Make the settings again from the database if they are not whole; returns whether there was something to do.

    Raises OSError, or sqlite3.Error if the database cannot be read.
    """
    if are_whole(home):
        return False
    write_file(settings_file(home), _text(home))
    return True


def copy_settings(home: Home) -> None:
    """Copy ZenML's settings into the folder of this process, which `use_own_setup` has made."""
    text = settings_file(home).read_text(encoding="utf-8") if are_whole(home) else _text(home)
    write_file(Path(os.environ["ZENML_CONFIG_PATH"]) / "config.yaml", text)


def _text(home: Home) -> str:
    """Return new settings with the ids that the database knows."""
    with opened(ZENML.file(home), seconds=5) as database:
        [user] = database.execute("SELECT id FROM server_settings").fetchone()
        [stack] = database.execute("SELECT id FROM stack ORDER BY name != 'default', created").fetchone()
        [project] = database.execute("SELECT id FROM project ORDER BY name != 'default', created").fetchone()
        [version] = database.execute("SELECT version_num FROM alembic_version").fetchone()
    store = {
        "type": "sql",
        "url": f"sqlite:///{ZENML.file(home)}",
        "backup_directory": f"{home.root}/zenml/database_backup",
    }
    ids = {"active_project_id": project, "active_stack_id": stack, "user_id": user}
    content = {name: str(UUID(text)) for name, text in ids.items()}
    return yaml.safe_dump({**content, "analytics_opt_in": False, "store": store, "version": version})


def _is_id(text: Any) -> bool:
    try:
        UUID(str(text))
    except ValueError:
        return False
    return True
