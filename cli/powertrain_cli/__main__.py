"""`python -m powertrain_cli` is `powertrain`."""

from powertrain_cli.main import run

run()
