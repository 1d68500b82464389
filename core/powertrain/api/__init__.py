"""The Kubernetes API of PowerTrain as pydantic models; `v1alpha1` is the version that is served."""
