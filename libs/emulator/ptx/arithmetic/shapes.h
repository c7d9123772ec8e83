// Operations on one, two or three registers of 32 lanes, and the table that lists them.
#pragma once
#include <map>
#include <string>

#include "../lanes.h"
#include "../lower.h"

namespace flashcore::emu::ptx {

namespace {

template <class Op, class D, class A>
const Ins* unary(Warp& w, const Ins* i) {
  const A* a = w.reg<A>(i->a);
  write_lanes<D>(w, i->d, w.active(i), [=](int k) { return static_cast<D>(Op::of(a[k])); });
  return i + 1;
}

template <class Op, class D, class A, class B>
const Ins* binary(Warp& w, const Ins* i) {
  const A* a = w.reg<A>(i->a);
  const B* b = w.reg<B>(i->b);
  write_lanes<D>(w, i->d, w.active(i), [=](int k) { return static_cast<D>(Op::of(a[k], b[k])); });
  return i + 1;
}

template <class Op, class D, class A, class B, class C>
const Ins* ternary(Warp& w, const Ins* i) {
  const A* a = w.reg<A>(i->a);
  const B* b = w.reg<B>(i->b);
  const C* c = w.reg<C>(i->c);
  write_lanes<D>(w, i->d, w.active(i), [=](int k) { return static_cast<D>(Op::of(a[k], b[k], c[k])); });
  return i + 1;
}

using Table = std::map<std::string, Operation>;

template <class T>
constexpr uint8_t bytes_of() {
  return sizeof(T);
}

template <class Op, class D, class A>
void add1(Table& t, const std::string& name) {
  t[name] = {unary<Op, D, A>, 2, {bytes_of<D>(), bytes_of<A>(), 0, 0}};
}
template <class Op, class D, class A, class B>
void add2(Table& t, const std::string& name) {
  t[name] = {binary<Op, D, A, B>, 3, {bytes_of<D>(), bytes_of<A>(), bytes_of<B>(), 0}};
}
template <class Op, class D, class A, class B, class C>
void add3(Table& t, const std::string& name) {
  t[name] = {ternary<Op, D, A, B, C>, 4, {bytes_of<D>(), bytes_of<A>(), bytes_of<B>(), bytes_of<C>()}};
}

}  // namespace

}  // namespace flashcore::emu::ptx
