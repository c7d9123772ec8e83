// Reads PTX text: one pass over its tokens, with a scope for each pair of braces.
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "program.h"

namespace flashcore::emu::ptx {

namespace {

constexpr size_t MAX_STATEMENTS = 4'000'000;
constexpr uint64_t MOST_ALIGNMENT = 1 << 16;
constexpr uint64_t MOST_VARIABLE_BYTES = uint64_t(1) << 40;
constexpr uint64_t MOST_PARAMETER_BYTES = 1 << 16;
constexpr int DEEPEST_OPERAND = 16;
constexpr size_t DEEPEST_SCOPE = 1000;
/** How many nested inlined calls are followed, and how many callers of a line are told apart. */
constexpr size_t MOST_CALLS = 64, MOST_CALLERS = 32;
/** A line with at least this share of a kernel's instructions counts as the call that contains all of them. */
constexpr double CALLS_NEARLY_ALL = 0.9;

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

bool is_word(char c) { return isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%'; }

struct Token {
  enum Kind { End, Word, Number, Text, Mark } kind = End;
  std::string text;
};

class Parser {
 public:
  explicit Parser(const std::string& text) : text_(text) { program_.places.emplace_back(); }

  Program run() {
    requests();
    next();
    while (token_.kind != Token::End) top_level();
    // Done after parsing, because LLVM writes .file after the code.
    for (const auto& [place, name] : callers_) program_.places[place].file = file_named(name);
    return std::move(program_);
  }

 private:
  struct Scope {
    std::map<std::string, int> registers;
    std::map<std::string, int> labels;
  };

  /** Reads the runner's requests, which are comments on the first lines. */
  void requests() {
    static const std::string MARK = "// flashcore: ";
    for (size_t at = 0; text_.compare(at, MARK.size(), MARK) == 0;) {
      const size_t end = std::min(text_.find('\n', at), text_.size());
      const std::string request = text_.substr(at + MARK.size(), end - at - MARK.size());
      program_.races |= request == "races";
      program_.complete |= request == "complete";
      at = std::min(end + 1, text_.size());
    }
  }

  // --- tokens -------------------------------------------------------------------------------------------------

  [[noreturn]] void fail(const std::string& message) const {
    throw ProgramError("PTX line " + std::to_string(line_) + ": " + message, program_.describe(place_));
  }

  void skip_blank() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') ++line_;
      if (isspace(static_cast<unsigned char>(c))) {
        ++at_;
      } else if (c == '/' && at_ + 1 < text_.size() && text_[at_ + 1] == '/') {
        while (at_ < text_.size() && text_[at_] != '\n') ++at_;
      } else if (c == '/' && at_ + 1 < text_.size() && text_[at_ + 1] == '*') {
        const size_t end = text_.find("*/", at_ + 2);
        const size_t stop = end == std::string::npos ? text_.size() : end + 2;
        for (; at_ < stop; ++at_) line_ += text_[at_] == '\n';
      } else {
        return;
      }
    }
  }

  void next() {
    skip_blank();
    token_ = Token();
    if (at_ >= text_.size() || text_[at_] == 0) return;
    const size_t start = at_;
    const char c = text_[at_];
    if (c == '"') {
      const size_t end = text_.find('"', at_ + 1);
      if (end == std::string::npos) fail("a text has no end");
      token_ = {Token::Text, text_.substr(at_ + 1, end - at_ - 1)};
      at_ = end + 1;
      return;
    }
    if (isdigit(static_cast<unsigned char>(c))) {
      while (at_ < text_.size() && (isalnum(static_cast<unsigned char>(text_[at_])) || text_[at_] == '.')) ++at_;
      token_ = {Token::Number, text_.substr(start, at_ - start)};
      return;
    }
    if (is_word(c) || c == '.') {
      ++at_;
      // A directive may follow another without a space, as in .reg.b16.
      const bool directive = c == '.';
      while (at_ < text_.size() && (is_word(text_[at_]) || (text_[at_] == '.' && !directive) ||
                                    (text_[at_] == ':' && at_ + 1 < text_.size() && text_[at_ + 1] == ':'))) {
        if (text_[at_] == ':') ++at_;
        ++at_;
      }
      token_ = {Token::Word, text_.substr(start, at_ - start)};
      return;
    }
    ++at_;
    token_ = {Token::Mark, std::string(1, c)};
  }

  bool is(const char* text) const { return token_.text == text && token_.kind != Token::Text; }
  bool take(const char* text) {
    if (!is(text)) return false;
    next();
    return true;
  }
  void expect(const char* text) {
    if (!take(text)) fail(std::string("must be ") + text + ", got " + (token_.text.empty() ? "the end" : token_.text));
  }
  std::string word() {
    std::string text = token_.text;
    if (token_.kind != Token::Word) fail("must be a name, got " + text);
    next();
    return text;
  }
  int64_t integer() {
    const bool minus = take("-");
    if (token_.kind != Token::Number) fail("must be a number, got " + token_.text);
    const auto value = static_cast<int64_t>(strtoull(token_.text.c_str(), nullptr, 0));
    next();
    return minus ? negated(value) : value;
  }
  static int64_t negated(int64_t value) { return static_cast<int64_t>(0 - static_cast<uint64_t>(value)); }
  /** Reads the extent of an array, or an alignment. */
  uint64_t extent(uint64_t most) {
    const int64_t value = integer();
    if (value < 0 || static_cast<uint64_t>(value) > most) fail("a size of " + std::to_string(value));
    return static_cast<uint64_t>(value);
  }
  unsigned alignment() {
    const uint64_t value = extent(MOST_ALIGNMENT);
    if (value == 0 || (value & (value - 1)) != 0) fail("an alignment of " + std::to_string(value));
    return static_cast<unsigned>(value);
  }
  void skip_line() {
    while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    next();
  }
  void skip_to(const char* mark) {
    while (!is(mark) && token_.kind != Token::End) next();
    expect(mark);
  }
  void skip_braces() {
    int depth = 0;
    do {
      if (is("{")) ++depth;
      if (is("}")) --depth;
      if (token_.kind == Token::End) fail("a brace has no end");
      next();
    } while (depth > 0);
  }

  // --- directives -----------------------------------------------------------------------------------------------

  static unsigned type_bytes(const std::string& type) {
    if (type == ".f16x2") return 4;
    const size_t digits = type.find_first_of("0123456789");
    if (type == ".pred" || digits == std::string::npos || type.size() > digits + 3) return 0;
    return static_cast<unsigned>(atoi(type.c_str() + digits)) / 8;
  }

  void file_directive() {
    const auto number = static_cast<size_t>(integer());
    if (number > 10'000) fail("a file's number is too large");
    if (program_.files.size() <= number) program_.files.resize(number + 1);
    if (token_.kind == Token::Text) take_quotes_of_path();
    program_.files[number] = token_.text;
    next();
    while (take(",")) next();  // modification time and size of the file
  }

  /**
   * Compilers do not escape quotes in a folder's name, so a path with quotes ends at the line's last quote. A path
   * counts as such only if its second quote touches the next word, which ptxas refuses. Otherwise code after a complete
   * path would become part of the path.
   */
  void take_quotes_of_path() {
    if (at_ >= text_.size() || !is_word(text_[at_])) return;
    const size_t line_end = std::min(text_.find('\n', at_), text_.size());
    const size_t last = text_.rfind('"', line_end);
    if (last == std::string::npos || last < at_) return;
    token_.text += text_.substr(at_ - 1, last - at_ + 1);
    at_ = last + 1;
  }

  void loc_directive() {
    const size_t loc_at = at_;
    SourcePlace place;
    place.file = static_cast<int>(integer());
    place.line = static_cast<int>(integer());
    place.column = static_cast<int>(integer());
    while (take(",")) {
      const std::string what = word();
      if (what == "function_name") {
        word();
        if (take("+")) integer();
      } else if (what == "inlined_at") {
        const int file = static_cast<int>(integer()), line = static_cast<int>(integer());
        place.inlined_at = place_of_call(file, line, static_cast<int>(integer()));
      }
    }
    // clang writes line 0 for an instruction that it moved. Such an instruction keeps the current line.
    if (place.line == 0) return;
    if (!place.inlined_at) place.inlined_at = caller_in_comment(loc_at);
    place_ = known_place(place);
  }
  int known_place(const SourcePlace& place) {
    std::vector<int>& known = places_by_line_[{place.file, place.line, place.column}];
    for (const int each : known)
      if (program_.places[each].inlined_at == place.inlined_at) return each;
    if (known.size() == MOST_CALLERS) known.erase(known.begin());
    program_.places.push_back(place);
    known.push_back(static_cast<int>(program_.places.size()) - 1);
    return known.back();
  }

  /** The place and the calls that inlined it, innermost first. */
  std::vector<int> calls_of(int place) const {
    std::vector<int> calls;
    for (; place > 0 && calls.size() < MOST_CALLS; place = program_.places[place].inlined_at) calls.push_back(place);
    return calls;
  }

  /**
   * The place of a call. nvcc names a call by its line alone. If the calling function was itself inlined at several
   * places, that means the place that has the most calls in common with the preceding instruction.
   */
  int place_of_call(int file, int line, int column) {
    const std::vector<int>& known = places_by_line_[{file, line, column}];
    if (known.empty()) return known_place({file, line, column, 0});
    int best = known.back();
    if (known.size() == 1) return best;
    const std::vector<int> calls = calls_of(place_);
    size_t most = 0;
    for (const int each : known) {
      size_t common = 0;
      for (const int call : calls_of(each)) common += std::find(calls.begin(), calls.end(), call) != calls.end();
      if (common <= most) continue;
      most = common;
      best = each;
    }
    return best;
  }

  /**
   * The caller that the comment after a .loc names, such as `// standard.py:290:36 @[ kernel.py:14:25 ]`; 0 if there is
   * none. The comment is needed because LLVM writes no inlined_at for functions without a linkage name, such as
   * Triton's own.
   */
  int caller_in_comment(size_t at_loc) {
    const size_t end = std::min(text_.find('\n', at_loc), text_.size());
    const std::string line = text_.substr(at_loc, end - at_loc);
    int caller = 0;
    // The outermost call is named last.
    for (size_t at = line.rfind("@[ "); at != std::string::npos && at > 0; at = line.rfind("@[ ", at - 1)) {
      const size_t start = at + 3, stop = std::min(line.find(' ', start), line.size());
      const std::string name = line.substr(start, stop - start);
      const size_t second = name.rfind(':'), first = second ? name.rfind(':', second - 1) : second;
      if (second == std::string::npos || first == std::string::npos) return caller;
      const SourcePlace place{0, atoi(name.c_str() + first + 1), atoi(name.c_str() + second + 1), caller};
      if (place.line <= 0) return caller;
      callers_.emplace_back(program_.places.size(), name.substr(0, first));
      program_.places.push_back(place);
      caller = static_cast<int>(program_.places.size()) - 1;
    }
    return caller;
  }
  /** The number of the file with this name; 0 if there is none. */
  int file_named(const std::string& name) const {
    for (size_t n = 0; n < program_.files.size(); ++n)
      if (base_name(program_.files[n]) == name) return static_cast<int>(n);
    return 0;
  }

  void top_level() {
    if (token_.kind != Token::Word) fail("unexpected " + token_.text);
    const std::string directive = word();
    if (directive == ".version" || directive == ".address_size") return next();
    if (directive == ".target") {
      program_.target = word();
      while (take(",")) word();
      return;
    }
    if (directive == ".file") return file_directive();
    if (directive == ".loc") return loc_directive();
    if (directive == ".section") {
      word();
      return skip_braces();
    }
    if (directive == ".pragma") return skip_to(";");
    if (directive == ".visible" || directive == ".extern" || directive == ".weak" || directive == ".common") {
      external_ = directive == ".extern";
      return;
    }
    if (directive == ".entry") return function(true);
    if (directive == ".func") return function(false);
    if (directive == ".alias") return skip_to(";");
    const bool external = std::exchange(external_, false);
    if (directive == ".global") return variable(Space::Global, program_.globals, external);
    if (directive == ".const") return variable(Space::Constant, program_.globals, external);
    if (directive == ".shared") return variable(Space::Shared, program_.shared, external);
    fail("the emulator does not carry " + directive);
  }

  /** Reads declarations such as .align 16 .b8 name[64] = {1, 2}, which may have several names. */
  void variable(Space space, std::vector<Variable>& into, bool external) {
    Variable variable;
    variable.space = space;
    variable.external = external;
    std::string type;
    unsigned vector = 1;
    while (token_.kind == Token::Word && token_.text[0] == '.') {
      type = word();
      if (type == ".align") variable.align = alignment();
      if (type == ".v2") vector = 2;
      if (type == ".v4") vector = 4;
      if (type == ".attribute") skip_to(")");
    }
    const unsigned element = type_bytes(type) * vector;
    if (variable.align < element) variable.align = element;
    do {
      Variable one = variable;
      one.name = word();
      one.bytes = element;
      bool unsized = false;
      while (take("[")) {
        if (is("]"))
          unsized = true;
        else
          one.bytes *= extent(MOST_VARIABLE_BYTES);
        if (one.bytes > MOST_VARIABLE_BYTES) fail("a variable that is too large");
        expect("]");
      }
      if (unsized) one.bytes = 0;
      if (take("=")) initialise(one, element, type);
      into.push_back(std::move(one));
    } while (take(","));
    expect(";");
  }

  void initialise(Variable& variable, unsigned element, const std::string& type) {
    const bool braces = is("{");
    int depth = 0;
    do {
      if (take("{")) {
        ++depth;
        continue;
      }
      if (take("}")) {
        --depth;
        continue;
      }
      if (take(",")) continue;
      const Operand value = initial_value(variable, element);
      int64_t bits = value.kind == OperandKind::Immediate ? value.value : 0;
      if (type[1] == 'f' && value.literal == 0) fail("an initial value of a wrong type");
      for (unsigned i = 0; i < element; ++i, bits >>= 8) variable.initial += static_cast<char>(bits);
    } while (braces && depth > 0);
  }

  /**
   * A number, or an address that is recorded as a relocation: name+8, generic(name)+8, or a byte of an address as
   * 0xFF00(name).
   */
  Operand initial_value(Variable& variable, unsigned element) {
    Relocation relocation;
    relocation.at = variable.initial.size();
    relocation.bytes = element;
    Operand value = operand();
    if (take("(")) {
      const bool masks = value.kind == OperandKind::Immediate;
      if (masks && value.value == 0) fail("a mask of no bits");
      if (!masks && value.name != "generic") fail("must be generic or a mask in front of (, got " + value.name);
      if (masks) relocation.shift = static_cast<unsigned>(__builtin_ctzll(static_cast<uint64_t>(value.value)));
      value = operand();
      expect(")");
      if (take("+")) value.value += integer();
    }
    if (value.kind == OperandKind::Immediate) return value;
    if (value.kind != OperandKind::Symbol) fail("an initial value must be a number or an address");
    relocation.name = value.name;
    relocation.offset = value.value;
    variable.relocations.push_back(std::move(relocation));
    return value;
  }

  // --- functions ------------------------------------------------------------------------------------------------

  void parameters(std::vector<Parameter>& list, unsigned& total) {
    while (!take(")")) {
      if (take(",")) continue;
      Parameter parameter;
      std::string type;
      while (token_.kind == Token::Word && token_.text[0] == '.') {
        const std::string part = word();
        if (part == ".align")
          parameter.align = alignment();
        else if (part != ".param" && part != ".ptr" && part != ".global" && part != ".shared" && part != ".const")
          type = part;
      }
      parameter.bytes = type_bytes(type);
      if (parameter.align < parameter.bytes) parameter.align = parameter.bytes;
      parameter.align = std::max(parameter.align, 1u);
      parameter.name = word();
      if (take("[")) {
        parameter.bytes *= static_cast<unsigned>(extent(MOST_PARAMETER_BYTES));
        expect("]");
      }
      total = (total + parameter.align - 1) / parameter.align * parameter.align;
      parameter.offset = total;
      total += parameter.bytes;
      if (total > MOST_PARAMETER_BYTES) fail("too many parameters");
      list.push_back(std::move(parameter));
    }
  }

  void function(bool entry) {
    function_ = Function();
    function_.place = place_;
    const bool external = std::exchange(external_, false);
    unsigned bytes = 0;
    if (take("(")) parameters(function_.answers, bytes);
    function_.name = word();
    if (take("(")) parameters(function_.parameters, function_.parameter_bytes);
    while (!is("{") && !is(";")) {
      const std::string directive = word();
      if (directive == ".maxntid") {
        function_.max_threads = static_cast<unsigned>(integer());
        while (take(",")) function_.max_threads *= static_cast<unsigned>(integer());
      } else if (directive == ".reqnctapercluster") {
        for (unsigned& extent : function_.cluster) {
          extent = token_.kind == Token::Number ? static_cast<unsigned>(integer()) : 1;
          take(",");
        }
      } else if (token_.kind == Token::Number) {
        next();
        while (take(",")) next();
      }
    }
    if (take(";")) return;
    if (external) fail("an extern function has a body");
    scopes_.assign(1, Scope());
    branches_.clear();
    expect("{");
    while (!scopes_.empty()) statement();
    std::vector<bool> jumped(function_.statements.size() + 1);
    for (const Statement& s : function_.statements)
      if (s.target >= 0) jumped[s.target] = true;
    for (const auto& table : function_.branch_tables)
      for (const int target : table) jumped[target] = true;
    Statement end;
    end.op = "ret";
    end.place = place_;
    function_.statements.push_back(end);
    for (size_t i = 0; i < jumped.size(); ++i) function_.statements[i].is_label = jumped[i];
    (entry ? program_.functions : program_.callable).push_back(std::move(function_));
  }

  struct Branch {
    int statement;     // index of the statement; -1 if it is an entry of a table
    int table, entry;  // indices into Function::branch_tables and its entries
    std::string label;
    int depth;
  };

  void close_scope() {
    const int depth = static_cast<int>(scopes_.size());
    const auto& labels = scopes_.back().labels;
    std::vector<Branch> open;
    for (Branch& branch : branches_) {
      const auto found = branch.depth == depth ? labels.find(branch.label) : labels.end();
      if (found == labels.end()) {
        if (depth == 1) fail("there is no label " + branch.label);
        if (branch.depth == depth) --branch.depth;
        open.push_back(branch);
      } else if (branch.statement >= 0) {
        function_.statements[branch.statement].target = found->second;
      } else {
        function_.branch_tables[branch.table][branch.entry] = found->second;
      }
    }
    branches_ = std::move(open);
    scopes_.pop_back();
  }

  void declare_registers() {
    const std::string type = word();
    Register reg;
    reg.bytes = type_bytes(type);
    if (reg.bytes == 1) reg.bytes = 2;
    reg.is_float = type.rfind(".f", 0) == 0;
    reg.is_integer = type[1] == 's' || type[1] == 'u';
    if (reg.bytes > 16) fail("the emulator does not carry registers of type " + type);
    do {
      const std::string name = word();
      int count = -1;
      if (take("<")) {
        count = static_cast<int>(integer());
        expect(">");
      }
      if (count > 1'000'000 || function_.registers.size() > 2'000'000) fail("too many registers");
      for (int i = 0; i < (count < 0 ? 1 : count); ++i) {
        const std::string one = count < 0 ? name : name + std::to_string(i);
        const auto number = static_cast<int>(function_.registers.size());
        if (!scopes_.back().registers.emplace(one, number).second) fail("there are two registers " + one);
        function_.registers.push_back(reg);
      }
    } while (take(","));
    expect(";");
  }

  void statement() {
    if (take("{")) {
      if (scopes_.size() > DEEPEST_SCOPE) fail("too many braces");
      scopes_.emplace_back();
      return;
    }
    if (take("}")) return close_scope();
    if (token_.kind == Token::End) fail("a function has no end");
    if (function_.statements.size() > MAX_STATEMENTS) fail("the kernel has too many instructions");
    if (token_.kind == Token::Word && token_.text[0] == '.') return directive();
    if (token_.kind == Token::Word && token_.text[0] != '%') {
      std::string name = word();
      if (take(":")) {
        if (!scopes_.back().labels.emplace(name, static_cast<int>(function_.statements.size())).second)
          fail("there are two labels " + name);
        if (is(".branchtargets")) branch_table(name);
        if (is(".callprototype") || is(".calltargets")) skip_to(";");
        return;
      }
      return instruction(std::move(name), -1, false);
    }
    if (take("@")) {
      const bool negated = take("!");
      const int guard = find_register(word());
      if (guard < 0) fail("an unknown predicate");
      return instruction(word(), guard, negated);
    }
    fail("unexpected " + token_.text);
  }

  void branch_table(const std::string& name) {
    next();
    const int table = static_cast<int>(function_.branch_tables.size());
    function_.branch_tables.emplace_back();
    tables_[name] = table;
    do {
      const int entry = static_cast<int>(function_.branch_tables[table].size());
      function_.branch_tables[table].push_back(0);
      branches_.push_back({-1, table, entry, word(), static_cast<int>(scopes_.size())});
    } while (take(","));
    expect(";");
  }

  void directive() {
    const std::string directive = word();
    if (directive == ".reg") return declare_registers();
    if (directive == ".loc") return loc_directive();
    if (directive == ".pragma") return skip_to(";");
    if (directive == ".shared") return variable(Space::Shared, function_.variables, false);
    if (directive == ".local") return variable(Space::Local, function_.variables, false);
    if (directive == ".param") {
      std::vector<Variable> list;
      variable(Space::Parameter, list, false);
      // Arguments of a call go through the thread's local memory.
      for (Variable& each : list) {
        each.space = Space::Local;
        function_.variables.push_back(std::move(each));
      }
      return;
    }
    if (directive == ".const" || directive == ".global")
      return variable(directive == ".const" ? Space::Constant : Space::Global, program_.globals, false);
    fail("the emulator does not carry " + directive);
  }

  int find_register(const std::string& name) const {
    for (size_t i = scopes_.size(); i-- > 0;) {
      const auto found = scopes_[i].registers.find(name);
      if (found != scopes_[i].registers.end()) return found->second;
    }
    return -1;
  }

  void instruction(std::string opcode, int guard, bool negated) {
    Statement s;
    s.guard = guard;
    s.guard_negated = negated;
    s.place = place_;
    size_t start = 0;
    for (size_t dot; (dot = opcode.find('.', start)) != std::string::npos; start = dot + 1)
      (start == 0 ? s.op = opcode.substr(0, dot) : s.mods.emplace_back(opcode.substr(start, dot - start)));
    (start == 0 ? s.op = opcode.substr(start) : s.mods.emplace_back(opcode.substr(start)));
    // The input may not have the modifiers that simplify.cpp and fuse.cpp introduce.
    for (const std::string& mod : s.mods)
      if (mod == "run" || mod == "low" || mod == "high" || mod == "pair") fail("there is no ." + mod);
    if (s.op == "call") return call(std::move(s));
    if (!is(";")) do {
        Operand o = operand();
        if (take("|")) {
          Operand pair;
          pair.kind = OperandKind::Vector;
          pair.items = {o, operand()};
          o = std::move(pair);
        }
        s.operands.push_back(std::move(o));
      } while (take(","));
    expect(";");
    // Triton writes a single register in braces.
    if (s.op == "ld" || s.op == "st")
      for (Operand& o : s.operands)
        if (o.kind == OperandKind::Vector && o.items.size() == 1) o = Operand(o.items[0]);
    const std::string fault = fault_of(s, function_);
    if (!fault.empty()) fail(opcode + ": " + fault);
    if (s.op == "bra" || s.op == "brx") {
      const std::string label = s.operands.back().name;
      if (s.op == "bra")
        branches_.push_back(
            {static_cast<int>(function_.statements.size()), 0, 0, label, static_cast<int>(scopes_.size())});
      else
        s.operands.back().value = tables_.count(label) ? tables_[label] : -1;
    }
    function_.statements.push_back(std::move(s));
  }

  /** Reads call (result), name, (parameters). The values stored to the parameters become operands. */
  void call(Statement s) {
    Operand answers, arguments;
    answers.kind = arguments.kind = OperandKind::Vector;
    if (take("(")) {
      while (!take(")"))
        if (!take(",")) answers.items.push_back(operand());
      expect(",");
    }
    Operand name = operand();
    if (take(",") && take("("))
      while (!take(")"))
        if (!take(",")) arguments.items.push_back(operand());
    while (!is(";")) next();
    expect(";");
    s.operands = {std::move(answers), std::move(name), std::move(arguments)};
    function_.statements.push_back(std::move(s));
  }

  Operand operand(int depth = 0) {
    Operand o;
    if (depth > DEEPEST_OPERAND) fail("too many braces");
    if (take("!")) {
      o = operand(depth + 1);
      o.negated = true;
      return o;
    }
    if (take("{")) {
      o.kind = OperandKind::Vector;
      do o.items.push_back(operand(depth + 1));
      while (take(","));
      expect("}");
      return o;
    }
    if (take("[")) return address(depth + 1);
    if (is("-") || token_.kind == Token::Number) return immediate();
    if (is("_")) {
      next();
      return o;
    }
    const std::string name = word();
    o.reg = find_register(name);
    o.name = name;
    if (o.reg >= 0) {
      o.kind = OperandKind::Register;
      return o;
    }
    o.kind = name[0] == '%' ? OperandKind::Special : OperandKind::Symbol;
    if (o.kind == OperandKind::Special && !is_special_register(name)) fail("there is no register " + name);
    if (take("+")) o.value = integer();
    return o;
  }

  Operand address(int depth) {
    Operand o;
    o.kind = OperandKind::Address;
    if (token_.kind == Token::Number || is("-")) {
      o.value = integer();
    } else {
      o.name = word();
      o.reg = find_register(o.name);
      if (take("+"))
        o.value = integer();
      else if (is("-"))
        o.value = integer();
    }
    while (take(",")) o.items.push_back(operand(depth));
    expect("]");
    return o;
  }

  Operand immediate() {
    Operand o;
    o.kind = OperandKind::Immediate;
    const bool minus = take("-");
    const std::string text = token_.text;
    if (token_.kind != Token::Number) fail("must be a number, got " + text);
    next();
    if (text.size() > 2 && text[0] == '0' && strchr("fFdD", text[1])) {
      o.literal = text[1] == 'f' || text[1] == 'F' ? 'f' : 'd';
      o.value = static_cast<int64_t>(strtoull(text.c_str() + 2, nullptr, 16));
      if (minus) o.value ^= o.literal == 'f' ? int64_t(1) << 31 : INT64_MIN;
      return o;
    }
    if (text.find('.') != std::string::npos) {
      const double value = strtod(text.c_str(), nullptr) * (minus ? -1 : 1);
      o.literal = 'd';
      memcpy(&o.value, &value, 8);
      return o;
    }
    o.value = static_cast<int64_t>(strtoull(text.c_str(), nullptr, 0));
    if (minus) o.value = negated(o.value);
    return o;
  }

  const std::string& text_;
  size_t at_ = 0;
  int line_ = 1;
  Token token_;
  Program program_;
  Function function_;
  std::vector<Scope> scopes_;
  std::vector<Branch> branches_;
  std::map<std::string, int> tables_;
  int place_ = 0;
  bool external_ = false;
  struct LineKey {
    int file, line, column;
    bool operator<(const LineKey& o) const {
      if (file != o.file) return file < o.file;
      return line != o.line ? line < o.line : column < o.column;
    }
  };
  std::map<LineKey, std::vector<int>> places_by_line_;
  std::vector<std::pair<size_t, std::string>> callers_;  // places whose file is known by its name alone
};

/** True for CUDA's own headers and Triton's own functions, whose callers' lines are reported instead. */
bool is_toolkit_file(const std::string& path) {
  for (const char* part : {"/targets/", "/cuda", "/crt/", "triton/language/"})
    if (path.find(part) != std::string::npos) return true;
  return path == "standard.py";  // a file of Triton, in PTX that names files without folders
}

/** The path below the folder of the kernel, or of all kernels; empty if the file is elsewhere. */
std::string path_in_kernel(const std::string& path) {
  for (const char* folder : {"/kernel/", "/kernels/"}) {
    const size_t at = path.rfind(folder);
    if (at != std::string::npos) return path.substr(at + strlen(folder));
  }
  for (const char* folder : {"kernel/", "kernels/"})
    if (path.rfind(folder, 0) == 0) return path.substr(strlen(folder));
  return "";
}

/** The path as the build names it. */
std::string shown_path(const std::string& path) {
  const std::string inside = path_in_kernel(path);
  return inside.empty() ? base_name(path) : inside;
}

}  // namespace

std::string Program::describe(int place) const {
  std::string of_toolkit;
  for (size_t hops = 0; place > 0 && hops < MOST_CALLS; place = places[place].inlined_at, ++hops) {
    const SourcePlace& at = places[place];
    if (at.file <= 0 || static_cast<size_t>(at.file) >= files.size() || at.line <= 0) continue;
    const std::string& path = files[at.file];
    const std::string shown = shown_path(path) + ":" + std::to_string(at.line);
    if (!is_toolkit_file(path)) return shown;
    of_toolkit = shown;
  }
  return of_toolkit;
}

std::string Program::describe_caller(int place) const {
  const int caller = outermost_of(place);
  return caller == place ? "" : describe(caller);
}

int Program::outermost_of(int place) const {
  for (size_t hops = 0; places[place].inlined_at > 0 && hops < MOST_CALLS; ++hops) place = places[place].inlined_at;
  return place;
}

std::string Program::describe_within(int place, size_t skipped) const {
  std::vector<int> calls;  // innermost first
  for (; place > 0 && calls.size() < MOST_CALLS; place = places[place].inlined_at) calls.push_back(place);
  if (skipped >= calls.size()) return "";
  calls.resize(calls.size() - skipped);
  const size_t file = places[calls.back()].file;
  if (skipped > 0 && (file >= files.size() || path_in_kernel(files[file]).empty())) return "";
  for (const int call : calls)
    if (places[call].file == places[calls.back()].file && places[call].line > 0) return describe(call);
  return "";
}

std::vector<std::string> Program::lines_in_kernel(const std::vector<int>& code) const {
  struct Lines {
    size_t instructions = 0, skipped = 0;
    std::string line;
  };
  std::map<int, Lines> of_places;
  size_t known = 0;
  for (const int place : code) ++of_places[place].instructions;
  for (auto& [place, lines] : of_places) {
    lines.line = describe_within(place, 0);
    if (!lines.line.empty()) known += lines.instructions;
  }
  // In each round, the line that calls nearly everything gives way to lines of what it calls.
  for (bool changed = true; changed;) {
    changed = false;
    std::map<std::string, size_t> instructions;
    for (const auto& [place, lines] : of_places)
      if (!lines.line.empty()) instructions[lines.line] += lines.instructions;
    for (const auto& [line, count] : instructions) {
      if (count < CALLS_NEARLY_ALL * known) continue;
      for (auto& [place, lines] : of_places) {
        if (lines.line != line) continue;
        std::string inner = line;
        while (inner == line) inner = describe_within(place, ++lines.skipped);
        if (inner.empty()) continue;
        lines.line = inner;
        changed = true;
      }
    }
  }
  std::vector<std::string> lines;
  for (const int place : code) lines.push_back(of_places[place].line);
  return lines;
}

Program parse(const std::string& text) { return Parser(text).run(); }

}  // namespace flashcore::emu::ptx
