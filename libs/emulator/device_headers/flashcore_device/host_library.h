// The parts of the standard library that host functions of a .cu use around launches. They are only declared, because
// they never run.
#pragma once
#include <cstddef>
#include <cstdint>

namespace std {

template <class T>
class initializer_list {
  const T* first_;
  size_t count_;

 public:
  constexpr const T* begin() const { return first_; }
  constexpr const T* end() const { return first_ + count_; }
  constexpr size_t size() const { return count_; }
};

class string {
 public:
  string();
  string(const char*);
  const char* c_str() const;
  size_t size() const;
  string operator+(const string&) const;
  bool operator==(const string&) const;
};
string operator+(const char*, const string&);
template <class T>
string to_string(T);

template <class T>
class vector {
 public:
  vector();
  explicit vector(size_t count, const T& value = T());
  vector(initializer_list<T>);
  T* begin();
  T* end();
  const T* begin() const;
  const T* end() const;
  T* data();
  const T* data() const;
  size_t size() const;
  bool empty() const;
  void resize(size_t);
  void push_back(const T&);
  T& operator[](size_t);
  const T& operator[](size_t) const;
};

class ostream {
 public:
  template <class T>
  ostream& operator<<(const T&);
  ostream& operator<<(ostream& (*)(ostream&));
};
ostream& endl(ostream&);
extern ostream cout, cerr;

struct exception {
  virtual const char* what() const;
};
struct runtime_error : exception {
  runtime_error(const string&);
};
struct invalid_argument : exception {
  invalid_argument(const string&);
};

struct nullopt_t {};
inline constexpr nullopt_t nullopt{};
template <class T>
class optional {
 public:
  optional();
  optional(nullopt_t);
  optional(const T&);
  bool has_value() const;
  explicit operator bool() const;
  T& value();
  const T& value() const;
  T value_or(T) const;
  T* operator->();
  T& operator*();
};

template <class... T>
class tuple {
 public:
  tuple(T...);
};
template <class... T>
tuple<T...> make_tuple(T...);

}  // namespace std
