"""Everything that decides for the cluster; kopf is an adapter at its rim."""
