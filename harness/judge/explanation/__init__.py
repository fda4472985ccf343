"""Explains a judgement: each anomaly as a contradiction, the guarantee that still holds, the cost of each fault."""
