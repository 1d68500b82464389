#!/bin/sh
# usage: install.sh CHECKOUT ROOT
exec sh "$1/images/python.sh" training-example "$1" "$2"
