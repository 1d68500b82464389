#!/bin/sh
# usage: install.sh CHECKOUT ROOT
# Installs the image's third-party libraries below ROOT. The Dockerfile runs it with the image's own Python; the builder
# without Docker runs it from outside with PIP_PYTHON, so the target's Python version is always said.
set -eu
checkout=$1
root=$2
"${PIP_PYTHON:-python3}" -m pip install --quiet --no-compile --only-binary=:all: \
    --python-version 3.11 --implementation cp --abi cp311 --abi abi3 --abi none \
    --target "$root/opt/powertrain/lib" \
    --constraint "$checkout/constraints.txt" \
    --requirement "$checkout/images/agent/requirements.txt"
# Tests and headers of the libraries are half of their size.
find "$root/opt/powertrain/lib" -depth -type d \( -name tests -o -name __pycache__ -o -name include \) -exec rm -rf {} +
