// A child process with one end of a socket as its standard input, output and error output.
#pragma once

#include <sys/types.h>

#include "absl/functional/function_ref.h"
#include "analyzer/model/prelude.h"

namespace dlhook::analyzer::inline io {

// As exec takes words and variables; valid as long as these.
std::vector<char*> Pointers(const std::vector<std::string>& words);

// A word of a command line, as a shell takes it.
std::string ShellWord(const std::string& word);

class ChildProcess {
 public:
  // `name`: for messages. The first of the words is found in the PATH.
  ChildProcess(std::string name, const std::vector<std::string>& words);
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess();  // kills it, if it has not ended

  // False: it takes no more.
  bool Send(absl::string_view bytes);
  // What it wrote up to the end of a line, without that. Unavailable: it has ended. `goes_on` is asked now and then;
  // Cancelled: it was false.
  absl::StatusOr<std::string> ReadLine(absl::FunctionRef<bool()> goes_on);
  // Waits for its end. An error has the signal that killed it, or the last line that it wrote.
  absl::Status Finish();

 private:
  bool ReadSome();

  const std::string name_;
  int socket_ = -1;
  int error_ = 0;
  pid_t child_ = 0;
  std::string told_;       // and not yet read
  std::string last_line_;  // that was read
};

}  // namespace dlhook::analyzer::io
