"""A run: its name and note, its code and commits, how it is found, started and ended.

- `starting`: what a run is started and resumed with
- `settings`: its config, as it is stored with it
- `readable`: whether this rlft reads what it has stored
- `finding`: finding, ending and choosing runs in ZenML
- `heartbeat`: signs of life of runs on a stack, for those who share it
- `listing`, `listed`, `registered`: the runs of a home, read without ZenML; one of them; what MLflow says about it
- `told`: what runs have told of themselves, and which summaries cannot be read
- `last_sign`: until when the time of a run that was killed counts
- `unknown`: what is said of a name that means none of them
- `labels`, `commits`: its own name, note and tags; the commits of its code
- `naming`: the name of a run that was given none
- `identity`, `lineage`: what ran; what became of its model
"""
