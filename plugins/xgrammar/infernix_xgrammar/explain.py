"""An output language as text, for people."""

from __future__ import annotations

from infernix_constraints.content import content_grammar
from infernix_constraints.grammar import Text
from infernix_constraints.printing import expression_text, grammar_text
from infernix_core.interfaces import language as algebra
from infernix_core.interfaces.constraints import JsonObject, JsonSchema, OutputConstraint
from infernix_json_masks.provider import JsonMaskProvider


def explain(language: algebra.Language) -> str:
    """The tree on its first line, then each constraint's grammar; a bare constraint is its grammar alone.

    Raises:
        ConstraintError: A constraint in it is not valid or not supported.
    """
    if isinstance(language, algebra.Content):
        return content_text(language.constraint)
    names: dict[OutputConstraint, str] = {}
    for node in algebra.walk(language):
        if isinstance(node, algebra.Content) and node.constraint not in names:
            names[node.constraint] = f"<{node.constraint.kind} {len(names) + 1}>"
    sections = [f"language ::= {_tree(language, names)}"]
    arguments = [node for node in algebra.walk(language) if isinstance(node, algebra.Members)]
    for text in dict.fromkeys(map(JsonMaskProvider().explain, arguments)):
        sections += [text] if text else []
    for constraint, name in names.items():
        rules = content_text(constraint).replace("\n", "\n  ")
        sections.append(f"{name}:\n  {rules}")
    return "\n\n".join(sections)


def content_text(constraint: OutputConstraint) -> str:
    """One constraint's reduced form: a schema's graph, else its grammar.

    Raises:
        ConstraintError: It is not valid or not supported.
    """
    if isinstance(constraint, JsonObject | JsonSchema):
        return JsonMaskProvider().explain(algebra.Content(constraint))
    return grammar_text(content_grammar(constraint))


def _tree(node: algebra.Language, names: dict[OutputConstraint, str]) -> str:
    match node:
        case algebra.Token(id=token):
            return f"Token({token})"
        case algebra.TextExcept(ids=ids):
            return f"ExcludeToken({', '.join(map(str, sorted(ids)))})"
        case algebra.Literal(bytes=raw):
            return expression_text(Text(raw.decode()))
        case algebra.Content(constraint=constraint):
            return names[constraint]
        case algebra.Sequence(parts=parts):
            return " ".join(_tree(part, names) for part in parts) or '""'
        case algebra.Union(alternatives=alternatives):
            return "(" + " | ".join(_tree(option, names) for option in alternatives) + ")"
        case algebra.Label(name=name, part=part):
            return f"{name}:({_tree(part, names)})"
        case algebra.Separated(part=part, separator=separator):
            return f"{_tree(part, names)} ({_tree(separator, names)} {_tree(part, names)})*"
        case algebra.Members(schema=schema, owner=owner):
            return f"<arguments{f' of {owner}' if owner else ''}{'' if schema else ', any'}>"
        case algebra.Repeat(part=part, minimum=minimum, maximum=maximum):
            bounds = "*" if (minimum, maximum) == (0, None) else f"{{{minimum},{maximum or ''}}}"
            return f"({_tree(part, names)}){bounds}"
    return repr(node)
