"""`rlft schedule lines`: what lets cron or systemd keep the scheduler going."""

from __future__ import annotations

from cli.guard import guarded
from cli.options import ResultAsJson, Verbose
from mlops.display.terminal import console
from mlops.home.folder import find_home


def lines(as_json: ResultAsJson = False, verbose: Verbose = False) -> None:
    """Print a line for a crontab and a unit for systemd: either begins `rlft schedule run` with the machine.

    Nothing is written or installed.
    """
    with guarded(verbose, None):
        from mlops.schedules.lines import crontab_line, systemd_unit

        home = find_home()
        line, unit = crontab_line(home), systemd_unit(home)
        if as_json:
            console.write_json({"crontab": line, "systemd": unit})
            return
        console.print("# with cron: add this line by `crontab -e`")
        console.print(line, soft_wrap=True)
        console.print()
        console.print(
            "# with systemd: write this to ~/.config/systemd/user/rlft-schedules.service, and call", soft_wrap=True
        )
        console.print("# systemctl --user enable --now rlft-schedules && loginctl enable-linger", soft_wrap=True)
        console.print(unit, soft_wrap=True)
