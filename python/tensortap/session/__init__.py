"""What every recording has: options, a writer, passes, coverage, and an end."""
