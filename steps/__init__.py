"""The steps of pipelines, one file a phase. They only connect: each takes artifacts and settings, calls `rlft`, and
names what comes back.

A parameter that a step deletes at once, such as a fingerprint of code, is there to be part of the step's cache key.
"""
