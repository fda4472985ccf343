"""Wrong: the rows are appended; a death before Quix has committed its offsets writes them twice."""

from orders import run

INSERT = "INSERT INTO enriched (id, k, name, city, tier) VALUES (%s, %s, %s, %s, %s)"


def write(cursor, batch) -> None:
    cursor.executemany(INSERT, [item.value for item in batch])


run(write)
