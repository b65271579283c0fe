"""Steps only connect: each takes artifacts and settings, calls one function of `rlft`, and names what comes back."""
