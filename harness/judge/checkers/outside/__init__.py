"""Judges histories seen from outside: what the source offered against what the table and its log of changes show."""
