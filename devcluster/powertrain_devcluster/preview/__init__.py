"""Pictures of the dashboards: a recorded job in a real Prometheus, drawn by a real Grafana; never shipped."""
