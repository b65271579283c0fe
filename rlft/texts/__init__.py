"""Text whatever stands in it: as it is compared and shown, without secrets, without personal data.

- `characters`: what nobody sees, what looks alike, and what would steer a terminal
- `blocks`: what is told of a result, and Markdown of it
- `secrets`: settings that look like secrets, and values of variables, hidden in all that the process writes
- `privacy`: personal data that shows by its form
- `syntax`: the tree of a Python text
"""
