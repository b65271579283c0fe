"""What is known of a run.

- `runs`, `record`: finding, ending and resuming runs; what a run that goes on writes into MLflow and its summary
- `ids`: the names by which what a run has stored is found again
- `labels`, `commits`, `lineage`: its name, note and tags; the commits of its code; what it was made from
- `summary`, `outcome`, `summary_file`: the contract that says what came of it, what is computed for it, and its file
- `stored_rollouts`, `stored_files`, `retention`: its rollouts, found and read again, and how long they are kept
"""
