"""Which operators give a request other bits alone than in a batch."""
