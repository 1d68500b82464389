"""Planning: which mode to measure next and which to choose, worked out by a child process."""
