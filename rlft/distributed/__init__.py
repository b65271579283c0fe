"""Training by several processes, on one machine or many: what they compute is what one would.

`group` is the team that they form.
"""
