"""Roles of texts in models that name them otherwise: prompts under other names, adapters chosen by task."""

from __future__ import annotations

from typing import Literal

from sentence_transformers import SentenceTransformer

from normwise.models.structure import reader

Role = Literal["query", "document"]

# sentence-transformers looks for the first of each list only: it fills that name with an empty prompt.
_PROMPT_NAMES: dict[Role, tuple[str, ...]] = {
    "query": ("query", "retrieval.query"),
    "document": ("document", "passage", "corpus", "retrieval.passage"),
}
_TASKS: dict[Role, str] = {"query": "retrieval.query", "document": "retrieval.passage"}


def adopt_prompts(st: SentenceTransformer) -> tuple[str, ...]:
    """Give the prompts of queries and documents the names that sentence-transformers looks for, in place.

    Returns:
        A note for each prompt that stood under another name.
    """
    notes = []
    for role, names in _PROMPT_NAMES.items():
        if st.prompts.get(role):
            continue
        found = next((name for name in names[1:] if st.prompts.get(name)), None)
        if found is not None:
            st.prompts[role] = st.prompts[found]
            notes.append(f"its prompt {found!r} ({st.prompts[role]!r}) is put before each {role}")
    return tuple(notes)


def task_of(st: SentenceTransformer, role: Role) -> str:
    """The task to encode a role's texts with: its own name, or the adapter's for a model with one adapter per task.

    jina-embeddings-v3, whose first module lists its adapters, knows no tasks but these and refuses the names of roles.
    """
    first = reader(st)
    adapters = getattr(first, "_lora_adaptations", None)
    return _TASKS[role] if isinstance(adapters, list) and _TASKS[role] in adapters else role
