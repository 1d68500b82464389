#!/bin/sh
# usage: python.sh IMAGE CHECKOUT ROOT
# Installs the third-party libraries of images/IMAGE/requirements.lock below ROOT; pip checks the hash of each. A
# Dockerfile runs it with the image's own Python; the builder without Docker runs it from outside with PIP_PYTHON, so the
# target's Python version and platform are always said. PIP_MACHINE (aarch64) builds for another machine than this one.
set -eu
image=$1
checkout=$2
root=$3
machine=${PIP_MACHINE:-$(uname -m)}
platform="--platform manylinux2014_$machine"
# The wheels that hack/release/lock.py noted: those for glibc 2.17 to 2.28.
for minor in 28 27 26 25 24 23 22 21 20 19 18 17; do
    platform="$platform --platform manylinux_2_${minor}_$machine"
done
# shellcheck disable=SC2086 # several words are meant
"${PIP_PYTHON:-python3}" -m pip install --quiet --no-compile --only-binary=:all: $platform \
    --python-version 3.11 --implementation cp --abi cp311 --abi abi3 --abi none \
    --target "$root/opt/powertrain/lib" \
    --no-deps --require-hashes \
    --requirement "$checkout/images/$image/requirements.lock"
# Scripts name the interpreter of the machine that builds; nothing here starts them.
rm -rf "$root/opt/powertrain/lib/bin"
# Their checksums in the lists of installed files would differ from machine to machine.
sed -i '/^\(\.\.\/\)*bin\//d' "$root"/opt/powertrain/lib/*.dist-info/RECORD
# Tests and headers of the libraries are half of their size.
find "$root/opt/powertrain/lib" -depth -type d \( -name tests -o -name __pycache__ -o -name include \) -exec rm -rf {} +
