#!/bin/sh
# usage: install.sh CHECKOUT ROOT
exec sh "$1/images/python.sh" cli "$1" "$2"
