// The names of trees and corrections, for every program that takes or prints them. The enumerations are declared here
// without their headers, so that a program of the public API alone can use this one, too.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace ucft::detail {

enum class Tree : std::uint8_t;
enum class Numbering : std::uint8_t;
enum class Correction : std::uint8_t;

// In the order of the enumerations.
std::span<const char* const> tree_names();
std::span<const char* const> numbering_names();
std::span<const char* const> correction_names();

const char* tree_name(Tree tree);
const char* numbering_name(Numbering numbering);
const char* correction_name(Correction correction);

// False, and nothing changed: no such name.
bool parse_tree(std::string_view name, Tree& tree);
bool parse_numbering(std::string_view name, Numbering& numbering);
bool parse_correction(std::string_view name, Correction& correction);

}  // namespace ucft::detail
