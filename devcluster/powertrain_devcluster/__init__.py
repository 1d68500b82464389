"""A real Kubernetes on any machine: control plane, stand-in nodes and a real node, for the CLI, tests and demos."""
