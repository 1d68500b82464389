"""The command line `powertrain`, also installed as `kubectl-powertrain`."""

import os

# Matrices here are small: threads of a linear algebra library would spend their time waiting for each other. It reads
# this when it is loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")
