"""The database's own faults: done to the real server, past the proxy, and put back."""
