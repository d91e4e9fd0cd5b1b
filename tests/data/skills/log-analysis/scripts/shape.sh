#!/bin/sh
wc -l "$1" && head -n 1 "$1" && tail -n 1 "$1"
