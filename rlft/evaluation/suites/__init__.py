"""Suites: which models are evaluated, what is measured of their attempts, and how two of them differ.

- `models`: what the command line names as a model; whether a folder can be one
- `measures`: the metrics of the attempts of one model at one cell, over tasks, with intervals, by slice
- `differences`: two models of one call, paired by task, and a sentence about each pair
"""
