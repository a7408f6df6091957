#!/bin/bash
# The shell of `make` in the bare root (make SHELL=...): runs a step, and appends its duration to
# $BARE_STEPS, as a line with wall-clock seconds, CPU seconds in user space and in the kernel, and
# the step. The makefiles of libraries that a crate compiles use this shell, too: they are outside
# $BARE_TREE, and are not measured.
[ "$PWD" = "$BARE_TREE" ] || exec /bin/bash "$@"
TIMEFORMAT='%R %U %S'
status=0
taken=$(mktemp)
# The step keeps its own standard error.
{ time /bin/bash "$@" 2>&3 || status=$?; } 3>&2 2>"$taken"
printf '%s\t%s\n' "$(tr ' ' '\t' <"$taken")" "$(tr '\n' ' ' <<<"${*: -1}")" >>"$BARE_STEPS"
rm -f "$taken"
exit $status
