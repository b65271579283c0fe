"""MLflow's model registry, and a registered version that answers over HTTP.

- `logged_model`: a policy as MLflow stores it, and whether its files are still those that were registered
- `served_policy`: the program that answers with it, and what it can be asked
- `versions`: registering a policy
- `decisions`: promoting, approving, rejecting a version, and taking the champion back; who was champion when and why
- `gates`: how often a gate was looked at; in which splits a run had its tasks
- `names`: words that they share with the runs, and what the notes of decisions say
- `engines`: a version that is served, with its files; vLLM or MLflow's server, started for it on a port of loopback
- `conversations`: what is asked and answered, as traces in MLflow without secrets and personal data
- `server`: all of it together, with the HTTP application before it, which adds what the version was trained with and
  says which one answers
- `client`: MLflow's client, which keeps records off its pages; the model or version that a person names
"""
