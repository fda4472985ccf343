"""Wrong: the rows are appended; what Bytewax replays after a death is there twice."""

from orders import run

run("INSERT INTO enriched (id, k, name, city, tier) VALUES (%s, %s, %s, %s, %s)")
