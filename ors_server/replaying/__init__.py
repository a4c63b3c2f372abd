"""Episodes played again by their records, and judged again by other rewards."""
