"""Which side of a difference is wrong: both are called again."""
