"""Right: Bytewax replays what its last snapshot does not cover, and a key of the table tells a row that is there."""

from orders import run

run("INSERT IGNORE INTO enriched (id, k, name, city, tier) VALUES (%s, %s, %s, %s, %s)")
