#include "property_tests/coverage.h"

#include <fmt/format.h>

#include "cuda/plugin/kernel_library.h"

namespace mlacheck {
namespace {

// So many cases refused, and none judged, are no chance.
constexpr std::int64_t kManyRefused = 10;
constexpr std::size_t kTableWidth = 100;

Recipe kind_of(Operator op) {
  if (op == MLACHECK_SPARSE_ATTENTION) return SparseAttentionRecipe{};
  if (op == MLACHECK_TOP_K) return TopKRecipe{};
  return IndexScoresRecipe{};
}

// A line of the table: words go on under the first one.
class Line {
 public:
  explicit Line(const std::string& title) : text_(fmt::format("  {:<11}", title)) {}
  void add(const std::string& word) {
    if (text_.size() - begin_ + word.size() + 1 > kTableWidth) {
      text_ += '\n';
      begin_ = text_.size();
      text_ += std::string(13, ' ');
    }
    text_ += ' ' + word;
  }
  std::string text() const { return text_ + '\n'; }

 private:
  std::string text_;
  std::size_t begin_ = 0;
};

}  // namespace

Coverage::Coverage(Operator op) : op_(op), keys_(coverage_keys(kind_of(op))) {
  for (const CoverageKey& key : keys_) counts_.emplace_back(key.classes.size());
}

void Coverage::count(const Recipe& recipe, bool judged) {
  const ErrorClasses shown = shown_by(recipe);
  for (std::size_t i = 0; i < visible_.size(); ++i) {
    if (!shown.contains(static_cast<ErrorClass>(i))) continue;
    ++visible_if_judged_[i];
    if (judged) ++visible_[i];
  }
  ++(judged ? judged_ : refused_);
  if (!judged) return;
  const std::vector<std::size_t> classes = coverage_classes(recipe);
  for (std::size_t i = 0; i < counts_.size(); ++i) ++counts_[i][classes[i]];
}

void Coverage::merge(const Coverage& other) {
  for (std::size_t i = 0; i < counts_.size(); ++i)
    for (std::size_t j = 0; j < counts_[i].size(); ++j) counts_[i][j] += other.counts_[i][j];
  for (std::size_t i = 0; i < visible_.size(); ++i) {
    visible_[i] += other.visible_[i];
    visible_if_judged_[i] += other.visible_if_judged_[i];
  }
  judged_ += other.judged_;
  refused_ += other.refused_;
}

bool Coverage::is_refused(std::size_t error) const {
  return visible_[error] == 0 && visible_if_judged_[error] >= kManyRefused;
}

std::vector<ErrorClass> Coverage::never_visible() const {
  std::vector<ErrorClass> never;
  const ErrorClasses errors = errors_of(op_);
  for (std::size_t i = 0; i < visible_.size(); ++i)
    if (errors.contains(static_cast<ErrorClass>(i)) && visible_[i] == 0 && !is_refused(i))
      never.push_back(static_cast<ErrorClass>(i));
  return never;
}

std::string Coverage::table() const {
  std::string text =
      fmt::format("{}: {} cases judged, {} refused\n", operator_name(op_), judged_, refused_);
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    Line line(keys_[i].key);
    for (std::size_t j = 0; j < counts_[i].size(); ++j)
      line.add(fmt::format("{}:{}", keys_[i].classes[j], counts_[i][j]));
    text += line.text();
  }
  Line line("would show");
  const ErrorClasses errors = errors_of(op_);
  for (std::size_t i = 0; i < visible_.size(); ++i)
    if (errors.contains(static_cast<ErrorClass>(i)))
      line.add(fmt::format("{}:{}", name_of(static_cast<ErrorClass>(i)),
                           is_refused(i) ? "refused" : std::to_string(visible_[i])));
  return text + line.text();
}

}  // namespace mlacheck
