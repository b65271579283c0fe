"""Where the files of rlft itself lie."""

from pathlib import Path

PROJECT = Path(__file__).resolve().parents[1]
"""The clone, or the folder that a wheel was installed into, which has no requirements."""

PINS = PROJECT / "requirements" / "base.txt"
"""The exact versions of all packages."""
