"""How faults act in a simulated run: on links, on the server, and on attempts and their sources."""
