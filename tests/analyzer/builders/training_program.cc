// A hand-written training loop: see training_program.h.
#include "tests/analyzer/builders/training_program.h"

#include "absl/strings/str_cat.h"

namespace dlhook::analyzer {

using Scopes = ScopeKind;

int TrainingProgram::AddModel(const std::string& name, int layers, const std::string& modules) {
  Network network = {name, {}};
  for (int i = 0; i < layers; ++i) {
    Layer layer;
    layer.model = name;
    layer.name = layer.module = absl::StrCat(modules, i);
    layer.module_type = "Conv2d";
    layer.type = "convolution";
    network.layers.push_back(static_cast<LayerIndex>(attribution_.layers.size()));
    attribution_.layers.push_back(layer);
  }
  networks_.push_back(network);
  return static_cast<int>(networks_.size()) - 1;
}

void TrainingProgram::Scope(const std::string& name, Scopes kind, int64_t duration_ns, ThreadIndex thread, int64_t link,
                            StackIndex stack, Place place) {
  now_ns_ += 10;
  const bool always = kind == Scopes::kUserRange;
  if (records_ || always) {
    builder_.Scope(name, kind, now_ns_, duration_ns, thread, link, stack);
    scope_places_[{thread, now_ns_}] = place;
  }
  now_ns_ += duration_ns;
}

void TrainingProgram::Work(Place place, int64_t batch, int64_t link, const std::string& name, Scopes kind,
                           ThreadIndex thread) {
  trace::OpDefinition definition;
  definition.set_function("onednn:exec");
  definition.set_family("onednn");
  trace::OneDnn* onednn = definition.mutable_onednn();
  onednn->set_operation("exec");
  onednn->set_primitive("convolution");
  onednn->set_prop_kind(place.direction == LayerDirection::kForward ? "forward_training" : "backward_data");
  onednn->set_problem(
      absl::StrCat("mb", batch, "_ic3oc", 16 + place.layer, "_ih32oh32kh3sh1dh0ph1_iw32ow32kw3sw1dw0pw1"));
  builder_.Call(builder_.AddOp(definition), now_ns_ + 30, 60, thread);
  call_places_[{thread, now_ns_ + 30}] = place;
  Scope(name, kind, 100, thread, link, kNone, place);
}

void TrainingProgram::Input(ThreadIndex thread) {
  Scope("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", Scopes::kUserRange, 100, thread, -1, kNone, {});
}

void TrainingProgram::ZeroGrad(ThreadIndex thread) {
  Scope("Optimizer.zero_grad#SGD.zero_grad", Scopes::kUserRange, 100, thread, -1, kNone, {});
}

void TrainingProgram::Forward(int model, bool grad, int64_t batch, ThreadIndex thread) {
  for (LayerIndex layer : networks_[model].layers) {
    const int64_t link = grad ? next_link_++ : -1;
    Work({layer, LayerDirection::kForward}, batch, link, "aten::conv2d", Scopes::kFrameworkOp, thread);
    if (grad) pending_.push_back({layer, link, batch});
  }
}

void TrainingProgram::Measure(int model) {
  for (LayerIndex layer : networks_[model].layers) {
    Work({layer, LayerDirection::kForward}, 8, next_link_, "aten::add_", Scopes::kFrameworkOp, 0);
  }
}

void TrainingProgram::Loss(bool grad, ThreadIndex thread) {
  if (loss_ == kNone) {
    Layer layer;
    layer.model = layer.name = layer.module_type = "CrossEntropyLoss";
    layer.module = "loss";
    layer.type = "loss";
    loss_ = static_cast<LayerIndex>(attribution_.layers.size());
    attribution_.layers.push_back(layer);
  }
  Scope("aten::cross_entropy_loss", Scopes::kFrameworkOp, 100, thread, grad ? next_link_ : -1, kNone,
        {loss_, LayerDirection::kForward});
  if (grad) ++next_link_;
}

void TrainingProgram::Backward(ThreadIndex thread) {
  for (auto run = pending_.rbegin(); run != pending_.rend(); ++run) {
    Work({run->layer, LayerDirection::kBackwardData}, run->batch, run->link, "ConvolutionBackward0",
         Scopes::kBackwardNode, thread);
  }
  pending_.clear();
}

void TrainingProgram::Update(const std::string& optimizer, StackIndex stack, ThreadIndex thread) {
  Scope(absl::StrCat("Optimizer.step#", optimizer, ".step"), Scopes::kUserRange, 100, thread, -1, stack, {});
}

void TrainingProgram::Other(const std::string& name, ThreadIndex thread) {
  Scope(name, Scopes::kFrameworkOp, 100, thread, -1, kNone, {});
}

void TrainingProgram::RecordScopes(bool recorded, bool slow) {
  if (records_ && !recorded) {
    builder_.model().scope_windows.push_back({0, window_start_ns_, now_ns_ + 1, slow});
  }
  if (!records_ && recorded) window_start_ns_ = now_ns_ + 1;
  records_ = recorded;
}

TraceModel TrainingProgram::Build(int64_t wall_ns) {
  TraceModel model = builder_.Build(wall_ns);
  const auto find = [](const auto& places, ThreadIndex thread, int64_t start_ns) {
    const auto found = places.find({thread, start_ns});
    return found == places.end() ? Place() : found->second;
  };
  attribution_.of_scope = {};
  attribution_.of_call.clear();
  for (ScopeIndex scope = 0; scope < model.scopes.size(); ++scope) {
    attribution_.of_scope.push_back(find(scope_places_, model.scopes.thread[scope], model.scopes.start_ns[scope]));
  }
  for (CallIndex call = 0; call < model.calls.size(); ++call) {
    attribution_.of_call.push_back(find(call_places_, model.calls.thread[call], model.calls.start_ns[call]));
  }
  return model;
}

std::vector<StepTrack> TrainingProgram::Steps() {
  const TraceModel model = Build();
  return FindStepTracks(model, attribution_);
}

std::string Kinds(const StepTrack& track) {
  std::string kinds;
  for (const Step& step : track.steps) kinds += StepKindName(step.kind)[0];
  return kinds;
}

std::string Phases(const Step& step) {
  std::string phases;
  for (const PhaseInterval& phase : step.phases)
    absl::StrAppend(&phases, phases.empty() ? "" : " ", PhaseKindName(phase.kind));
  return phases;
}

}  // namespace dlhook::analyzer
