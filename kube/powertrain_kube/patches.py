"""JSON merge patches (RFC 7386): what has to be sent so that one document becomes another."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]


def difference(before: Object, after: Object) -> Object:
    """Return the patch that makes `after` of `before`: what is gone is null, lists are replaced as wholes."""
    patch: Object = dict.fromkeys(name for name in before if name not in after)
    for name, value in after.items():
        current = before.get(name)
        if isinstance(current, dict) and isinstance(value, dict):
            inner = difference(current, value)
            patch |= {name: inner} if inner else {}
        elif name not in before or current != value:
            patch[name] = value
    return patch


def patched(target: Any, patch: Any) -> Any:
    """Return what a server makes of a document and a patch; the document itself stays as it is."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = patched(result.get(name), value)
    return result
