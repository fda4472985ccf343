"""What makes the proxy understand MySQL: packets, who answers whom, and the gate that acts on them."""
