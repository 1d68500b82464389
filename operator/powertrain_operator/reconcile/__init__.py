"""What is decided for each kind: pure functions from what was seen to what is to be done."""
