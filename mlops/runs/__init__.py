"""A run: its name and note, its code and commits, how it is found, started and ended.

- `starting`: what a run is started and resumed with
- `settings`: its config, as it is stored with it
- `finding`: finding, ending and choosing runs in ZenML
- `heartbeat`: signs of life of runs on a stack, for those who share it
- `store`, `noting`: the folder of each run of a home; what is noted there of its artifacts while it goes on
- `listing`, `listed`, `registered`: the runs of a home, read without ZenML; one of them; the versions that were seen
- `unknown`: what is said of a name that means none of them
- `labels`, `commits`: its own name, note and tags; the commits of its code
- `naming`: the name of a run that was given none
- `identity`, `lineage`: what ran; what became of its model
"""
