"""Episodes played again from their record, and judged again."""
