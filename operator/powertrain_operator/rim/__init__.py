"""The rim: watches, queue, worker, gateway and Lease around the pure reconcilers; here alone the cluster is touched."""
