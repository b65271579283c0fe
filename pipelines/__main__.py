"""Where the console script and `python -m pipelines` begin: Ctrl-C is taken care of before anything is imported."""

from __future__ import annotations

from pipelines.interrupt import Interrupt, ignore


def main(arguments: list[str] | None = None) -> None:
    """Run a command, of the process's own arguments by default. Raises SystemExit with its exit code."""
    Interrupt().install()
    from pipelines.cli import app

    try:
        app(arguments)
    finally:
        ignore()  # all is said; what is left is to end


if __name__ == "__main__":
    main()
