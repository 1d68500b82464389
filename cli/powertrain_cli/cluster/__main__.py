"""`python -m powertrain_cli.cluster` is `powertrain cluster`."""

from powertrain_cli.cluster.commands import cluster_app

cluster_app(prog_name="powertrain cluster")
