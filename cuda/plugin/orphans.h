#pragma once

#include <sys/types.h>

namespace mlacheck {

// What workers leave behind. The processes that a worker's kernels start stay below it, whatever
// session, group or environment they have moved to, as it is their reaper (keep_descendants); when
// it ends, they fall to this process, which is the next one. So what is this process's own child,
// no living worker, nor what it had started before the first, was left behind by one that has
// ended; and what is below such a child falls to this process in its turn. From then on it must
// start nothing else that it wants to live; and where it is a container's first process, what
// others leave in the background there is killed too.

// In a worker, before its exec.
void keep_descendants();

// fork(), of a worker, which counts as living until kill_orphans(it). The child must call neither.
// From the first on, signals that end this process (SIGINT, SIGTERM, SIGHUP; what is ignored, as
// under nohup, stays so) end its workers and what they have started with it.
pid_t fork_worker();

// Of a worker that has ended and was waited for: it counts no more. Kills all that was left behind.
void kill_orphans(pid_t worker);

// Kills all workers and what they have started, for a process that is about to end. May be called
// by a signal's handler.
void kill_descendants();

}  // namespace mlacheck
