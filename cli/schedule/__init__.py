"""`rlft schedule`: what runs by itself, when, and why.

- `app`: the Typer application of these commands
- `apply`: makes a schedule of a file
- `lines`: prints what lets cron or systemd keep the scheduler going
- `run`: waits for the time, or looks once at what is due
- `run_now`: a run without waiting for the time
- `listing`: what is due next, and what came of it
- `changing`: pauses, resumes and deletes schedules
- `inner`: what the scheduler's own processes call
"""
