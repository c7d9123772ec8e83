// PTX as it was read: functions of statements, registers, variables, and the source lines they came from.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace flashcore::emu::ptx {

/** What is wrong with a PTX text, or what of it this engine does not carry; `place` is the kernel's line if known. */
struct ProgramError : std::runtime_error {
  ProgramError(const std::string& message, std::string where = "") : std::runtime_error(message), place(where) {}
  std::string place;
};

/** What a statement has of one kind. To ask for more than it has is an error of the program that was read. */
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
  bool negated = false;         // a predicate's !
  char literal = 0;             // an immediate written as 'f' 0f…, 'd' 0d… or a decimal fraction; else an integer
  int reg = -1;                 // into Function::registers; of an Address: its base, or -1
  int64_t value = 0;            // an immediate's bits; an address's offset
  std::string name;             // of a symbol (an address's base too) or a special register
  Listed<Operand> items;        // of a vector {a, b}, of a pair d|p; an address's coordinates
};

struct Statement {
  std::string op;                  // "ld", "mma" …
  Listed<std::string> mods;        // what follows it, between the dots
  int guard = -1;                  // predicate register, or -1
  bool guard_negated = false;
  Listed<Operand> operands;
  int place = 0;                   // into Program::places
  int target = -1;                 // of a branch: index of a statement
  bool is_label = false;           // a place that is jumped to
};

struct Register {
  unsigned bytes = 0;  // of a lane: 2, 4 or 8; 0 for a predicate
  bool is_float = false, is_integer = false;  // as declared; neither: of bits
};

enum class Space : uint8_t { Global, Constant, Shared, Local, Parameter };

/** Bytes of an initial value that are part of an address, of a variable or a function: known once all is in its place. */
struct Relocation {
  uint64_t at = 0;
  unsigned bytes = 0, shift = 0;  // of the address, from its bit `shift`
  std::string name;
  int64_t offset = 0;
};

struct Variable {
  std::string name;
  Space space = Space::Global;
  unsigned align = 1;
  uint64_t bytes = 0;
  bool external = false;  // extern .shared: the dynamic part
  uint64_t offset = 0;  // within its space
  std::string initial;  // of a global or constant, as many bytes as were written
  std::vector<Relocation> relocations;
};

struct Parameter {
  std::string name;
  unsigned bytes = 0, align = 1, offset = 0;
};

struct Function {
  std::string name;
  std::vector<Parameter> parameters;
  std::vector<Parameter> answers;  // of a function that is called
  unsigned parameter_bytes = 0;
  std::vector<Register> registers;
  std::vector<Variable> variables;  // shared and local ones
  std::vector<Statement> statements;
  std::vector<std::vector<int>> branch_tables;
  unsigned shared_bytes = 0, local_bytes = 0;
  unsigned max_threads = 0;  // .maxntid; 0: none
  unsigned cluster[3] = {};  // .reqnctapercluster; 0: the launch says
  int place = 0;
};

/** A line of a source file, and the place of the call that it was inlined into. */
struct SourcePlace {
  int file = 0, line = 0, column = 0, inlined_at = 0;
};

struct Program {
  std::string target;
  std::vector<std::string> files;  // by .file number
  std::vector<SourcePlace> places;  // [0]: not known
  std::vector<Variable> globals;
  std::vector<Variable> shared;  // of the module
  std::vector<Function> functions;  // entries
  std::vector<Function> callable;  // what they call
  bool races = false;  // asked to look for races: "// flashcore: races"
  /** 89 of sm_89, 90 of sm_90a. */
  unsigned architecture() const {
    return static_cast<unsigned>(atoi(target.c_str() + (target.rfind("sm_", 0) == 0 ? 3 : 0)));
  }
  /** "flashcore_v6.cu:43": the innermost line that is not CUDA's own header's. Empty if not known. */
  std::string describe(int place) const;
  /** Likewise in the file of the kernel itself: of what its headers do for it, the line that calls them. */
  std::string describe_in_kernel(int place) const;
};

/** Reads PTX. Errors: ProgramError. */
Program parse(const std::string& text);

}  // namespace flashcore::emu::ptx
