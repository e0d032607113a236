"""Programs that a command runs and records: `ttap run` as a child process."""
