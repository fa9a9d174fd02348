// The only C++ between Python and Kineto's stop and save. ctypes calls these functions without the GIL, and an exception
// that left such a call would end the process: so every one ends here, as a text. No torch header and no torch linkage:
// the addresses come from ctypes, so one build serves every torch of the new std::string ABI. See build.py and shim.py.
#define _GLIBCXX_USE_CXX11_ABI 1
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>
#include <string>

namespace {

// Stands for std::unique_ptr<ProfilerResult>. The destructor that is not trivial makes the compiler return it through a
// hidden pointer, as the platform's C++ ABI does for the real one.
struct Result {
  void* pointer;
  ~Result() {}
};

template <typename Call>
int guarded(char* text, std::size_t size, Call call) {
  try {
    call();
    return 0;
  } catch (const std::exception& error) {
    std::snprintf(text, size, "%s", error.what());
  } catch (...) {
    std::snprintf(text, size, "a C++ exception of an unknown type");
  }
  return 1;
}

const int kSignals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
const int kCount = sizeof(kSignals) / sizeof(kSignals[0]);
struct sigaction previous[kCount];
volatile unsigned char* volatile mark = nullptr;

// Notes the signal in the crash marker, puts the host's handler back, and lets the signal come again: a fault by
// returning to the instruction (so that the handler sees the address), a sent one by raising it.
void note(int number, siginfo_t* info, void*) {
  volatile unsigned char* const at = mark;
  if (at != nullptr) *at = static_cast<unsigned char>(number);
  for (int i = 0; i < kCount; ++i)
    if (kSignals[i] == number) sigaction(number, &previous[i], nullptr);
  if (info == nullptr || info->si_code <= 0) raise(number);
}

}  // namespace

extern "C" {

int midwatch_stop(void* disable, void** result, std::uint64_t* start_ns, char* text, std::size_t size) {
  return guarded(text, size, [&] {
    Result stopped = reinterpret_cast<Result (*)()>(disable)();
    *result = stopped.pointer;
    *start_ns = 0;  // stays 0 for an empty result, which must not be saved
    if (stopped.pointer != nullptr) std::memcpy(start_ns, stopped.pointer, sizeof(*start_ns));
  });
}

int midwatch_save(void* save, void* result, const char* path, char* text, std::size_t size) {
  return guarded(text, size, [&] {
    const std::string file(path);
    reinterpret_cast<void (*)(void*, const std::string&)>(save)(result, file);
  });
}

int midwatch_free(void* destroy, void* result, char* text, std::size_t size) {
  return guarded(text, size, [&] {
    reinterpret_cast<void (*)(void*)>(destroy)(result);
    ::operator delete(result);
  });
}

void midwatch_arm(volatile unsigned char* byte) {
  mark = byte;
  struct sigaction action;
  std::memset(&action, 0, sizeof(action));
  action.sa_sigaction = note;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  for (int i = 0; i < kCount; ++i) sigaction(kSignals[i], &action, &previous[i]);
}

// A handler that the host installed meanwhile stays.
void midwatch_disarm() {
  for (int i = 0; i < kCount; ++i) {
    struct sigaction current;
    if (sigaction(kSignals[i], nullptr, &current) == 0 && current.sa_sigaction == note)
      sigaction(kSignals[i], &previous[i], nullptr);
  }
  mark = nullptr;
}

}  // extern "C"
