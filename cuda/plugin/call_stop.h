#pragma once

namespace mlacheck {

// Ends the calls that are under way and makes no other until resume_calls(): for a program that is
// told to end, which waits for no kernel. May be called by a signal handler.
void stop_calls();
void resume_calls();
bool calls_stopped();

}  // namespace mlacheck
