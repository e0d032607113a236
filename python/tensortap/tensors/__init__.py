"""From any tensor to what the recorder can copy."""
