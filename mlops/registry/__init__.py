"""MLflow's model registry.

- `logged_model`: a policy as MLflow stores it
- `served_policy`, `served_input`, `served_prompt`: the program that answers with it, what it can be asked, its prompts
- `versions`, `champion`: registering a policy and promoting it; asking for the version in use
- `named`: the version that an alias or a number names
- `gates`, `noted_tasks`: how often a gate was looked at; in which splits a run had its tasks
- `dangling`: aliases that name no version
- `retries`: how a write that meets another one is tried again
- `aliases`: moving `challenger` and `champion`, each change of the latter noted; `rollback`: taking it back
- `approval`, `verdicts`, `moved`: a person's decision about a version; its note, and what waits for one; whether what
  it rests on has moved
- `reasons`, `better`: why a version was not promoted; whether it did better than one that waits
- `changes`, `people`: the notes of these changes; who makes one
- `spells`, `ledger`, `history`: who was champion by the notes and the alias; reading both; telling it
- `finding`: the registered model or version that a person names
- `names`: words that they share with the runs; `client`: MLflow's client, which keeps records off its pages
- `stored`: whether the files of a version hold what was registered
"""
