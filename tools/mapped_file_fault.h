#pragma once

namespace mlacheck {

// From here on a mapped file that cannot be read any more (SIGBUS), because something cut it short
// or its disk fails, ends the program with kExitHarness and a line to stderr that names it.
void report_mapped_file_faults();

}  // namespace mlacheck
