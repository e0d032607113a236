"""Finding the operator to blame for the difference of two programs: both are run, compared, and run again."""
