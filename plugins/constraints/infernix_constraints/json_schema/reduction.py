"""The reduction: from a document to a graph in which every node generates something."""

from __future__ import annotations

from infernix_constraints.json_schema.conjunction import Conjunctions
from infernix_constraints.json_schema.document import SchemaDocument
from infernix_constraints.json_schema.draft import Draft, union_of
from infernix_constraints.json_schema.evaluation import Evaluation
from infernix_constraints.json_schema.exclusion import Exclusion
from infernix_constraints.json_schema.graph import Note, ReducedSchema, Shape
from infernix_constraints.json_schema.liveness import renumbered
from infernix_constraints.json_schema.source import read_json

#: Passes that look for equal nodes; each finds those whose children the pass before has merged.
SHARING_ROUNDS = 32


def reduce_schema(source: str) -> ReducedSchema:
    """Reads, checks and reduces a JSON Schema document.

    Args:
        source: The document's JSON text; member order counts.

    Raises:
        InvalidSchema: It is not JSON or not a schema.
        UnsupportedSchema: It asserts something that cannot be enforced exactly.
        UnsatisfiableSchema: No value satisfies it.
    """
    document = SchemaDocument(read_json(source))
    evaluation = Evaluation(document)
    exclusion = Exclusion(document, evaluation)
    conjunctions = Conjunctions(document, evaluation, exclusion.exclusive)
    draft = Draft(conjunctions, exclusion.satisfiable)
    draft.reduce(document.conjunction([""]))
    generating = draft.generating()
    if 0 not in generating:
        raise draft.explain(generating)
    nodes = draft.pruned(generating)
    return _share(nodes, (*document.notes, *draft.objectless(generating)))


def _share(nodes: list[tuple[Shape, ...]], notes: tuple[Note, ...]) -> ReducedSchema:
    """Merges equal nodes, leaves first, so that a grammar spells each of them once.

    Nodes that only become equal later than ``SHARING_ROUNDS`` stay apart, which costs size and no meaning.
    """
    for _ in range(SHARING_ROUNDS):
        first: dict[tuple[Shape, ...], int] = {}
        target = {node: first.setdefault(shapes, node) for node, shapes in enumerate(nodes)}
        kept = sorted(set(target.values()))
        if len(kept) == len(nodes):
            break
        position = {node: place for place, node in enumerate(kept)}
        index = {node: position[target[node]] for node in target}
        nodes = [union_of([renumbered(shape, index) for shape in nodes[node]]) for node in kept]
    return ReducedSchema(tuple(nodes), notes=notes)
