"""Whether a program gives the same bits again, and which operator is the first that does not."""
