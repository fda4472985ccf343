"""What real faults act on (proxy, server, processes), and how their evidence is read from the recorded lines."""
