"""Programs beside the cluster: Helm, Prometheus, Kueue."""
