"""Questions whose answers stand in documents that have to be found, read and cited.

- `environment`: the environment, its tools and the parts of its reward
- `labels`: what a task says is right: the gold documents, their near duplicates and the gold answers
- `gold`: the gold conversation, which searches, reads and answers
- `client`: what an environment searches by; `index` is the one that comes with rlft, in memory
- `lexical`, `embedding`: two ways to rank documents, by words and by vectors
"""

from rlft.environments.search.environment import Search

__all__ = ["Search"]
