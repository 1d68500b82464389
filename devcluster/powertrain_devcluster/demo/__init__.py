"""`make demo`: a cluster, the operator and three simulated Jetsons, from a TrainingJob's start to its restore."""
