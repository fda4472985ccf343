"""What the table of sums must hold, said by itself: a function of all orders."""


def sums(records):
    rows = {}
    for record in records:
        start = record["ts"] // 500 * 500
        row = rows.setdefault(start, {"window_start": start, "orders": 0, "total": 0})
        row["orders"] += 1
        row["total"] += record["key"]
    return list(rows.values())
