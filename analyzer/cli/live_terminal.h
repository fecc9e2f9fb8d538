// A screen that is drawn again and again on a terminal, which is as it was before when it ends: by a key, a signal, or an error.
#pragma once

#include <signal.h>
#include <termios.h>

#include <chrono>

#include "absl/strings/string_view.h"

namespace dlhook::analyzer::inline cli {

class LiveTerminal {
 public:
  LiveTerminal();
  ~LiveTerminal();
  LiveTerminal(const LiveTerminal&) = delete;
  LiveTerminal& operator=(const LiveTerminal&) = delete;

  // As many lines as there is room for; `last` is the bottom one.
  void Draw(absl::string_view text, absl::string_view last);

  enum class Event { kTime, kResized, kQuit };
  // Until `time` has passed, the window changes, or the user presses q, Ctrl-C, or closes the terminal.
  Event Wait(std::chrono::milliseconds time);
  // The signal that asked to quit; 0: none did.
  static int signal();

 private:
  bool has_keys_ = false;
  termios before_ = {};
  sigset_t mask_ = {};  // while nothing is waited for, its complement's signals are blocked
};

}  // namespace dlhook::analyzer::cli
