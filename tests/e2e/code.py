"""Run the code that is the first argument, as `python -c` does.

python -m tests.e2e.code TEXT [ARGUMENT ...]
"""

import sys

if __name__ == "__main__":
    text = sys.argv.pop(1)
    exec(compile(text, "<code>", "exec"))
