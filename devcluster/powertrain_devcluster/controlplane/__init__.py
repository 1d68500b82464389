"""The control plane: etcd, API server, controller-manager and scheduler as processes."""
