#!/bin/sh
set -eu
path=$(sed -n 's/.*"path": *"\([^"]*\)".*/\1/p')
echo "looking at $path" >&2
[ -d "$path" ] || { echo "there is no directory $path" >&2; exit 65; }
df -Pk "$path" | awk 'NR == 2 { printf "{\"kib\": %d, \"used\": %d}\n", $4, $5 }'
