#!/bin/sh
# usage: install.sh CHECKOUT ROOT
# The gate and the SDK need nothing but Python itself.
mkdir -p "$2/opt/powertrain/lib"
