"""Where the console script and `python -m cli` begin: Ctrl-C is taken care of before anything is imported."""

from __future__ import annotations

from cli.interrupt import Interrupt, ignore


def main(arguments: list[str] | None = None) -> None:
    """Run a command, of the process's own arguments by default. Raises SystemExit with its exit code."""
    Interrupt().install()
    from cli.app import app

    try:
        app(arguments)
    finally:
        ignore()  # all is said; what is left is to end


if __name__ == "__main__":
    main()
