"""Text of the program's as a file can hold it."""


def storable(text: str) -> str:
    """UTF-8 has no half of a surrogate pair: it is escaped."""
    return str.encode(text, "utf-8", "backslashreplace").decode()
