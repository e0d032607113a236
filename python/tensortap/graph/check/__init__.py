"""A compiled graph held against the interpreted one, and the smallest part that differs."""
