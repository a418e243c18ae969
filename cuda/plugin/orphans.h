#pragma once

#include <sys/types.h>

namespace mlacheck {

// What workers leave behind. The processes that a worker's kernels start stay below it, whatever
// session, group or environment they have moved to, as it is their reaper (keep_descendants); when
// it ends, they fall to this process, which is the next one. So all below this process that is
// below no living worker, nor below what it had started before the first, was left behind by one
// that has ended. From then on it must start nothing else that it wants to live; and where it is a
// container's first process, what others leave in the background there is killed too.

// In a worker, before its exec.
void keep_descendants();

// fork(), of a worker, which counts as living until kill_orphans(it). The child must call neither.
pid_t fork_worker();

// Of a worker that has ended and was waited for: it counts no more. Kills all that was left behind.
void kill_orphans(pid_t worker);

}  // namespace mlacheck
