"""Adapters of serving engines: what each passes to tap.batch()."""
