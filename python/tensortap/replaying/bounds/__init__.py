"""How large an error rounding alone can explain, for each element of what an operator computed."""
