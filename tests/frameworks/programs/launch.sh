#!/bin/bash
# Two ranks, started manually: launch.sh PROGRAM WORDS…; each rank prints its process id first.
for rank in 0 1; do
  RANK=$rank WORLD_SIZE=2 bash -c 'echo $$; exec "$@" $((RANK + 2)) >&2' rank "$@" &
done
wait
