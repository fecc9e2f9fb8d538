// libcudnn: recurrent networks. Weights of all layers, then biases, gate after gate.
#include "descriptors.h"

namespace {

constexpr int kSuccess = 0;

// As passed to cudnnSetRNNDescriptor_v8.
struct Rnn {
  int algorithm = 0, mode = 0, bias = 0, direction = 0, input_mode = 0, type = 0, compute_type = 0;
  int math_type = 0, input = 0, hidden = 0, projection = 0, layers = 0;
  void* dropout = nullptr;
  unsigned flags = 0;
};

struct Sequences {
  int type = 0, layout = 0, longest = 0, batch = 0, vector = 0;
  std::vector<int>* lengths = nullptr;
};

int Gates(const Rnn& rnn) { return rnn.mode == 2 ? 4 : rnn.mode == 3 ? 3 : 1; }  // LSTM, GRU
int Directions(const Rnn& rnn) { return rnn.direction != 0 ? 2 : 1; }
size_t ElementBytes(const Rnn& rnn) { return rnn.type == 1 ? 8 : rnn.type == 0 ? 4 : 2; }

int64_t InputOf(const Rnn& rnn, int pseudo_layer) {
  return pseudo_layer < Directions(rnn) ? rnn.input : int64_t{rnn.hidden} * Directions(rnn);
}

int64_t WeightsOf(const Rnn& rnn, int pseudo_layer) {  // input and recurrent ones
  return Gates(rnn) * int64_t{rnn.hidden} * (InputOf(rnn, pseudo_layer) + rnn.hidden);
}

int64_t WeightsBefore(const Rnn& rnn, int pseudo_layer) {
  int64_t sum = 0;
  for (int layer = 0; layer < pseudo_layer; ++layer) sum += WeightsOf(rnn, layer);
  return sum;
}

int64_t BiasesOf(const Rnn& rnn) { return int64_t{2} * Gates(rnn) * rnn.hidden; }

void Describe(void* descriptor, const Rnn& rnn, int64_t rows, int64_t columns) {
  if (descriptor == nullptr) return;
  auto* tensor = As<Tensor>(descriptor);
  tensor->type = rnn.type;
  tensor->count = 3;
  const int sizes[] = {1, static_cast<int>(rows), static_cast<int>(columns)};
  const int strides[] = {sizes[1] * sizes[2], sizes[2], 1};
  CopyInts(tensor->sizes, sizes, 3);
  CopyInts(tensor->strides, strides, 3);
}

}  // namespace

FAKE(int, cudnnCreateRNNDescriptor, void** out) { return Create<Rnn>(out); }
FAKE(int, cudnnDestroyRNNDescriptor, void* descriptor) { return Destroy<Rnn>(descriptor); }
FAKE(int, cudnnCreateRNNDataDescriptor, void** out) { return Create<Sequences>(out); }

FAKE(int, cudnnDestroyRNNDataDescriptor, void* descriptor) {
  delete As<Sequences>(descriptor)->lengths;
  return Destroy<Sequences>(descriptor);
}

FAKE(int, cudnnSetRNNDescriptor_v8, void* descriptor, int algorithm, int mode, int bias, int direction, int input_mode,
     int type, int compute_type, int math_type, int input, int hidden, int projection, int layers, void* dropout,
     unsigned flags) {
  *As<Rnn>(descriptor) = {algorithm, mode,  bias,   direction,  input_mode, type,    compute_type,
                          math_type, input, hidden, projection, layers,     dropout, flags};
  return kSuccess;
}

FAKE(int, cudnnGetRNNDescriptor_v8, const void* descriptor, int* algorithm, int* mode, int* bias, int* direction,
     int* input_mode, int* type, int* compute_type, int* math_type, int* input, int* hidden, int* projection,
     int* layers, void** dropout, unsigned* flags) {
  const Rnn& rnn = *As<Rnn>(descriptor);
  *algorithm = rnn.algorithm;
  *mode = rnn.mode;
  *bias = rnn.bias;
  *direction = rnn.direction;
  *input_mode = rnn.input_mode;
  *type = rnn.type;
  *compute_type = rnn.compute_type;
  *math_type = rnn.math_type;
  *input = rnn.input;
  *hidden = rnn.hidden;
  *projection = rnn.projection;
  *layers = rnn.layers;
  *dropout = rnn.dropout;
  *flags = rnn.flags;
  return kSuccess;
}

FAKE(int, cudnnSetRNNDataDescriptor, void* descriptor, int type, int layout, int longest, int batch, int vector,
     const int* lengths, const void*) {
  auto* sequences = As<Sequences>(descriptor);
  delete sequences->lengths;
  *sequences = {type, layout, longest, batch, vector, new std::vector<int>(lengths, lengths + batch)};
  return kSuccess;
}

FAKE(int, cudnnGetRNNDataDescriptor, const void* descriptor, int* type, int* layout, int* longest, int* batch,
     int* vector, int requested, int* lengths, void*) {
  const Sequences& sequences = *As<Sequences>(descriptor);
  *type = sequences.type;
  *layout = sequences.layout;
  *longest = sequences.longest;
  *batch = sequences.batch;
  *vector = sequences.vector;
  if (sequences.lengths != nullptr)
    CopyInts(lengths, sequences.lengths->data(), requested < *batch ? requested : *batch);
  return kSuccess;
}

FAKE(int, cudnnGetRNNWeightSpaceSize, void*, const void* descriptor, size_t* bytes) {
  const Rnn& rnn = *As<Rnn>(descriptor);
  const int pseudo_layers = rnn.layers * Directions(rnn);
  *bytes = static_cast<size_t>(WeightsBefore(rnn, pseudo_layers) + pseudo_layers * BiasesOf(rnn)) * ElementBytes(rnn);
  return kSuccess;
}

FAKE(int, cudnnGetRNNTempSpaceSizes, void*, const void*, int, const void*, size_t* workspace, size_t* reserve) {
  if (workspace != nullptr) *workspace = 1 << 16;
  if (reserve != nullptr) *reserve = 1 << 16;
  return kSuccess;
}

FAKE(int, cudnnGetRNNWeightParams, void*, const void* descriptor, int pseudo_layer, size_t, const void* weights,
     int linear, void* matrix, void** matrix_address, void* bias, void** bias_address) {
  const Rnn& rnn = *As<Rnn>(descriptor);
  const int gates = Gates(rnn);
  const bool recurrent = linear >= gates;
  const int64_t input = InputOf(rnn, pseudo_layer), hidden = rnn.hidden;
  const int64_t columns = recurrent ? hidden : input;
  int64_t offset = WeightsBefore(rnn, pseudo_layer);
  offset += recurrent ? gates * hidden * input + (linear - gates) * hidden * hidden : linear * hidden * input;
  const int64_t all = WeightsBefore(rnn, rnn.layers * Directions(rnn));
  const int64_t bias_offset = all + pseudo_layer * BiasesOf(rnn) + linear * hidden;
  char* base = static_cast<char*>(const_cast<void*>(weights));
  const auto bytes = static_cast<int64_t>(ElementBytes(rnn));
  Describe(matrix, rnn, hidden, columns);
  Describe(bias, rnn, hidden, 1);
  if (matrix_address != nullptr) *matrix_address = base + offset * bytes;
  if (bias_address != nullptr) *bias_address = base + bias_offset * bytes;
  return kSuccess;
}

// --- running them ---

namespace {

int Run(void* handle, const void* descriptor, const void* x, const void* y) {
  const Rnn& rnn = *As<Rnn>(descriptor);
  const auto note = [](const char* name, const Sequences& sequences) {
    NoteNumbers(name, {sequences.longest, sequences.batch, sequences.vector}, {});
  };
  note("x", *As<Sequences>(x));
  note("y", *As<Sequences>(y));
  fake::Note("layers=%d mode=%d", rnn.layers, rnn.mode);
  fake::Work(CudnnHandleOf(handle)->stream, fake::Slowed(5000));
  return kSuccess;
}

}  // namespace

// A fake has no use for the arguments after those named here.
FAKE(int, cudnnRNNForward, void* handle, const void* rnn, int, const void*, const void* x, const void*, const void* y) {
  return Run(handle, rnn, x, y);
}

FAKE(int, cudnnRNNBackwardData_v8, void* handle, const void* rnn, const void*, const void* y, const void*, const void*,
     const void* x) {
  return Run(handle, rnn, x, y);
}

FAKE(int, cudnnRNNBackwardWeights_v8, void* handle, const void* rnn, int, const void*, const void* x, const void*,
     const void*, const void*, const void* y) {
  return Run(handle, rnn, x, y);
}
