"""Right: the rows and the place behind them in one transaction; what is before that place was written already."""

from orders import run

INSERT = "INSERT INTO enriched (id, k, name, city, tier) VALUES (%s, %s, %s, %s, %s)"


def write(cursor, batch) -> None:
    cursor.execute("INSERT IGNORE INTO progress VALUES (%s, %s, 0)", (batch.topic, batch.partition))
    cursor.execute(
        "SELECT position FROM progress WHERE topic = %s AND part = %s FOR UPDATE",
        (batch.topic, batch.partition),
    )
    (position,) = cursor.fetchone()
    items = [item for item in batch if item.offset >= position]
    if not items:
        return
    cursor.executemany(INSERT, [item.value for item in items])
    cursor.execute(
        "UPDATE progress SET position = %s WHERE topic = %s AND part = %s",
        (items[-1].offset + 1, batch.topic, batch.partition),
    )


run(write)
