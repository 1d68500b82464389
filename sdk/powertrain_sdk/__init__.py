"""What runs inside the training container: no dependencies, Python 3.6 and newer."""
