"""The runtime: watches, queue, worker, gateway and Lease around the pure reconcilers; it alone touches the cluster."""
