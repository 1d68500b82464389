"""Everything that decides for the cluster; kopf is one adapter of its runtime."""
