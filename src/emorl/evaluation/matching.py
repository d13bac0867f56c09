"""best_pairs: the one-to-one matching of slots and objects with the largest sum of scores (Kuhn, 1955)."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


def best_pairs(scores: Array) -> tuple[Array, Array]:
    """Returns rows and columns of the pairs whose `scores` (n, m) add up to the most; min(n, m) pairs, rows ascending.

    Rows enter one after the other. Prices of rows and columns are kept so that no pair costs less than its two prices;
    a new row takes a column along the cheapest path of exchanges, as in Dijkstra's algorithm.
    """
    n, m = scores.shape
    if n > m:
        columns, rows = best_pairs(scores.T)
        order = np.argsort(rows)
        return rows[order], columns[order]
    if not np.isfinite(scores).all():
        raise ValueError("scores must be finite")
    costs = -np.asarray(scores, dtype=np.float64)
    row_price, column_price = np.zeros(n), np.zeros(m)
    row_of = np.full(m, -1)  # of each column
    for row in range(n):
        distance, before = np.full(m, np.inf), np.full(m, -1)
        done = np.zeros(m, dtype=bool)
        current, column, so_far = row, -1, 0.0
        while True:
            reached = so_far + costs[current] - row_price[current] - column_price
            is_shorter = ~done & (reached < distance)
            distance[is_shorter], before[is_shorter] = reached[is_shorter], column
            column = int(np.where(done, np.inf, distance).argmin())
            so_far, done[column] = float(distance[column]), True
            if row_of[column] < 0:
                break
            current = int(row_of[column])
        visited = np.flatnonzero(done)
        owners = row_of[visited]
        gained = so_far - distance[visited]
        row_price[row] += so_far
        row_price[owners[owners >= 0]] += gained[owners >= 0]
        column_price[visited] -= gained
        while column >= 0:
            row_of[column] = row if before[column] < 0 else row_of[before[column]]
            column = int(before[column])
    columns = np.flatnonzero(row_of >= 0)
    columns = columns[np.argsort(row_of[columns])]
    return row_of[columns], columns
