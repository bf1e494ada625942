"""``unevaluatedProperties`` and ``unevaluatedItems``, spelled out for one alternative."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from infernix_constraints.json_schema.assertions import TRUE, Assertions
from infernix_core.errors import UnsupportedSchema


def closing(owner: Assertions, evaluating: Iterable[Assertions]) -> Iterator[Assertions]:
    """What a position asserts on the members and items that none of some positions evaluates.

    Every alternative names the branches that apply, and a value that satisfies further ones satisfies a
    further alternative too. So what counts is what the positions of this alternative evaluate.

    Args:
        owner: The position with the unevaluated keywords.
        evaluating: The positions that apply in place within it, itself included.

    Raises:
        UnsupportedSchema: What they evaluate depends on values.
    """
    positions = list(evaluating)
    if owner.unevaluated_properties is not None and not any(
        each.additional is not None
        or (each is not owner and each.unevaluated_properties is not None)
        for each in positions
    ):
        yield Assertions(
            f"#{owner.key}#unevaluatedProperties {' '.join(each.key for each in positions)}",
            owner.pointer,
            properties={name: TRUE for each in positions for name in each.properties},
            patterns=tuple((test, TRUE) for each in positions for test, _ in each.patterns),
            additional=owner.unevaluated_properties,
        )
    if owner.unevaluated_items is not None and not any(
        each.items is not None or (each is not owner and each.unevaluated_items is not None)
        for each in positions
    ):
        if any(each.contains for each in positions):
            raise UnsupportedSchema(
                "unevaluatedItems beside contains cannot be enforced",
                location=owner.location("unevaluatedItems"),
            )
        evaluated = max((len(each.prefix) for each in positions), default=0)
        yield Assertions(
            f"#{owner.key}#unevaluatedItems {evaluated}",
            owner.pointer,
            prefix=(TRUE,) * evaluated,
            items=owner.unevaluated_items,
        )
