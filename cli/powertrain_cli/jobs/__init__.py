"""The verbs of a cluster: submit, list, status, explain, front, nodes, restore, why-pending, profiles."""
