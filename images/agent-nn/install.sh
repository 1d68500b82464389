#!/bin/sh
# usage: install.sh CHECKOUT ROOT
exec sh "$1/images/python.sh" agent-nn "$1" "$2"
