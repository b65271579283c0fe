"""A team of two users and their servers."""
