"""Schedules: when a run is due, whether there is a reason for it, and what follows a run that failed.

But for `file`, which reads one, everything here is a pure function of a schedule, of the time and of facts;
`mlops.schedules` gathers these and starts processes.

- `settings`: the settings of a schedule's file
- `file`: reads one, and says what it changes in the config that it runs
- `cron`: the five fields of a cron expression
- `times`: the moments that an expression means in a time zone, also where its clocks are changed
- `often`: how often it is due, in the mean
- `due`: which of these moments a run is begun for, and which were missed
- `reasons`: whether there is a reason to run
- `tries`: what follows from the exit code of a run
"""
