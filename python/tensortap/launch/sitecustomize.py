# Python imports this as it starts, when `ttap run` has put its folder in front of PYTHONPATH.
