"""The command line `powertrain`, also installed as `kubectl-powertrain`."""
