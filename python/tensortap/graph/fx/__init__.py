"""What is known of an FX graph by itself: identity, code, which nodes write."""
