"""The agent's session as one state machine: states, events, commands, one `decide`, and a thin executor."""
