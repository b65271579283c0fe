"""The home of runs, `.rlft`: its `folder`, its databases (`stores`), and moving it.

`processes` notes which process runs what, and `moved` rewrites the paths in a home that lies elsewhere now.
"""
