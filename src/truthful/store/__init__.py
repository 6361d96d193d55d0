"""The database of the service: what a running study remembers, and the moves that change it."""
