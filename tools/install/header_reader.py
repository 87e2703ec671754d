"""Reads ucft.h: its comments, structures, enums and functions, for manual pages and for the test of the ABI. Not a
compiler: it knows the forms that ucft.h has, and says so when it meets another one.
"""
import pathlib
import re

Field = tuple[str, str]   # name, type


class Declaration:
    """kind: struct, enum, type or function; comment: the one above it, without stars."""

    def __init__(self, kind, name, text, comment, section):
        self.kind, self.name, self.text, self.comment, self.section = kind, name, text, comment, section
        self.members: list[Field] = []      # of a struct or enum, and parameters of a function
        self.result = ""                    # of a function
        self.initialiser = ""               # the macro of a struct

    def __repr__(self):
        return f"{self.kind} {self.name}"


def plain(comment):
    """What is between /* and */, without the stars at the beginning of lines."""
    lines = comment.strip()[2:-2].split("\n")
    return "\n".join(re.sub(r"^\s*\* ?", "", line).rstrip() if at else line.strip()
                     for at, line in enumerate(lines)).strip()


def without_comments(text):
    return re.sub(r"/\*.*?\*/", " ", text, flags=re.S)


def split_declarator(text):
    """'const void* send' -> ('send', 'const void*'); a pointer to a function keeps its parameters in its type."""
    text = " ".join(text.split())
    pointer = re.match(r"(.*)\(\*(\w+)\)(\(.*\))$", text)
    if pointer:
        return pointer[2], f"{pointer[1].strip()} (*){pointer[3]}"
    kind, name, lengths = re.match(r"(.*?)(\w+)((?:\[\w+\])*)$", text).groups()
    return name, kind.strip() + lengths


# A comment, or a declaration, at the beginning of a line.
PIECE = re.compile(r"""
    (?P<comment> ^/\*.*?\*/ )
  | (?P<struct> ^typedef\ struct\ \{ (?P<fields>.*?) ^\}\ (?P<struct_name>\w+); )
  | (?P<enum> ^typedef\ enum\ UCFT_OF_INT\ \{ (?P<values>.*?) \}\ (?P<enum_name>\w+); )
  | (?P<handle> ^typedef\ struct\ \w+\*\ (?P<handle_name>\w+); )
  | (?P<callback> ^typedef\ \w+\ \(\*(?P<callback_name>\w+)\) [^;]* ; )
  | (?P<function> ^UCFT_API\ (?P<result>[^;(]*?) (?P<function_name>ucft_\w+) \( (?P<parameters>[^;]*) \); )
  | (?P<macro> ^\#define\ (?P<macro_name>\w+) (?:\\\n|[^\n])* )
  | (?P<blank> ^\n )
""", re.S | re.M | re.X)


def read_header(path):
    """(the file's own comment, declarations in their order)"""
    text = pathlib.Path(path).read_text()
    opening, comment, section, declarations = "", "", "", []
    for piece in PIECE.finditer(text):
        whole, kind = piece[0], piece.lastgroup
        if piece["comment"]:
            title = re.match(r"/\* -+ (.*?) -+ \*/", whole)
            if title:
                section = title[1]
            elif not opening:
                opening = plain(whole)
            else:
                comment = plain(whole)
            continue
        if piece["blank"]:
            comment = ""
            continue
        if piece["macro"]:
            for struct in declarations:
                if struct.kind == "struct" and f"sizeof({struct.name})" in whole:
                    struct.initialiser = piece["macro_name"]
            continue
        kind = next(name for name in ("struct", "enum", "handle", "callback", "function") if piece[name])
        name = piece[f"{kind}_name"]
        found = Declaration("type" if kind in ("handle", "callback") else kind, name, whole.strip(), comment, section)
        if kind == "struct":
            found.members = [split_declarator(each) for each in without_comments(piece["fields"]).split(";")
                             if each.strip()]
        elif kind == "enum":
            found.members = [(each.split("=")[0].strip(), "") for each in without_comments(piece["values"]).split(",")
                             if each.strip()]
        elif kind == "function":
            found.result = " ".join(piece["result"].split())
            parameters = " ".join(piece["parameters"].split())
            found.members = [split_declarator(each) for each in parameters.split(",")] if parameters != "void" else []
        declarations.append(found)
    missed = len(re.findall(r"^UCFT_API ", text, re.M)) - sum(each.kind == "function" for each in declarations)
    missed += len(re.findall(r"^typedef ", text, re.M)) - sum(each.kind != "function" for each in declarations)
    if missed:
        raise SystemExit(f"{path}: {missed} declarations of a form that {__file__} does not know")
    return opening, declarations
