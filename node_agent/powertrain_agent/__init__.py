"""Everything that touches a Jetson, and the agent's loop."""
