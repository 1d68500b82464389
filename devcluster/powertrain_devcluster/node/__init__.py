"""A real node: containerd and kubelet in a network namespace of their own."""
