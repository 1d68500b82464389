"""What the agent does to a Jetson: snapshot, apply, check, hold and restore."""
