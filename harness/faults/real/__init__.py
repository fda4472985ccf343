"""What real faults are done with (the proxy, the server, processes), and what a run recorded of them."""
