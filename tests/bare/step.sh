#!/bin/bash
# The shell of `make` in the bare root (make SHELL=...): runs a step, and appends to $BARE_STEPS how long it took.
# A line: seconds by the clock, of the processor in user space, in the kernel, and the step.
# The makefiles of libraries that a crate compiles come here, too: they lie elsewhere than in $BARE_TREE, and are only run.
[ "$PWD" = "$BARE_TREE" ] || exec /bin/bash "$@"
TIMEFORMAT='%R %U %S'
status=0
taken=$(mktemp)
# The step's own standard error goes where it always went.
{ time /bin/bash "$@" 2>&3 || status=$?; } 3>&2 2>"$taken"
printf '%s\t%s\n' "$(tr ' ' '\t' <"$taken")" "$(tr '\n' ' ' <<<"${*: -1}")" >>"$BARE_STEPS"
rm -f "$taken"
exit $status
