"""The command line: a file for each command or topic, and what several of them share.

- `__main__`, `app`: where every command starts; the Typer application that the commands are attached to
- `run`, `resume`, `runs`, `show`, `report`, `diagnose`, `compare`, `removing` (`delete` and `prune`): those about runs
- `replay` (`rescore` and `retrain`): using stored attempts again
- `promote`, `registry` (`approve`, `reject`, `rollback`, `history`), `export`, `serve`: about versions of a model
- `evaluate`, `estimate`, `audit`, `environments`, `ui`, `stack`, `doctor`: all others
- `schedule`, `reward`, `review`: the commands about schedules, written rewards and people's reviews
- `options`: the arguments and options that several commands have
- `start`, `result`: what is checked before a run, and what is printed after it
- `contrasted`: what is known of runs side by side, which `compare` prints
- `sweep`: `run --sweep`, and each run of it
- `guard`: logs, and errors as sentences with an exit code
"""
