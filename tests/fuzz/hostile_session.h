// Rings as left by a host: valid by construction, then scribbled over, according to the input.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tests/fuzz/input.h"
#include "tests/preload/session_fixture.h"

namespace dlhook {

class HostileSession {
 public:
  explicit HostileSession(Input* input);

  // Simulates the host until the input ends; `pause` is called in between, where a drain would run.
  void Play(const std::function<void(uint8_t choice)>& pause);

  TestSession* session() { return &session_; }
  // True if something was written that the format does not allow.
  bool is_scribbled() const { return is_scribbled_; }
  // Calls that were committed completely.
  uint64_t calls() const { return calls_; }

 private:
  HostileSession(Input* input, uint8_t size);
  void Step(uint8_t choice, const std::function<void(uint8_t choice)>& pause);
  void PutCall(RingProducer* ring, RecordType type);
  void PutTapLine(RingProducer* ring);
  void PutScope(RingProducer* ring);
  void PutCounters(RingProducer* ring);
  void PutGpu(RingProducer* ring);
  void PutText(RingProducer* ring, RecordType type, size_t fixed_bytes);
  void PutRubbish(RingProducer* ring);
  std::string Totals();
  void PutTotals(RingProducer* ring);
  void LeaveTotals();
  void PutDefinition();
  void PutStackNode();
  void Scribble();
  RecordHeader* Reserve(RingProducer* ring, size_t bytes);

  Input* input_;
  bool has_stacks_;
  TestSession session_;
  RingProducer rings_[3];
  bool is_scribbled_ = false;
  uint64_t calls_ = 0;
};

}  // namespace dlhook
