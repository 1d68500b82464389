"""A stand-in kubelet that runs pods as plain processes."""
