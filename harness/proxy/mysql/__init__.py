"""The proxy's understanding of MySQL: packets, requests and their replies, and the gate that packet toxics act at."""
