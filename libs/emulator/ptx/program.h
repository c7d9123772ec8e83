// PTX after parsing: functions with their statements, registers and variables, and the source lines they came from.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace flashcore::emu::ptx {

/**
 * An error in a PTX text, or a feature of PTX that this engine does not support. `place` is the kernel's line if known.
 */
struct ProgramError : std::runtime_error {
  ProgramError(const std::string& message, std::string where = "") : std::runtime_error(message), place(where) {}
  std::string place;
};

/** A list of the parts of a statement. An index past its end means that the input program is malformed. */
template <class T>
class Listed : public std::vector<T> {
 public:
  using std::vector<T>::vector;
  const T& operator[](size_t n) const { return std::vector<T>::operator[](checked(n)); }
  T& operator[](size_t n) { return std::vector<T>::operator[](checked(n)); }
  const T& back() const { return (*this)[this->size() - 1]; }
  T& back() { return (*this)[this->size() - 1]; }

 private:
  size_t checked(size_t n) const {
    if (n >= this->size()) throw ProgramError("an instruction that lacks a modifier or an operand");
    return n;
  }
};

enum class OperandKind : uint8_t { Register, Immediate, Special, Symbol, Address, Vector, Sink };

struct Operand {
  OperandKind kind = OperandKind::Sink;
  bool negated = false;  // the ! of a predicate
  char literal = 0;  // for an immediate: 'f' for 0f…, 'd' for 0d… or a decimal fraction, 0 for an integer
  int reg = -1;  // index into Function::registers; for an Address its base, or -1
  int64_t value = 0;  // bits of an immediate; offset of an address
  std::string name;  // a symbol or special register; for an address the symbol that is its base
  Listed<Operand> items;  // items of a vector {a, b} or a pair d|p; coordinates of an address
};

struct Statement {
  std::string op;  // "ld", "mma" …
  Listed<std::string> mods;  // modifiers, between the dots
  int guard = -1;  // predicate register, or -1
  bool guard_negated = false;
  Listed<Operand> operands;
  int place = 0;  // into Program::places
  int target = -1;  // for a branch: the index of a statement
  bool is_label = false;  // true if a jump leads here
};

struct Register {
  unsigned bytes = 0;  // bytes per lane: 2, 4 or 8; 0 for a predicate
  bool is_float = false, is_integer = false;  // as declared; both false: bits
};

enum class Space : uint8_t { Global, Constant, Shared, Local, Parameter };

/**
 * Bytes of an initial value that hold a variable's or function's address, or a part of it. They are written when all
 * addresses are known.
 */
struct Relocation {
  uint64_t at = 0;
  unsigned bytes = 0, shift = 0;  // how many bytes of the address to write, from bit `shift` on
  std::string name;
  int64_t offset = 0;
};

struct Variable {
  std::string name;
  Space space = Space::Global;
  unsigned align = 1;
  uint64_t bytes = 0;
  bool external = false;  // declared extern .shared: the dynamic part
  uint64_t offset = 0;  // within its memory space
  std::string initial;  // the initial bytes of a global or constant, as many as the text has
  std::vector<Relocation> relocations;
};

struct Parameter {
  std::string name;
  unsigned bytes = 0, align = 1, offset = 0;
};

struct Function {
  std::string name;
  std::vector<Parameter> parameters;
  std::vector<Parameter> answers;  // results of a called function
  unsigned parameter_bytes = 0;
  std::vector<Register> registers;
  std::vector<Variable> variables;  // shared and local variables
  std::vector<Statement> statements;
  std::vector<std::vector<int>> branch_tables;
  unsigned shared_bytes = 0, local_bytes = 0;
  unsigned max_threads = 0;  // .maxntid; 0: none
  unsigned cluster[3] = {};  // .reqnctapercluster; 0: set by the launch
  int place = 0;
};

/** A line of a source file, and the place of the call that inlined it. */
struct SourcePlace {
  int file = 0, line = 0, column = 0, inlined_at = 0;
};

struct Program {
  std::string target;
  std::vector<std::string> files;  // by .file number
  std::vector<SourcePlace> places;  // [0]: unknown
  std::vector<Variable> globals;
  std::vector<Variable> shared;  // shared variables of the module
  std::vector<Function> functions;  // entries
  std::vector<Function> callable;  // functions that the entries call
  bool races = false;  // the text has "// flashcore: races", which asks for the race check
  bool complete = false;  // "// flashcore: complete": an unsupported instruction in any entry is an error
  /** 89 for sm_89, 90 for sm_90a. */
  unsigned architecture() const {
    return static_cast<unsigned>(atoi(target.c_str() + (target.rfind("sm_", 0) == 0 ? 3 : 0)));
  }
  /** "flashcore_v6.cu:43": the innermost line that is not in CUDA's own headers. Empty if unknown. */
  std::string describe(int place) const;
  /**
   * Lines for the places of a kernel's instructions: lines of the kernel's own file. For code in the kernel's headers,
   * it is the line that calls it. Where a single line calls nearly all of the code, such as a macro that defines an
   * entry, the lines in the called function's file are given instead, if it is the kernel's. Empty if unknown.
   */
  std::vector<std::string> lines_in_kernel(const std::vector<int>& code) const;
  /** The outermost call that inlined the place; empty if none did. */
  std::string describe_caller(int place) const;
  int outermost_of(int place) const;
  /**
   * The innermost line in the file of the outermost call, if the `skipped` outermost calls are left out. Empty if no
   * call is left.
   */
  std::string describe_within(int place, size_t skipped) const;
};

/** Reads PTX. Errors: ProgramError. */
Program parse(const std::string& text);

/**
 * The error that ptxas would report for a statement, so that a kernel that runs on the emulator also compiles for a
 * GPU. Empty if no rule finds one.
 */
std::string fault_of(const Statement& statement, const Function& function);

/** True if there is a special register of this name. */
bool is_special_register(const std::string& name);

}  // namespace flashcore::emu::ptx
