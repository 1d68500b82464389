"""`python -m powertrain_devcluster` is `powertrain cluster`."""

from powertrain_devcluster.commands import cluster_app

cluster_app(prog_name="powertrain cluster")
