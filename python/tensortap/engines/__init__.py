"""Adapters of serving engines: what each tells tap.batch()."""
