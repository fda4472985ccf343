"""Worlds: a real database server and a real proxy for a run, set up and removed together.

`world` says what a run sees of one, `local` has the local world, `containers` the other, `setup` opens and installs.
"""
