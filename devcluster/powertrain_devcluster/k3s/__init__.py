"""A real k3s: a server and an agent node, each in namespaces of its own."""
