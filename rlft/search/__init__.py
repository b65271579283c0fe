"""Search over documents, for environments whose answers have to be found.

- `client`: the interface of a search (`SearchClient`, `Hit`, `Document`), which a class of the user's may have too
- `index`: the client that comes with rlft, over a JSON Lines file in memory, as an environment's arguments ask for it
- `lexical`, `embedding`: its parts, which rank by words (BM25), and embed texts
"""
