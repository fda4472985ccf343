"""Worlds: the real database and the real proxy that a run talks to, opened and removed as one thing.

`world` says what a run sees of one, `local` has the local world, `containers` the other, `setup` opens and installs.
"""
