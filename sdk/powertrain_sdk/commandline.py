"""Reads a container's command line and says in words why its steps can't be counted automatically, where that shows."""

import os
import re
import shlex

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import List, Optional, Sequence, Union

_PYTHON = re.compile(r"^(python|pypy)(?P<major>\d)?(\.(?P<minor>\d+))?$")
_ASSIGNMENT = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*=")
_SHELLS = ("sh", "bash", "dash", "ash", "zsh", "busybox")
_SEPARATORS = ("&&", "||", ";", "|", "&", "(", ")", "\n", ";;", "|&")
_FLAGS = {
    "E": "-E makes Python ignore PYTHONPATH",
    "I": "-I makes Python ignore PYTHONPATH",
    "S": "-S makes Python skip sitecustomize",
}
_REMEDY = "; drop it, or install powertrain-sdk in the image, call powertrain_sdk.step() and set instrumentation: SDK"
_OLD_REMEDY = "; use Python 3.6 or newer, or set instrumentation: None"


def diagnose(command: "Union[str, Sequence[str]]") -> "Optional[str]":
    """Return why this command's steps can't be counted without a change of code, None when nothing speaks against it.

    The command is a pod's `command` and `args` in one list, or a line of shell. What can't be seen in it (an
    image's own entry point, a script's first line, a program that calls Python later) is not judged.
    """
    if isinstance(command, str):
        return _diagnose_shell(command)
    return _diagnose_words(list(command))


def _diagnose_shell(line: str) -> "Optional[str]":
    try:
        lexer = shlex.shlex(line.replace("\n", " ; "), posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = list(lexer)
    except ValueError:
        return None
    simple: "List[str]" = []
    for word in words + [";"]:
        if word not in _SEPARATORS:
            simple.append(word)
            continue
        reason = _diagnose_words(simple)
        if reason is not None:
            return reason
        simple = []
    return None


def _diagnose_words(words: "List[str]") -> "Optional[str]":
    environment = _diagnose_environment(words)
    for index, word in enumerate(words):
        name = os.path.basename(word)
        rest = words[index + 1 :]
        if name in _SHELLS:
            return environment or _diagnose_shell_call(rest)
        python = _PYTHON.match(name)
        if python is None:
            continue
        major, minor = python.group("major"), python.group("minor")
        if major == "2" or (major == "3" and minor is not None and int(minor) < 6):
            return "%s is too old to be counted in%s" % (name, _OLD_REMEDY)
        return environment or _diagnose_flags(name, rest)
    return None


def _diagnose_shell_call(arguments: "List[str]") -> "Optional[str]":
    for index, word in enumerate(arguments):
        if not word.startswith("-"):
            return None if word != "sh" else _diagnose_shell_call(arguments[index + 1 :])
        if not word.startswith("--") and "c" in word[1:] and index + 1 < len(arguments):
            return _diagnose_shell(arguments[index + 1])
    return None


def _diagnose_environment(words: "List[str]") -> "Optional[str]":
    """Look for what takes PYTHONPATH away before the program starts."""
    program = ""
    for index, word in enumerate(words):
        name = os.path.basename(word)
        if name in ("env", "sudo"):
            program = name
        elif word.startswith("PYTHONPATH=") and "$PYTHONPATH" not in word and "${PYTHONPATH" not in word:
            return "the command replaces PYTHONPATH (write PYTHONPATH=…:$PYTHONPATH)"
        elif program == "env" and word in ("-i", "-", "--ignore-environment"):
            return "env %s clears PYTHONPATH%s" % (word, _REMEDY)
        elif program == "env" and (
            word in ("-uPYTHONPATH", "--unset=PYTHONPATH")
            or (word in ("-u", "--unset") and words[index + 1 : index + 2] == ["PYTHONPATH"])
        ):
            return "env %s removes PYTHONPATH%s" % (word, _REMEDY)
        elif _PYTHON.match(name) or name in _SHELLS:
            break
    return "sudo clears PYTHONPATH%s" % _REMEDY if program == "sudo" else None


def _diagnose_flags(name: str, arguments: "List[str]") -> "Optional[str]":
    takes_next = False
    for word in arguments:
        if takes_next:
            takes_next = False
            continue
        if not word.startswith("-") or word in ("-", "--"):
            return None
        if word.startswith("--"):
            continue
        for position, letter in enumerate(word[1:], 1):
            if letter in _FLAGS:
                return "%s %s: %s%s" % (name, word, _FLAGS[letter], _REMEDY)
            if letter in "cm":
                return None
            if letter in "WX":
                takes_next = position == len(word) - 1
                break
    return None
