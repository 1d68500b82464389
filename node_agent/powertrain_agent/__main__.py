"""`python -m powertrain_agent`: the agent's process."""

from powertrain_agent.main import run

run()
