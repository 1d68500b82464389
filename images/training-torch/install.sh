#!/bin/sh
# usage: install.sh CHECKOUT ROOT
# Debian chooses among libraries for linear algebra when packages are configured, which the builder does not do.
set -eu
machine=${PIP_MACHINE:-$(uname -m)}
mkdir -p "$2/opt/powertrain/lib" "$2/usr/lib/$machine-linux-gnu"
ln -sf openblas-pthread/libblas.so.3 "$2/usr/lib/$machine-linux-gnu/libblas.so.3"
ln -sf openblas-pthread/liblapack.so.3 "$2/usr/lib/$machine-linux-gnu/liblapack.so.3"
