"""How much of an output's error each operator's own error explains."""
