// A library of kernels that misbehave, each in one way; and, of one kernel, libraries that lie
// about themselves: LYING_LIBRARY picks the lie.

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>

#include "cuda/include/mlacheck_kernel.h"

namespace {

constexpr std::int64_t kCount = 8;  // the problem that the test runs: map_slots of 8 positions

int supports(const mlacheck_problem* problem, char*, std::size_t) {
  return problem->op == MLACHECK_MAP_SLOTS ? 1 : 0;
}

int refuses(const mlacheck_problem*, char* why, std::size_t why_size) {
  std::strncpy(why, "count 8: only multiples of 64", why_size - 1);
  return 0;
}

int crashes_when_asked(const mlacheck_problem*, char*, std::size_t) { return std::raise(SIGABRT); }

int workspace(const mlacheck_problem*, std::uint64_t* bytes) {
  *bytes = 256;
  return 0;
}

using Run = int(const mlacheck_problem*, const mlacheck_tensors*, void*, std::uint64_t, void*,
                char*, std::size_t);

int honest(const mlacheck_problem*, const mlacheck_tensors* t, void*, std::uint64_t, void*, char*,
           std::size_t) {
  for (std::int64_t i = 0; i < kCount; ++i) t->slots[i] = t->positions[i];
  return 0;
}

int idle(const mlacheck_problem*, const mlacheck_tensors*, void*, std::uint64_t, void*, char*,
         std::size_t) {
  return 0;
}

int crashes(const mlacheck_problem*, const mlacheck_tensors*, void*, std::uint64_t, void*, char*,
            std::size_t) {
  return std::raise(SIGABRT);
}

int leaves(const mlacheck_problem*, const mlacheck_tensors*, void*, std::uint64_t, void*, char*,
           std::size_t) {
  std::_Exit(0);
}

[[noreturn]] void hang() {
  while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
}

int hangs(const mlacheck_problem*, const mlacheck_tensors*, void*, std::uint64_t, void*, char*,
          std::size_t) {
  hang();
}

// Leaves a process behind; both write down who they are. `away`: in a session of its own, as
// another program without an environment.
void leave_child(const mlacheck_tensors* t, bool away = false) {
  const pid_t child = fork();
  if (child == 0 && away) {
    setsid();
    std::array<char*, 1> nothing = {};
    execle("/bin/sleep", "sleep", "1000", nullptr, nothing.data());
    std::_Exit(126);
  }
  if (child == 0) hang();
  t->slots[1] = child;
  t->slots[0] = getpid();
}

int forks(const mlacheck_problem*, const mlacheck_tensors* t, void*, std::uint64_t, void*, char*,
          std::size_t) {
  leave_child(t);
  return 0;
}

int forks_away(const mlacheck_problem*, const mlacheck_tensors* t, void*, std::uint64_t, void*,
               char*, std::size_t) {
  leave_child(t, true);
  return 0;
}

int hangs_at_exit(const mlacheck_problem*, const mlacheck_tensors*, void*, std::uint64_t, void*,
                  char*, std::size_t) {
  return std::atexit(hang);
}

int forks_and_hangs(const mlacheck_problem*, const mlacheck_tensors* t, void*, std::uint64_t, void*,
                    char*, std::size_t) {
  leave_child(t);
  hang();
}

int forks_away_and_hangs(const mlacheck_problem*, const mlacheck_tensors* t, void*, std::uint64_t,
                         void*, char*, std::size_t) {
  leave_child(t, true);
  hang();
}

// Takes the block's memory away.
int cuts(const mlacheck_problem* p, const mlacheck_tensors* t, void* w, std::uint64_t n, void* s,
         char* why, std::size_t why_size) {
  int found = 0;
  for (const auto& file : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string name = std::filesystem::read_symlink(file, gone).string();
    if (!name.starts_with("/memfd:mlacheck")) continue;
    ++found;
    const int descriptor = std::atoi(file.path().filename().c_str());
    if (ftruncate(descriptor, 0) == 0 || ftruncate(descriptor, 1 << 30) == 0) return 1;
  }
  return found == 1 ? honest(p, t, w, n, s, why, why_size) : 1;
}

int prints(const mlacheck_problem* p, const mlacheck_tensors* t, void* w, std::uint64_t n, void* s,
           char* why, std::size_t why_size) {
  std::printf("eight positions");
  return honest(p, t, w, n, s, why, why_size);
}

int reads_input(const mlacheck_problem*, const mlacheck_tensors* t, void*, std::uint64_t, void*,
                char*, std::size_t) {
  char typed = 0;
  t->slots[0] = static_cast<std::int32_t>(read(STDIN_FILENO, &typed, 1));
  return 0;
}

int alters(const mlacheck_problem* p, const mlacheck_tensors* t, void* w, std::uint64_t n, void* s,
           char* why, std::size_t why_size) {
  const_cast<mlacheck_problem*>(p)->u.map_slots.count = 4;
  return honest(p, t, w, n, s, why, why_size);
}

// Writes into whatever socket there is.
void babble(const char* text) {
  for (int descriptor = 3; descriptor < 64; ++descriptor)
    static_cast<void>(send(descriptor, text, std::strlen(text), MSG_NOSIGNAL));
}

// Says itself how the call went.
int forges(const mlacheck_problem*, const mlacheck_tensors*, void*, std::uint64_t, void*, char*,
           std::size_t) {
  babble("77 done 0");
  std::_Exit(0);
}

int babbles_later(const mlacheck_problem* p, const mlacheck_tensors* t, void* w, std::uint64_t n,
                  void* s, char* why, std::size_t why_size) {
  std::thread([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    babble("still here\n");
  }).detach();
  return honest(p, t, w, n, s, why, why_size);
}

int crashes_later(const mlacheck_problem* p, const mlacheck_tensors* t, void* w, std::uint64_t n,
                  void* s, char* why, std::size_t why_size) {
  std::thread([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    std::raise(SIGABRT);
  }).detach();
  return honest(p, t, w, n, s, why, why_size);
}

bool spoilt = false;

// Is right itself, at the cost of those that come after it.
int spoils(const mlacheck_problem* p, const mlacheck_tensors* t, void* w, std::uint64_t n, void* s,
           char* why, std::size_t why_size) {
  spoilt = true;
  return honest(p, t, w, n, s, why, why_size);
}

int crashes_when_spoilt(const mlacheck_problem* p, const mlacheck_tensors* t, void* w,
                        std::uint64_t n, void* s, char* why, std::size_t why_size) {
  if (spoilt) return std::raise(SIGABRT);
  return honest(p, t, w, n, s, why, why_size);
}

// The child keeps what its parent had open.
int forks_and_crashes(const mlacheck_problem*, const mlacheck_tensors* t, void*, std::uint64_t,
                      void*, char*, std::size_t) {
  leave_child(t, true);
  return std::raise(SIGABRT);
}

// Who it is, and how many files it has open.
int tells(const mlacheck_problem*, const mlacheck_tensors* t, void*, std::uint64_t, void*, char*,
          std::size_t) {
  const std::filesystem::directory_iterator files("/proc/self/fd");
  t->slots[0] = getpid();
  t->slots[1] = static_cast<std::int32_t>(std::distance(begin(files), end(files)));
  std::this_thread::sleep_for(std::chrono::milliseconds(t->positions[0]));
  return 0;
}

int fails(const mlacheck_problem*, const mlacheck_tensors*, void*, std::uint64_t, void*, char* why,
          std::size_t why_size) {
  std::strncpy(why, "out of patience", why_size - 1);
  return 1;
}

int overruns(const mlacheck_problem* p, const mlacheck_tensors* t, void* w, std::uint64_t n,
             void* s, char* why, std::size_t why_size) {
  t->slots[kCount] = 7;
  return honest(p, t, w, n, s, why, why_size);
}

int underruns(const mlacheck_problem* p, const mlacheck_tensors* t, void* w, std::uint64_t n,
              void* s, char* why, std::size_t why_size) {
  t->slots[-1] = 7;
  return honest(p, t, w, n, s, why, why_size);
}

int meddles(const mlacheck_problem* p, const mlacheck_tensors* t, void* w, std::uint64_t n, void* s,
            char* why, std::size_t why_size) {
  const_cast<std::int32_t*>(t->positions)[0] = 99;
  return honest(p, t, w, n, s, why, why_size);
}

int spills(const mlacheck_problem* p, const mlacheck_tensors* t, void* w, std::uint64_t n, void* s,
           char* why, std::size_t why_size) {
  static_cast<char*>(w)[n] = 7;
  return honest(p, t, w, n, s, why, why_size);
}

constexpr mlacheck_kernel kernel(const char* name, Run* run, decltype(supports)* s = supports) {
  mlacheck_kernel k = {};
  k.struct_size = sizeof(mlacheck_kernel);
  k.op = MLACHECK_MAP_SLOTS;
  k.name = name;
  k.description = "";
  k.memory = MLACHECK_HOST;
  constexpr mlacheck_accumulation kSum = {1, MLACHECK_SUM_SEQUENTIAL, 0, 25, 1};
  k.conventions.struct_size = sizeof(mlacheck_conventions);
  k.conventions.lse_base = MLACHECK_LSE_NATURAL;
  k.conventions.lse_empty = MLACHECK_EMPTY_MINUS_INF;
  k.contract.struct_size = sizeof(mlacheck_contract);
  k.contract.qk = k.contract.pv = k.contract.weight_sum = kSum;
  k.contract.index_dot = k.contract.index_heads = kSum;
  k.contract.weight_dtype = k.contract.partial_dtype = k.contract.score_dtype = MLACHECK_F32;
  k.contract.max_splits = 1;
  k.contract.weight_scale = 1;
  k.supports = s;
  k.workspace_size = workspace;
  k.run = run;
  return k;
}

constexpr std::array kKernels = {
    kernel("honest", honest),
    kernel("idle", idle),
    kernel("crashes", crashes),
    kernel("leaves", leaves),
    kernel("hangs", hangs),
    kernel("fails", fails),
    kernel("overruns", overruns),
    kernel("underruns", underruns),
    kernel("meddles", meddles),
    kernel("spills", spills),
    kernel("refuses", idle, refuses),
    kernel("crashes_when_asked", idle, crashes_when_asked),
    kernel("forks", forks),
    kernel("forks_away", forks_away),
    kernel("forks_and_hangs", forks_and_hangs),
    kernel("forks_away_and_hangs", forks_away_and_hangs),
    kernel("hangs_at_exit", hangs_at_exit),
    kernel("cuts", cuts),
    kernel("prints", prints),
    kernel("alters", alters),
    kernel("reads_input", reads_input),
    kernel("forges", forges),
    kernel("babbles_later", babbles_later),
    kernel("crashes_later", crashes_later),
    kernel("spoils", spoils),
    kernel("crashes_when_spoilt", crashes_when_spoilt),
    kernel("forks_and_crashes", forks_and_crashes),
    kernel("tells", tells),
};

constexpr auto kList = [] {
  std::array<const mlacheck_kernel*, kKernels.size()> list = {};
  for (std::size_t i = 0; i < list.size(); ++i) list[i] = &kKernels[i];
  return list;
}();

#if LYING_LIBRARY == 6  // ends whoever loads it, as if all were well
__attribute__((constructor)) void begin() { std::exit(0); }
#elif LYING_LIBRARY == 9  // comes to a bad end after its work
__attribute__((destructor)) void end() { std::raise(SIGABRT); }
#endif

}  // namespace

#if LYING_LIBRARY == 3  // no kernel library at all
#define mlacheck_kernel_library another_symbol
#endif

extern "C" MLACHECK_EXPORT const mlacheck_library* mlacheck_kernel_library(std::uint32_t) {
  static mlacheck_library library = {
      sizeof(mlacheck_library), MLACHECK_ABI_VERSION, "lying", "1", kList.data(), kList.size(), 0};
  static mlacheck_kernel changed = kKernels[0];
  static const mlacheck_kernel* const changed_list[] = {&changed};
  if ((LYING_LIBRARY >= 1 && LYING_LIBRARY <= 5) || LYING_LIBRARY == 10) {
    library.kernels = changed_list;
    library.kernel_count = 1;
  }
#if LYING_LIBRARY == 1  // built for another ABI
  library.abi_version = MLACHECK_ABI_VERSION + 1;
#elif LYING_LIBRARY == 2   // a contract so loose that nothing could fail it
  changed.op = MLACHECK_SPARSE_ATTENTION;
  changed.contract.exp_error = 1;
#elif LYING_LIBRARY == 4   // built before fields were appended: something else stands there
  changed.struct_size = offsetof(mlacheck_kernel, relu_drops_nan);
  changed.relu_drops_nan = 99;
#elif LYING_LIBRARY == 5   // shorter than any kernel
  changed.struct_size = offsetof(mlacheck_kernel, relu_drops_nan) - 1;
#elif LYING_LIBRARY == 10  // a name that would be two lines of a request
  changed.name = "two\nlines";
#elif LYING_LIBRARY == 7
  std::raise(SIGABRT);
#elif LYING_LIBRARY == 8
  hang();
#endif
  return &library;
}
