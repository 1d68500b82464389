#!/bin/sh
# usage: python.sh IMAGE CHECKOUT ROOT
# Installs the third-party libraries of images/IMAGE/requirements.txt below ROOT. A Dockerfile runs it with the image's
# own Python; the builder without Docker runs it from outside with PIP_PYTHON, so the target's Python version is always
# said. PIP_PLATFORM (manylinux_2_28_aarch64) builds for another machine than this one.
set -eu
image=$1
checkout=$2
root=$3
platform=${PIP_PLATFORM:+--platform $PIP_PLATFORM --platform manylinux2014_${PIP_PLATFORM##*_28_} --platform manylinux_2_17_${PIP_PLATFORM##*_28_}}
# shellcheck disable=SC2086 # several words are meant
"${PIP_PYTHON:-python3}" -m pip install --quiet --no-compile --only-binary=:all: $platform \
    --python-version 3.11 --implementation cp --abi cp311 --abi abi3 --abi none \
    --target "$root/opt/powertrain/lib" \
    --constraint "$checkout/constraints.txt" \
    --requirement "$checkout/images/$image/requirements.txt"
# Tests and headers of the libraries are half of their size.
find "$root/opt/powertrain/lib" -depth -type d \( -name tests -o -name __pycache__ -o -name include \) -exec rm -rf {} +
