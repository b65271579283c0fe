"""`rlft schedule`: what runs by itself, when, and why.

- `app`: the Typer application of these commands
- `apply`: makes a schedule of a file
- `install`: writes units for systemd, or lines for cron
- `run`: waits for the time, or looks once at what is due
- `run_now`: a run without waiting for the time
- `listing`: what is due next, and what came of it
- `changing`: pauses, resumes and deletes schedules
- `inner`: what the scheduler's own processes call
"""
