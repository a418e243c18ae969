#include "tools/model_capture.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <system_error>

#include "fixtures/checkpoint/checkpoint_error.h"
#include "fixtures/checkpoint/whole_file.h"
#include "fixtures/model/capture_model.h"
#include "fixtures/model/synthetic_model.h"
#include "fixtures/sha256.h"
#include "tools/golden_replacement.h"
#include "tools/stopwatch.h"

namespace mlacheck {

namespace {

std::int32_t token_of(const std::filesystem::path& file, std::size_t index,
                      const nlohmann::json& value) {
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > INT32_MAX)
    throw CheckpointError(
        file, fmt::format("token {}: expected a whole number from 0 to {}, got {}", index,
                          INT32_MAX, value.dump()));
  return static_cast<std::int32_t>(value.get<std::uint64_t>());
}

// Of the file's text, or of ids that were `listed`. All spellings are lists of JSON numbers.
std::vector<std::int32_t> parse_tokens(const std::filesystem::path& path, const std::string& text,
                                       bool listed) {
  std::vector<std::int32_t> tokens;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && text[first] == '[') {
    const nlohmann::json list = nlohmann::json::parse(text, nullptr, false);
    if (!list.is_array())
      throw CheckpointError(path, listed ? "expected ids separated by commas, as in 1,2,3"
                                         : "is not a valid JSON list");
    for (const nlohmann::json& value : list) tokens.push_back(token_of(path, tokens.size(), value));
  } else {
    std::istringstream words(text);
    for (std::string word; words >> word;) {
      nlohmann::json value = nlohmann::json::parse(word, nullptr, false);
      if (value.is_discarded()) value = word;
      tokens.push_back(token_of(path, tokens.size(), value));
    }
  }
  if (tokens.empty())
    throw CheckpointError(path, "holds no token: expected ids between white space, or a JSON list");
  return tokens;
}

// "1,2,3", unless there is a file of that name.
bool are_ids(const std::string& tokens) {
  return tokens.find_first_not_of("0123456789,") == std::string::npos &&
         !std::filesystem::exists(tokens);
}

// Once: it may be a pipe.
std::string read_tokens(const std::string& file) {
  try {
    return read_whole_file(file);
  } catch (const CheckpointError& error) {
    throw std::runtime_error(fmt::format(
        "--tokens: {}: expected ids as in 1,2,3, or a file of ids between white space or as a JSON "
        "list",
        error.what()));
  }
}

std::string duration(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", seconds);
  if (seconds < 5400) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

// One line that is written over on a terminal; a line a layer in a log.
class ProgressLine {
 public:
  explicit ProgressLine(std::size_t tokens) : tokens_(tokens) {}
  ~ProgressLine() {
    if (terminal_ && width_ != 0) std::fputs(fmt::format("\r{:{}}\r", "", width_).c_str(), stderr);
  }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(const CaptureProgress& progress) {
    const bool finished = progress.layers_done != layers_done_;
    if (!finished && (!terminal_ || watch_.seconds() < shown_ + kInterval)) return;
    layers_done_ = progress.layers_done;
    shown_ = watch_.seconds();
    const double rate = static_cast<double>(progress.bytes_read) / shown_;
    std::string line = fmt::format("{} tokens: {} of {} layers, {:.2f} GB read, {:.0f} MB/s",
                                   tokens_, progress.layers_done, progress.layers,
                                   static_cast<double>(progress.bytes_read) / 1e9, rate / 1e6);
    // What was read in the first moments says little of the time that the rest takes.
    if (progress.bytes_expected > 0 && progress.bytes_read > progress.bytes_expected / 100)
      line +=
          fmt::format(", {} left", duration(static_cast<double>(progress.bytes_expected) / rate));
    if (terminal_)
      std::fputs(fmt::format("\r{:{}}", line, width_).c_str(), stderr);
    else
      std::fputs((line + "\n").c_str(), stderr);
    std::fflush(stderr);
    width_ = std::max(width_, line.size());
  }

 private:
  static constexpr double kInterval = 0.2;  // seconds
  const bool terminal_ = isatty(STDERR_FILENO) == 1;
  const Stopwatch watch_;
  const std::size_t tokens_;
  std::int64_t layers_done_ = -1;
  double shown_ = 0;
  std::size_t width_ = 0;
};

}  // namespace

Golden capture_from_model(const ModelRequest& request, const std::filesystem::path& out,
                          std::optional<SavedForward>& saved) {
  std::unique_ptr<ModelSource> source;
  ModelCapture capture;
  std::string model, tokens = "synthetic";
  if (request.synthetic.empty()) {
    source = open_model(request.path);
    model = std::filesystem::weakly_canonical(request.path).filename().string();
  } else {
    const SyntheticModel synthetic = synthetic_model(request.synthetic, request.seed);
    source = open_synthetic(synthetic);
    model = fmt::format("synthetic {}, seed {}", request.synthetic, request.seed);
    capture.tokens = synthetic_tokens(synthetic);
  }
  if (!request.tokens.empty()) {
    const bool listed = are_ids(request.tokens);
    const std::string text =
        listed ? fmt::format("[{}]", request.tokens) : read_tokens(request.tokens);
    capture.tokens =
        parse_tokens(listed ? "--tokens " + request.tokens : request.tokens, text, listed);
    tokens =
        fmt::format("{}, sha256 {}",
                    listed ? "given" : std::filesystem::path(request.tokens).filename().string(),
                    sha256_hex(text));
  }
  capture.layers = request.layers;
  const DType activations = request.numerics == "bf16" ? DType::bf16 : DType::f32;
  capture.numerics = layer_numerics(request.profile, activations, source->sizes());
  capture.source = fmt::format("model {}, {} tokens: {}, profile {}", model, capture.tokens.size(),
                               tokens, request.profile);
  require_capture(*source, capture);
  if (std::filesystem::exists(out))  // before hours of work
    require_same_golden(out, capture_attributes(*source, capture));
  saved.emplace(out.string() + ".capture", capture_key(*source, capture));
  ProgressLine line(capture.tokens.size());
  return capture_model(*source, capture, *saved,
                       [&](const CaptureProgress& progress) { line.show(progress); });
}

}  // namespace mlacheck
